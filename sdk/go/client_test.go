package gpuctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const secret = "gpuctl_very-secret-token"

var soon = Retry{Attempts: 4, Pause: time.Millisecond, Longest: 2 * time.Millisecond}

// serving answers with handlers in their turn, the last for ever; asked counts requests.
func serving(t *testing.T, handlers ...http.HandlerFunc) (client *Client, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := int(asked.Add(1))
		handlers[min(number, len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	client, err := New(server.URL, secret, WithRetry(soon))
	if err != nil {
		t.Fatal(err)
	}
	return client, asked
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-ID", "id-1")
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

func cut(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

const (
	away    = `{"error": "ServiceUnavailable", "message": "away", "details": []}`
	lost    = `{"error": "NotFound", "message": "there is no job a", "details": [{"a": 1}], "hint": "look"}`
	paused  = `{"jobId": "a-1", "status": "paused", "message": "a is paused", "newer": {"x": 1}}`
	created = `{"jobId": "a-1", "name": "a", "namespace": "n", "kind": "training", "pool": null, "status": "pending",
		"createdAt": null, "message": "m", "warnings": []}`
)

func TestIdempotentIsSentAgain(t *testing.T) {
	for name, trouble := range map[string]http.HandlerFunc{
		"503": status(503, away), "502": status(502, "<html>"), "429": status(429, away), "cut": cut,
	} {
		t.Run(name, func(t *testing.T) {
			sent := map[string]bool{}
			noted := func(next http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					sent[r.Header.Get("Idempotency-Key")+string(body)] = true
					next(w, r)
				}
			}
			client, asked := serving(t, noted(trouble), noted(trouble), noted(status(201, created)))
			made, err := client.CreateJobs(context.Background(), "kind: training\n", nil)
			if err != nil || made.JobID == nil || *made.JobID != "a-1" || made.Pool != nil {
				t.Fatalf("%+v, %v", made, err)
			}
			// What net/http sends again by itself comes on top.
			if asked.Load() < 3 || len(sent) != 1 {
				t.Fatalf("%d requests, %d different", asked.Load(), len(sent))
			}
		})
	}
}

func TestDeletionWhoseAnswerWasLostMayHaveSucceeded(t *testing.T) {
	for hint, handlers := range map[string][]http.HandlerFunc{
		"an earlier attempt of this deletion ended without a result: it may have succeeded": {cut, status(404, lost)},
		"look": {status(404, lost)},
	} {
		client, _ := serving(t, handlers...)
		var refused *APIError
		if _, err := client.DeleteJob(context.Background(), "a", nil); !errors.As(err, &refused) || refused.Hint != hint {
			t.Fatalf("%v, not %q", err, hint)
		}
	}
}

func TestKeys(t *testing.T) {
	var keys []string
	client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		status(201, created)(w, r)
	})
	for _, options := range []*CreateJobsOptions{nil, {}, {IdempotencyKey: "mine"}} {
		if _, err := client.CreateJobs(context.Background(), "x", options); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys[0]) != 32 || keys[0] == keys[1] || keys[2] != "mine" {
		t.Fatal(keys)
	}
}

func TestOtherIsSentOnce(t *testing.T) {
	for _, trouble := range []http.HandlerFunc{status(503, away), cut} {
		client, asked := serving(t, trouble)
		if _, err := client.RerunJob(context.Background(), "a", nil); err == nil {
			t.Fatal("no error")
		}
		if asked.Load() != 1 {
			t.Fatalf("%d requests", asked.Load())
		}
	}
}

func TestItGivesUp(t *testing.T) {
	client, asked := serving(t, status(503, away))
	_, err := client.ListJobs(context.Background(), nil)
	var refused *APIError
	if !errors.As(err, &refused) || refused.Status != 503 || asked.Load() != 4 {
		t.Fatalf("%v after %d requests", err, asked.Load())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	client, _ = New("http://"+listener.Addr().String(), secret, WithRetry(soon))
	var broken *connectionError
	if _, err := client.ListJobs(context.Background(), nil); !errors.As(err, &broken) {
		t.Fatal(err)
	}
}

func TestTimeoutsAndContexts(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	client, asked := serving(t, hang)
	client.timeout = 20 * time.Millisecond
	if _, err := client.GetJob(context.Background(), "a", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if asked.Load() != 1 {
		t.Fatalf("%d requests", asked.Load())
	}
	// The service may take longer for a change.
	late := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		status(200, paused)(w, r)
	}
	slow, _ := serving(t, late)
	slow.timeout = 20 * time.Millisecond
	if _, err := slow.PauseJob(context.Background(), "a", nil); err != nil {
		t.Fatal(err)
	}
	WithTimeout(20 * time.Millisecond)(slow)
	if _, err := slow.PauseJob(context.Background(), "a", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	client.timeout = 0
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.GetJob(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Also while it waits to send again.
	client, _ = serving(t, status(503, away))
	client.retry = Retry{Attempts: 2, Pause: time.Hour, Longest: time.Hour}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.GetJob(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	client, asked := serving(t, status(404, lost))
	_, err := client.GetJob(context.Background(), "a", nil)
	var refused *APIError
	if !errors.As(fmt.Errorf("wrapped: %w", err), &refused) || asked.Load() != 1 {
		t.Fatal(err)
	}
	expected := &APIError{404, "NotFound", "there is no job a", []json.RawMessage{[]byte(`{"a": 1}`)}, "look", "id-1"}
	if !reflect.DeepEqual(refused, expected) || err.Error() != "there is no job a (NotFound, 404); look" {
		t.Fatalf("%+v", refused)
	}
}

func TestErrorsOfUsage(t *testing.T) {
	for body, expected := range map[string]string{
		`{"code": 404, "message": "Not found", "error": "there is no cluster a"}`:                                                "there is no cluster a (NotFound, 404)",
		`{"code": 503, "message": "Service unavailable", "error": "there is no usage database", "reason": "UsageNotConfigured"}`: "there is no usage database (UsageNotConfigured, 503)",
	} {
		code := 404
		if strings.Contains(body, "503") {
			code = 503
		}
		client, _ := serving(t, status(code, body))
		if _, err := client.ListUsageClusters(context.Background()); err == nil || err.Error() != expected {
			t.Fatal(err)
		}
	}
}

func TestAnswersThatAreNotTheServices(t *testing.T) {
	for _, body := range []string{"<html>secret page</html>", "", "[]", `{"message": 1}`, "\xff", `{"total": "x"}`} {
		client, _ := serving(t, status(403, body))
		_, err := client.ListJobs(context.Background(), nil)
		var refused *APIError
		if !errors.As(err, &refused) || refused.Name != "HTTPError" || strings.Contains(err.Error(), "page") {
			t.Fatal(err)
		}
		if body == `{"message": 1}` {
			continue // As an answer it is an object whose fields are all zero.
		}
		client, _ = serving(t, status(200, body))
		_, err = client.ListJobs(context.Background(), nil)
		var unexpected *UnexpectedAnswerError
		if !errors.As(err, &unexpected) || strings.Contains(err.Error(), "page") {
			t.Fatalf("%q: %v", body, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer other.Close()
	client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, 307) })
	var refused *APIError
	if _, err := client.GetJob(context.Background(), "a", nil); !errors.As(err, &refused) || refused.Status != 307 {
		t.Fatal(err)
	}
}

func TestNamesAreOnePartOfAPath(t *testing.T) {
	for _, name := range []string{"a/b", "a b", "ä?#", "%2e", "..", "."} {
		var path, namespace string
		client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
			path, namespace = r.URL.Path, r.URL.Query().Get("namespace")
			status(200, paused)(w, r)
		})
		if _, err := client.PauseJob(context.Background(), name, &PauseJobOptions{Namespace: "x&y"}); err != nil {
			t.Fatal(err)
		}
		if path != "/api/v1/jobs/"+name+"/pause" || namespace != "x&y" {
			t.Fatal(path, namespace)
		}
	}
}

func TestTheTokenIsNowhere(t *testing.T) {
	client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			t.Error("no token")
		}
		status(401, lost)(w, r)
	})
	_, err := client.ListJobs(context.Background(), nil)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", client, client, client, client), fmt.Sprintf("%v %+v %#v", *client, *client, *client), fmt.Sprintf("%+v %#v", err, err)} {
		if strings.Contains(text, secret) {
			t.Fatal(text)
		}
	}
	for _, bad := range []string{"", secret + "\n", secret + "ä", "a b"} {
		client, _ = New("http://127.0.0.1:1", bad)
		if _, err := client.ListJobs(context.Background(), nil); err == nil || strings.Contains(err.Error(), secret) {
			t.Fatal(err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "gpuctl", "ftp://x", "http://", "http://user:word@x", "http://x?a=1", "http://x/#/jobs", "http://%zz"} {
		if _, err := New(bad, secret); err == nil {
			t.Fatal(bad)
		}
	}
	for _, good := range []string{"https://x", "https://x/", "https://x/api/v1", "https://x/api/v1/"} {
		client, err := New(good, secret)
		if err != nil || client.url != "https://x/api/v1" {
			t.Fatal(good, client, err)
		}
	}
}

func TestPauses(t *testing.T) {
	retry := Retry{Attempts: 9, Pause: 250 * time.Millisecond, Longest: 5 * time.Second}
	for attempt := 1; attempt < 100; attempt++ {
		for after, least := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "99999": 5 * time.Second, "x": 0, "-1": 0} {
			pause := retry.after(attempt, after)
			if pause < max(least, 125*time.Millisecond) || pause > 5*time.Second {
				t.Fatal(attempt, after, pause)
			}
		}
	}
}

func TestParameters(t *testing.T) {
	var query string
	client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		status(200, `{}`)(w, r)
	})
	seconds, most, no := 1.5, int64(0), false
	for expected, options := range map[string]*DeleteJobsOptions{
		"":                            {},
		"confirm=true&timeout=1.5":    {Confirm: true, Timeout: &seconds},
		"checkpoint=false&force=true": {Checkpoint: &no, Force: true},
	} {
		if _, err := client.DeleteJobs(context.Background(), NamesBody{Names: []string{"a"}}, options); err != nil || query != expected {
			t.Fatal(query, err)
		}
	}
	if _, err := client.FitWaiting(context.Background(), &FitWaitingOptions{Holders: &most, MaxAge: &seconds}); err != nil || query != "holders=0&maxAge=1.5" {
		t.Fatal(query, err)
	}
}

func TestPausesThatAreLeftOutAreTheDefaults(t *testing.T) {
	for attempt, least := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if pause := (Retry{Attempts: 8}).after(attempt+1, ""); pause < least || pause > 2*least {
			t.Fatal(attempt, pause)
		}
	}
	if pause := (Retry{Attempts: 8}).after(1, "3"); pause != 3*time.Second {
		t.Fatal(pause)
	}
}

func TestAllPages(t *testing.T) {
	var pages []string
	client, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		pages = append(pages, page+" of "+r.URL.Query().Get("pageSize")+" "+r.URL.Query().Get("key"))
		items := map[string]string{"1": `{"nodeName": "a"}, {"nodeName": "b"}`, "2": `{"nodeName": "c"}`}[page]
		status(200, `{"total": 3, "items": [`+items+`]}`)(w, r)
	})
	nodes := client.AllNodesWithLabel(context.Background(), "k", &ListNodesWithLabelOptions{PageSize: 2})
	var names []string
	for nodes.Next() {
		names = append(names, nodes.Item().NodeName)
	}
	if nodes.Err() != nil || strings.Join(names, "") != "abc" || strings.Join(pages, ",") != "1 of 2 k,2 of 2 k" {
		t.Fatal(names, pages, nodes.Err())
	}
	client, _ = serving(t, status(200, `{"total": 3, "items": [{"nodeName": "a"}]}`), status(404, lost))
	names = nil
	client.AllNodes(context.Background(), nil).All(func(node NodeItem, err error) bool {
		names = append(names, fmt.Sprint(node.NodeName, err))
		return true
	})
	if len(names) != 2 || !strings.HasPrefix(names[0], "a") || !strings.Contains(names[1], "NotFound") {
		t.Fatal(names)
	}
}

func TestUnions(t *testing.T) {
	client, _ := serving(t, status(200, `{"total": 0, "items": []}`), status(200, `{"what": 1}`))
	found, err := client.GetQuota(context.Background(), "a")
	if err != nil || found.Quota != nil || found.QuotaList == nil {
		t.Fatal(found, err)
	}
	if _, err := client.GetQuota(context.Background(), "a"); err == nil {
		t.Fatal("no error")
	}
}

func TestDocuments(t *testing.T) {
	text, err := Documents("kind: a", map[string]any{"x": "\u007f\u2028\ufeff<ä"}, "b\n")
	if err != nil || text != "kind: a\n---\n"+`{"x":"\u007f\u2028\ufeff\u003cä"}`+"\n---\nb\n" {
		t.Fatal(text, err)
	}
	if _, err := Documents(make(chan int)); err == nil {
		t.Fatal("no error")
	}
}

func described(phase string) http.HandlerFunc {
	return status(200, `{"name": "a", "status": "`+phase+`"}`)
}

func TestWaiting(t *testing.T) {
	options := &WaitOptions{Every: time.Millisecond}
	client, asked := serving(t, described("pending"), described("running"), described("succeeded"))
	found, err := client.WaitForJob(context.Background(), "a", options)
	if err != nil || found != "succeeded" || asked.Load() != 3 {
		t.Fatal(found, err, asked.Load())
	}
	// A service that is replaced may be away for longer than the retries of a request.
	handlers := []http.HandlerFunc{described("running")}
	for len(handlers) <= 2*soon.Attempts {
		handlers = append(handlers, status(503, away))
	}
	client, _ = serving(t, append(handlers, described("succeeded"))...)
	if found, err := client.WaitForJob(context.Background(), "a", options); err != nil || found != "succeeded" {
		t.Fatal(found, err)
	}
	client, _ = serving(t, status(503, away))
	var refused *APIError
	if _, err := client.WaitForJob(context.Background(), "a", options); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	client, _ = serving(t, described("pending"), described("failed"))
	_, err = client.WaitForJob(context.Background(), "a", &WaitOptions{Until: []string{"running"}, Every: time.Millisecond})
	var otherwise *JobEndedError
	if !errors.As(err, &otherwise) || otherwise.Status != "failed" {
		t.Fatal(err)
	}
	client, _ = serving(t, described("pending"))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := client.WaitForJob(ctx, "a", options); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
