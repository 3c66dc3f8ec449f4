package gpuctl

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Version is the version of this package.
const Version = "0.1.0"

const (
	base           = "/api/v1"
	defaultTimeout = 75 * time.Second
	// The service carries out a change for at most ten minutes.
	longestChange = 660 * time.Second
	largestAnswer = 64 << 20
	largePage     = 500
)

// TokenSource returns the current token. It is called for each request.
type TokenSource func(ctx context.Context) (string, error)

// Client is a client for the service at an address, created by [New].
type Client struct {
	url     string
	token   TokenSource
	http    *http.Client
	timeout time.Duration
	longest time.Duration
	retry   Retry
	plain   bool
}

// Option configures a client.
type Option func(*Client)

// WithHTTPClient uses this HTTP client: for TLS, proxies, tests. Do not set its timeout, which would end followed logs.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) {
		own := *client
		c.http = &own
	}
}

// WithTimeout limits each attempt of a request, until its response was read; 0: only the context limits it. The default
// is 75 seconds, because the service holds a request for at most 60, and 11 minutes for changes, which may save
// checkpoints or wait for pods. Followed logs are not limited.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout, c.longest = timeout, timeout }
}

// WithRetry sets the retry policy.
func WithRetry(retry Retry) Option { return func(c *Client) { c.retry = retry } }

// WithTokenSource calls a function for the token before each request, instead of using that of [New].
func WithTokenSource(source TokenSource) Option { return func(c *Client) { c.token = source } }

// WithInsecurePlainHTTP allows an http:// address of another machine. The token is sent unencrypted: use it only in a
// network that you do not share.
func WithInsecurePlainHTTP() Option { return func(c *Client) { c.plain = true } }

// New creates a client for an address such as https://gpuctl.example.com, with or without /api/v1.
func New(address, token string, options ...Option) (*Client, error) {
	where, err := url.Parse(address)
	if err != nil || (where.Scheme != "http" && where.Scheme != "https") || where.Host == "" || where.User != nil ||
		where.RawQuery != "" || where.Fragment != "" {
		return nil, errors.New("gpuctl: the address of the service is invalid: it must look like https://gpuctl.example.com")
	}
	c := &Client{
		url:     strings.TrimSuffix(strings.TrimRight(address, "/"), base) + base,
		token:   func(context.Context) (string, error) { return token, nil },
		http:    &http.Client{},
		timeout: defaultTimeout,
		longest: longestChange,
		retry:   DefaultRetry,
	}
	for _, option := range options {
		option(c)
	}
	if where.Scheme == "http" && !c.plain && !isLoopback(where.Hostname()) {
		return nil, errors.New("gpuctl: the token would be sent without encryption: use https://, or " +
			"WithInsecurePlainHTTP in a network that you do not share")
	}
	// A redirect could send the token to another server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// String returns the address, without the token.
func (c Client) String() string { return "gpuctl.Client(" + c.url + ")" }

// GoString returns the same as String.
func (c Client) GoString() string { return c.String() }

// request is a request; path is below the base, repeatable is true if repeating it has no further effect, and waits if
// the response may take minutes.
type request struct {
	method     string
	path       string
	query      url.Values
	body       any
	key        string
	repeatable bool
	waits      bool
}

// send sends a request, retries it if needed, and decodes its response.
func (c *Client) send(ctx context.Context, r request, answer any) error {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return fmt.Errorf("gpuctl: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		data, header, err := c.once(ctx, r, body)
		if err == nil {
			if err := json.Unmarshal(data, answer); err != nil {
				return &UnexpectedAnswerError{Request: r.method + " " + r.path, Reason: reason(data, err)}
			}
			return nil
		}
		if !r.repeatable || attempt >= c.retry.Attempts || !isTransient(ctx, err) {
			var refused *APIError
			if r.method == http.MethodDelete && attempt > 1 && errors.As(err, &refused) && refused.Status == http.StatusNotFound {
				refused.Hint = "an earlier attempt of this deletion ended without a result: it may have succeeded"
			}
			return err
		}
		if err := sleep(ctx, c.retry.after(attempt, header.Get("Retry-After"))); err != nil {
			return err
		}
	}
}

// once sends a request once and reads its response.
func (c *Client) once(ctx context.Context, r request, body []byte) ([]byte, http.Header, error) {
	timeout := c.timeout
	if r.waits {
		timeout = c.longest
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	made, err := c.newRequest(ctx, r, body)
	if err != nil {
		return nil, nil, err
	}
	response, err := c.http.Do(made)
	if err != nil {
		return nil, nil, &connectionError{err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return nil, nil, &connectionError{fmt.Errorf("%s %s: the response broke off: %w", r.method, r.path, err)}
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, response.Header, errorOf(response, data)
	}
	return data, response.Header, nil
}

// newRequest returns a request for net/http.
func (c *Client) newRequest(ctx context.Context, r request, body []byte) (*http.Request, error) {
	target := c.url + r.path
	if encoded := r.query.Encode(); encoded != "" {
		target += "?" + encoded
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	made, err := http.NewRequestWithContext(ctx, r.method, target, reader)
	if err != nil {
		return nil, fmt.Errorf("gpuctl: %w", err)
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("gpuctl: there is no token: %w", err)
	}
	if !isToken(token) {
		return nil, errors.New("gpuctl: the token is empty or has invalid characters")
	}
	made.Header.Set("Authorization", "Bearer "+token)
	made.Header.Set("Accept", "application/json")
	made.Header.Set("User-Agent", "gpuctl-sdk-go/"+Version)
	if body != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		made.Header.Set("Idempotency-Key", r.key)
	}
	return made, nil
}

func isToken(token string) bool {
	for _, character := range token {
		if character <= ' ' || character > '~' {
			return false
		}
	}
	return token != ""
}

// keyOr returns the given key, or a random one.
func keyOr(given string) string {
	if given != "" {
		return given
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err) // Every supported system has random numbers.
	}
	return hex.EncodeToString(random[:])
}

// segment returns a name, escaped as one segment of a path.
func segment(name string) string {
	switch name {
	case ".", "..":
		// These segments are removed from a path, unless both dots are escaped.
		return "%2E" + strings.Repeat("%2E", len(name)-1)
	}
	return url.PathEscape(name)
}

func join(parts ...string) string { return strings.Join(parts, "") }

// set adds a parameter unless it has its zero value.
func set(query url.Values, name string, value any) {
	switch value := value.(type) {
	case string:
		if value != "" {
			query.Set(name, value)
		}
	case bool:
		if value {
			query.Set(name, "true")
		}
	case int:
		if value != 0 {
			query.Set(name, strconv.Itoa(value))
		}
	case *int64:
		if value != nil {
			query.Set(name, strconv.FormatInt(*value, 10))
		}
	case *float64:
		if value != nil {
			query.Set(name, strconv.FormatFloat(*value, 'g', -1, 64))
		}
	case *bool:
		if value != nil {
			query.Set(name, strconv.FormatBool(*value))
		}
	}
}
