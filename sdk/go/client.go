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

// Version is that of this package.
const Version = "0.1.0"

const (
	base           = "/api/v1"
	defaultTimeout = 75 * time.Second
	largestAnswer  = 64 << 20
	largePage      = 500
)

// TokenSource gives the token that is valid now. It is asked for each request.
type TokenSource func(ctx context.Context) (string, error)

// Client is the service at an address, for somebody's token. [New] makes one.
type Client struct {
	url     string
	token   TokenSource
	http    *http.Client
	timeout time.Duration
	retry   Retry
	plain   bool
}

// Option changes how a client works.
type Option func(*Client)

// WithHTTPClient sends requests with this client: for TLS, proxies, tests. Its own timeout would end logs that are
// followed.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) {
		own := *client
		c.http = &own
	}
}

// WithTimeout bounds each attempt of a request, until its answer was read; 0: only the context does. The default is 75
// seconds, as the service lets some requests wait for 60. Logs that are followed are not bounded.
func WithTimeout(timeout time.Duration) Option { return func(c *Client) { c.timeout = timeout } }

// WithRetry says how often, and after what pauses, something is sent again.
func WithRetry(retry Retry) Option { return func(c *Client) { c.retry = retry } }

// WithTokenSource asks for a token before each request, instead of using that of [New].
func WithTokenSource(source TokenSource) Option { return func(c *Client) { c.token = source } }

// WithInsecurePlainHTTP accepts an http:// address of another machine. The token is sent unencrypted: use it only in a
// network that nobody else uses.
func WithInsecurePlainHTTP() Option { return func(c *Client) { c.plain = true } }

// New makes a client.
//
// The address is one such as https://gpuctl.example.com, with or without /api/v1.
func New(address, token string, options ...Option) (*Client, error) {
	where, err := url.Parse(address)
	if err != nil || (where.Scheme != "http" && where.Scheme != "https") || where.Host == "" || where.User != nil ||
		where.RawQuery != "" {
		return nil, errors.New("gpuctl: the address of the service is one such as https://gpuctl.example.com")
	}
	c := &Client{
		url:     strings.TrimSuffix(strings.TrimRight(address, "/"), base) + base,
		token:   func(context.Context) (string, error) { return token, nil },
		http:    &http.Client{},
		timeout: defaultTimeout,
		retry:   DefaultRetry,
	}
	for _, option := range options {
		option(c)
	}
	if where.Scheme == "http" && !c.plain && !isLoopback(where.Hostname()) {
		return nil, errors.New("gpuctl: the token would be sent without encryption: use https://, or " +
			"WithInsecurePlainHTTP in a network that nobody else uses")
	}
	// A token goes to the service, and nowhere else.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// String names the service, and not the token.
func (c Client) String() string { return "gpuctl.Client(" + c.url + ")" }

// GoString is as String.
func (c Client) GoString() string { return c.String() }

// request is what is sent; path is below the base, and repeatable what may be sent twice.
type request struct {
	method     string
	path       string
	query      url.Values
	body       any
	key        string
	repeatable bool
}

// send sends a request, as often as it has to be, and decodes its answer.
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
			return err
		}
		if err := sleep(ctx, c.retry.after(attempt, header.Get("Retry-After"))); err != nil {
			return err
		}
	}
}

// once sends a request and reads its answer.
func (c *Client) once(ctx context.Context, r request, body []byte) ([]byte, http.Header, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	made, err := c.made(ctx, r, body)
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
		return nil, nil, &connectionError{fmt.Errorf("%s %s: the answer broke off: %w", r.method, r.path, err)}
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, response.Header, errorOf(response, data)
	}
	return data, response.Header, nil
}

// made is a request as net/http has it.
func (c *Client) made(ctx context.Context, r request, body []byte) (*http.Request, error) {
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
		return nil, errors.New("gpuctl: the token is empty, or has characters that no token has")
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

// keyOr is the key of a request, made where none is given.
func keyOr(given string) string {
	if given != "" {
		return given
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err) // No system that Go runs on is without random numbers.
	}
	return hex.EncodeToString(random[:])
}

// segment is a name as one part of a path, whatever it contains.
func segment(name string) string {
	switch name {
	case ".", "..":
		// A path would lose them, also where they are escaped.
		return "%2E" + strings.Repeat("%2E", len(name)-1)
	}
	return url.PathEscape(name)
}

func join(parts ...string) string { return strings.Join(parts, "") }

// set adds a parameter that was said.
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
	}
}
