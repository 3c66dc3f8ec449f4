package gpuctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	longestEvent = 16 << 20
	// silence is the longest time without data: the service sends something every 15 seconds.
	silence = 60 * time.Second

	hasEnded   = 1000
	notAllowed = 1008
	hasFailed  = 1011
)

// LogLine is a log line with its pod and container. Timestamp has nanoseconds.
type LogLine struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Timestamp string `json:"timestamp"`
	Text      string `json:"text"`
}

// FollowOptions select the lines of a log.
type FollowOptions struct {
	// Tail is the number of earlier lines of each pod; nil uses the default of the service, 100.
	Tail *int64
	// Since is the start: a duration such as 10m, or a time.
	Since string
	// Grep is a text that lines must contain.
	Grep string
	// Pod selects the lines of one pod.
	Pod string
	// Container selects another container than the job's own.
	Container string
	// Namespace is the namespace of the job; required if the name is ambiguous.
	Namespace string
}

// LogStream iterates over the lines of a followed log:
//
//	lines := client.FollowLogs(ctx, "qwen2-7b-sft", nil)
//	defer lines.Close()
//	for lines.Next() {
//		fmt.Println(lines.Line().Text)
//	}
//	if err := lines.Err(); err != nil { ... }
type LogStream struct {
	client   *Client
	ctx      context.Context
	cancel   context.CancelFunc
	request  request
	last     string
	failures int
	heard    time.Time
	body     io.ReadCloser
	scanner  *bufio.Scanner
	watchdog *time.Timer
	stop     context.CancelFunc
	line     LogLine
	done     bool
	err      error
}

// FollowLogs follows the log of a job until it has ended. It reconnects after a broken connection and returns no line
// twice.
func (c *Client) FollowLogs(ctx context.Context, job string, options *FollowOptions) *LogStream {
	if options == nil {
		options = &FollowOptions{}
	}
	query := url.Values{"follow": {"true"}}
	set(query, "tail", options.Tail)
	set(query, "since", options.Since)
	set(query, "grep", options.Grep)
	set(query, "pod", options.Pod)
	set(query, "container", options.Container)
	set(query, "namespace", options.Namespace)
	ctx, cancel := context.WithCancel(ctx)
	path := join("/jobs/", segment(job), "/logs")
	return &LogStream{
		client: c, ctx: ctx, cancel: cancel,
		request: request{method: http.MethodGet, path: path, query: query, repeatable: true},
	}
}

// Next waits for the next line. It returns false when the log has ended, and after an error, which [LogStream.Err]
// returns.
func (s *LogStream) Next() bool {
	for !s.done {
		err := s.read()
		if err == nil {
			s.failures, s.heard = 0, time.Now()
			return true
		}
		s.disconnect()
		if s.done {
			break
		}
		s.failures++
		if s.ctx.Err() != nil {
			s.end(s.ctx.Err())
		} else if s.gaveUp() || !isTransient(s.ctx, err) {
			s.end(err)
		} else if err := sleep(s.ctx, s.client.retry.after(s.failures, "")); err != nil {
			s.end(err)
		}
	}
	return false
}

// gaveUp returns true if there are no attempts left, and the service is not only being replaced.
func (s *LogStream) gaveUp() bool {
	most := s.client.retry.Attempts
	return s.failures >= most && (most <= 1 || time.Since(s.heard) > outage)
}

// Line returns the current line.
func (s *LogStream) Line() LogLine { return s.line }

// Err returns the error that ended the log, if any.
func (s *LogStream) Err() error { return s.err }

// Close ends the stream. Do not call it during Next; cancel the context instead.
func (s *LogStream) Close() error {
	s.done = true
	s.disconnect()
	s.cancel()
	return nil
}

func (s *LogStream) end(err error) {
	s.done, s.err = true, err
	s.cancel()
}

// read reads until the next line.
func (s *LogStream) read() error {
	if s.scanner == nil {
		if err := s.connect(); err != nil {
			return err
		}
	}
	var id, name string
	var data []string
	for s.scanner.Scan() {
		s.watchdog.Reset(silence)
		if strings.HasPrefix(s.scanner.Text(), ":") {
			// The service sends comments while there are no lines: the next break is not one more in a row.
			s.failures, s.heard = 0, time.Now()
		}
		field, value, _ := strings.Cut(s.scanner.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = append(data, value)
		}
		if s.scanner.Text() != "" {
			continue
		}
		if len(data) > 0 {
			isLine, err := s.take(id, name, strings.Join(data, "\n"))
			if isLine || err != nil {
				return err
			}
		}
		id, name, data = "", "", nil
	}
	if err := s.scanner.Err(); err != nil {
		return &connectionError{err}
	}
	return &connectionError{io.ErrUnexpectedEOF}
}

// take handles an event and returns true if it is a line; an error ends the connection.
func (s *LogStream) take(id, name, data string) (bool, error) {
	switch name {
	case "", "message":
		s.line = LogLine{}
		if err := json.Unmarshal([]byte(data), &s.line); err != nil {
			return false, &UnexpectedAnswerError{s.request.method + " " + s.request.path, "the stream contains an event that is not a log line"}
		}
		if id != "" {
			s.last = id
		}
		return true, nil
	case "end":
		var why struct {
			Code   int    `json:"code"`
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal([]byte(data), &why); err != nil {
			return false, &connectionError{io.ErrUnexpectedEOF}
		}
		switch why.Code {
		case hasEnded:
			s.end(nil)
		case notAllowed:
			return false, &APIError{Status: http.StatusForbidden, Name: "Forbidden", Message: why.Reason}
		case hasFailed:
			return false, &APIError{Status: http.StatusInternalServerError, Name: "InternalError", Message: why.Reason}
		}
		return false, &connectionError{errors.New(why.Reason)}
	}
	return false, nil
}

func (s *LogStream) connect() error {
	ctx, cancel := context.WithCancel(s.ctx)
	s.stop, s.watchdog = cancel, time.AfterFunc(max(silence, s.client.timeout), cancel)
	made, err := s.client.newRequest(ctx, s.request, nil)
	if err != nil {
		return err
	}
	made.Header.Set("Accept", "text/event-stream")
	if s.last != "" {
		made.Header.Set("Last-Event-ID", s.last)
	}
	response, err := s.client.http.Do(made)
	if err != nil {
		return &connectionError{err}
	}
	s.body = response.Body
	if response.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
		return errorOf(response, data)
	}
	if kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); kind != "text/event-stream" {
		return &UnexpectedAnswerError{s.request.method + " " + s.request.path, "the response is not an event stream"}
	}
	s.scanner = bufio.NewScanner(response.Body)
	s.scanner.Buffer(nil, longestEvent)
	return nil
}

func (s *LogStream) disconnect() {
	if s.watchdog != nil {
		s.watchdog.Stop()
		s.stop()
	}
	if s.body != nil {
		s.body.Close()
	}
	s.body, s.scanner, s.watchdog = nil, nil, nil
}
