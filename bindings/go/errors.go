// The errors. A denial is not an error: it is a Decision.

package tollgate

import (
	"fmt"
	"net/http"
)

// StoreError says that there is no decision: the service did not answer, or its store did not.
type StoreError struct {
	// Transient is true when the same call may succeed later.
	Transient bool
	// Ambiguous is true when the units may have been charged nevertheless, as after a lost answer.
	Ambiguous bool
	// Err is the cause. errors.Is finds context.Canceled and context.DeadlineExceeded in it.
	Err error
}

func (e *StoreError) Error() string { return "no decision: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// ArgumentError is a question that makes no sense, or that the service takes from no caller.
type ArgumentError struct {
	// Field is the place in the question, such as `limit`; empty where the service names none.
	Field string
	// Message says what is wrong, and what would be right.
	Message string
	// Status is that of HTTP: 400, 401, 403, 404, 413 or 431; 0 where nothing was asked.
	Status int
}

func (e *ArgumentError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// HoldError is a hold that is not open: it has ended, was released or reset, or never was. Its
// Full is true where the count has as many holds as it can have.
type HoldError struct {
	Message string
	Full    bool
}

func (e *HoldError) Error() string { return e.Message }

func wrong(field, format string, words ...any) *ArgumentError {
	return &ArgumentError{Field: field, Message: fmt.Sprintf(format, words...)}
}

// ofStatus is the error for a response of HTTP that is no answer.
func ofStatus(status int, problem fields, mayCharge bool) error {
	field, detail := problem.text("field"), problem.text("detail")
	if detail == "" {
		detail = http.StatusText(status)
	}
	switch {
	case status == http.StatusConflict:
		return &HoldError{Message: detail, Full: field == ""}
	case status >= http.StatusInternalServerError:
		err := fmt.Errorf("%d: %s", status, detail)
		return &StoreError{Transient: true, Ambiguous: mayCharge, Err: err}
	default:
		return &ArgumentError{Field: field, Message: detail, Status: status}
	}
}
