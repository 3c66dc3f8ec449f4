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
	// silence is how long nothing may come: the service says every 15 seconds that it is still there.
	silence = 60 * time.Second

	hasEnded   = 1000
	notAllowed = 1008
	hasFailed  = 1011
)

// LogLine is a line of a log, and whose it is. Timestamp is when it was printed, to the nanosecond.
type LogLine struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Timestamp string `json:"timestamp"`
	Text      string `json:"text"`
}

// FollowOptions say which lines of a log are followed.
type FollowOptions struct {
	// Tail is how many of the last lines of each pod come first; nil leaves it to the service, which gives 100.
	Tail *int64
	// Since is how far back: a length of time such as 10m, or a time.
	Since string
	// Grep is a text that a line has to contain.
	Grep string
	// Pod is the only one whose lines come.
	Pod string
	// Container is another one than the job's own.
	Container string
	// Namespace is where the job is, if its name is in several.
	Namespace string
}

// LogStream gives the lines of a log as they come:
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
	body     io.ReadCloser
	scanner  *bufio.Scanner
	watchdog *time.Timer
	stop     context.CancelFunc
	line     LogLine
	done     bool
	err      error
}

// FollowLogs follows what a job prints, until it has ended. A connection that breaks is made again; no line comes twice.
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

// Next waits for the next line. It is false when the log has ended, and when something failed: [LogStream.Err] has what.
func (s *LogStream) Next() bool {
	for !s.done {
		err := s.read()
		if err == nil {
			s.failures = 0
			return true
		}
		s.disconnect()
		if s.done {
			break
		}
		s.failures++
		if s.ctx.Err() != nil {
			s.end(s.ctx.Err())
		} else if s.failures >= s.client.retry.Attempts || !isTransient(s.ctx, err) {
			s.end(err)
		} else if err := sleep(s.ctx, s.client.retry.after(s.failures, "")); err != nil {
			s.end(err)
		}
	}
	return false
}

// Line is the one that Next went to.
func (s *LogStream) Line() LogLine { return s.line }

// Err is what failed, if anything did.
func (s *LogStream) Err() error { return s.err }

// Close ends it, while nobody is in Next; ending the context does it at any time.
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

// read reads up to the next line.
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

// take takes an event; an error ends the connection.
func (s *LogStream) take(id, name, data string) (bool, error) {
	switch name {
	case "", "message":
		s.line = LogLine{}
		if err := json.Unmarshal([]byte(data), &s.line); err != nil {
			return false, &UnexpectedAnswerError{s.request.method + " " + s.request.path, "what comes are no lines of a log"}
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
	made, err := s.client.made(ctx, s.request, nil)
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
		return &UnexpectedAnswerError{s.request.method + " " + s.request.path, "the answer is no stream of events"}
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
