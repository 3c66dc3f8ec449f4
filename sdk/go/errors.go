package gpuctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// APIError is an answer that is no success. Use errors.As to get at it.
type APIError struct {
	// Status is HTTP's.
	Status int
	// Name is what programs compare: NotFound, AlreadyExists.
	Name string
	// Message is for people.
	Message string
	// Details has more, one by one: of documents their diagnostics.
	Details []json.RawMessage
	// Hint says what to do, where that is known.
	Hint string
	// RequestID finds it in the service's log.
	RequestID string
}

// Error is for people.
func (e *APIError) Error() string {
	text := fmt.Sprintf("%s (%s, %d)", e.Message, e.Name, e.Status)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// UnexpectedAnswerError is an answer that is none of this API's: what answers at this address is something else.
type UnexpectedAnswerError struct {
	// Request is its method and path.
	Request string
	// Reason says what is wrong with the answer.
	Reason string
}

// Error is for people.
func (e *UnexpectedAnswerError) Error() string { return "gpuctl: " + e.Request + ": " + e.Reason }

// JobEndedError says that a job has ended, and not as it was waited for.
type JobEndedError struct {
	Job    string
	Status string
}

// Error is for people.
func (e *JobEndedError) Error() string { return e.Job + " is " + e.Status }

// connectionError is that of a request that was not answered.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return "gpuctl: " + e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

var errNoOption = errors.New("it is none of what is answered here")

// errorOf is the error that an answer says. What is not the service's own may be a page for browsers: it is left out.
func errorOf(response *http.Response, data []byte) *APIError {
	found := &APIError{Status: response.StatusCode, RequestID: response.Header.Get("X-Request-ID")}
	var value struct {
		Error   string            `json:"error"`
		Message *string           `json:"message"`
		Details []json.RawMessage `json:"details"`
		Hint    string            `json:"hint"`
	}
	if err := json.Unmarshal(data, &value); err != nil || value.Message == nil {
		found.Name = "HTTPError"
		found.Message = fmt.Sprintf("the answer has the status %d, and is not the service's", response.StatusCode)
		return found
	}
	found.Name, found.Message, found.Details, found.Hint = value.Error, *value.Message, value.Details, value.Hint
	return found
}

// reason says why an answer could not be read, without its text.
func reason(data []byte, err error) string {
	if !json.Valid(data) {
		return "the answer is no JSON"
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return "the answer is not as the API has it: " + wrong.Field
	}
	return "the answer is not as the API has it"
}

// hasKeys tells whether data is an object that has certain keys.
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
