package gpuctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// events sends events, and breaks off behind them.
func events(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, part := range parts {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

func lineEvent(id, text string) string {
	return fmt.Sprintf("id: %s\ndata: {\"pod\": \"p\", \"container\": \"main\", \"timestamp\": \"2026-06-01T10:00:00Z\",\ndata: \"text\": \"%s\"}\n\n", id, text)
}

func endEvent(code int) string {
	return fmt.Sprintf("event: end\ndata: {\"code\": %d, \"reason\": \"has finished\"}\n\n", code)
}

func TestALogThatBreaksIsReadOn(t *testing.T) {
	var asked []string
	noted := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.String()+" "+r.Header.Get("Last-Event-ID"))
			next(w, r)
		}
	}
	client, _ := serving(t,
		noted(status(503, away)),
		noted(events("retry: 3000\n\n", ":\n\n", lineEvent("1", "a"), "event: notice\ndata: {}\n\n", lineEvent("2", "b"), "id: 3\ndata: {\"pod\"")),
		noted(cut),
		noted(events(lineEvent("3", "c"), endEvent(1012))),
		noted(events(lineEvent("4", "d"), endEvent(1000))),
	)
	tail := int64(0)
	lines := client.FollowLogs(context.Background(), "a/b", &FollowOptions{Tail: &tail, Grep: "x y"})
	defer lines.Close()
	var texts []string
	for lines.Next() {
		texts = append(texts, lines.Line().Text)
	}
	if lines.Err() != nil || strings.Join(texts, "") != "abcd" {
		t.Fatal(texts, lines.Err())
	}
	url := "/api/v1/jobs/a%2Fb/logs?follow=true&grep=x+y&tail=0 "
	for number, last := range []string{"", "", "2", "2", "3"} {
		// net/http may have sent one again by itself, when it was cut.
		if number < 3 && asked[number] != url+last {
			t.Fatal(number, asked)
		}
	}
	if asked[len(asked)-1] != url+"3" {
		t.Fatal(asked)
	}
}

func TestAQuietLogIsFollowedThroughBreaks(t *testing.T) {
	var handlers []http.HandlerFunc
	for len(handlers) < 2*soon.Attempts {
		handlers = append(handlers, events("retry: 3000\n\n", ":\n\n"))
	}
	// The service has been alive, and is being replaced.
	for len(handlers) < 4*soon.Attempts {
		handlers = append(handlers, status(503, away))
	}
	client, _ := serving(t, append(handlers, events(lineEvent("1", "a"), endEvent(1000)))...)
	lines := client.FollowLogs(context.Background(), "a", nil)
	if !lines.Next() || lines.Line().Text != "a" || lines.Next() || lines.Err() != nil {
		t.Fatal(lines.Line(), lines.Err())
	}
}

func TestALogThatCannotBeFollowed(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"there is no job a (NotFound, 404); look": status(404, lost),
		"away (ServiceUnavailable, 503)":          status(503, away),
		"has finished (Forbidden, 403)":           events(endEvent(1008)),
		"has finished (InternalError, 500)":       events(endEvent(1011)),
		"gpuctl: has finished":                    events(endEvent(1013)),
		"gpuctl: unexpected EOF":                  events(),
		"not an event stream":                     status(200, "<html>"),
		"not a log line":                          events("data: x\n\n"),
	} {
		client, _ := serving(t, handler)
		lines := client.FollowLogs(context.Background(), "a", nil)
		if lines.Next() || lines.Err() == nil || !strings.Contains(lines.Err().Error(), name) {
			t.Fatal(name, lines.Err())
		}
		if lines.Next() {
			t.Fatal("it goes on")
		}
	}
}

func TestALogIsLeft(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) {
		events(lineEvent("1", "a"))(w, r)
		<-r.Context().Done()
	}
	client, _ := serving(t, hang)
	ctx, cancel := context.WithCancel(context.Background())
	lines := client.FollowLogs(ctx, "a", nil)
	if !lines.Next() {
		t.Fatal(lines.Err())
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if lines.Next() || !errors.Is(lines.Err(), context.Canceled) {
		t.Fatal(lines.Err())
	}
	lines = client.FollowLogs(context.Background(), "a", nil)
	if !lines.Next() {
		t.Fatal(lines.Err())
	}
	lines.Close()
	if lines.Next() || lines.Err() != nil {
		t.Fatal(lines.Err())
	}
}
