package gpuctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// APIError is an error response of the service. Use errors.As to obtain it.
type APIError struct {
	// Status is the HTTP status.
	Status int
	// Name is stable and meant for programs: NotFound, AlreadyExists.
	Name string
	// Message is a text for people.
	Message string
	// Details lists further information; for invalid documents, the diagnostics.
	Details []json.RawMessage
	// Hint says what to do; empty if unknown.
	Hint string
	// RequestID identifies the request in the service's log.
	RequestID string
}

// Error returns a message for people.
func (e *APIError) Error() string {
	text := fmt.Sprintf("%s (%s, %d)", e.Message, e.Name, e.Status)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// UnexpectedAnswerError is a response that is not one of this API: the server at this address is not a gpuctl service.
type UnexpectedAnswerError struct {
	// Request is the method and path.
	Request string
	// Reason says what is wrong with the response.
	Reason string
}

// Error returns a message for people.
func (e *UnexpectedAnswerError) Error() string { return "gpuctl: " + e.Request + ": " + e.Reason }

// JobEndedError means that a job has ended with another status than expected.
type JobEndedError struct {
	Job    string
	Status string
}

// Error returns a message for people.
func (e *JobEndedError) Error() string { return e.Job + " is " + e.Status }

// connectionError is the error of a request without a response.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return "gpuctl: " + e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

var errNoOption = errors.New("the response matches none of the expected types")

// errorOf returns the error of a response. The body of a response that is not the service's own is omitted: it may be an
// HTML page.
func errorOf(response *http.Response, data []byte) *APIError {
	found := &APIError{Status: response.StatusCode, RequestID: response.Header.Get("X-Request-ID")}
	var value struct {
		Error   string            `json:"error"`
		Message *string           `json:"message"`
		Details []json.RawMessage `json:"details"`
		Hint    string            `json:"hint"`
		Code    *int              `json:"code"`
		Reason  string            `json:"reason"`
	}
	if err := json.Unmarshal(data, &value); err != nil || value.Message == nil {
		found.Name = "HTTPError"
		found.Message = fmt.Sprintf("the response has status %d and is not from gpuctl", response.StatusCode)
		return found
	}
	found.Name, found.Message, found.Details, found.Hint = value.Error, *value.Message, value.Details, value.Hint
	if value.Code != nil && value.Error != "" {
		// The usage paths return the kind of error in message, and what is wrong in error.
		found.Name, found.Message = value.Reason, value.Error
		if found.Name == "" {
			found.Name = usageError(found.Status)
		}
	}
	return found
}

// usageError returns the name of an error of the usage paths, which return a name only as the reason of some.
func usageError(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusUnauthorized:
		return "Unauthorized"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	}
	return "Error"
}

// reason returns why a response could not be read, without its text.
func reason(data []byte, err error) string {
	if !json.Valid(data) {
		return "the response is not JSON"
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return "the response does not match the API: " + wrong.Field
	}
	return "the response does not match the API"
}

// hasKeys returns true if data is an object with all of these keys.
func hasKeys(data []byte, keys ...string) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return false
	}
	for _, key := range keys {
		if _, ok := object[key]; !ok {
			return false
		}
	}
	return true
}
