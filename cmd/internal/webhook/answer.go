package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// problem is an error's answer (RFC 9457). Errors have a JSON pointer each.
type problem struct {
	Type    string        `json:"type"`
	Title   string        `json:"title"`
	Status  int           `json:"status"`
	Detail  string        `json:"detail,omitzero"`
	Errors  []problemItem `json:"errors,omitempty"`
	Results []any         `json:"results,omitempty"` // of a batch, where some events were stored
}

type problemItem struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// errForbidden: the sender is known and may not do this.
var errForbidden = errors.New("not allowed")

// statusOf is the one table from errors to HTTP.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errUnproven), errors.Is(err, errStale):
		return http.StatusUnauthorized
	case errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errSlow):
		return http.StatusRequestTimeout
	case errors.Is(err, errMedia):
		return http.StatusUnsupportedMediaType
	case errors.Is(err, errRate):
		return http.StatusTooManyRequests
	case errors.Is(err, errBusy), errors.Is(err, schemas.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, errBody), errors.Is(err, schemas.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, schemas.ErrConflict):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// detail is what a sender is told of an error. What only the operator can mend,
// and where the store is, stays in the log.
func detail(err error) string {
	var limited *rateError
	switch status := statusOf(err); {
	case errors.As(err, &limited):
		return limited.Error()
	case errors.Is(err, errKind):
		return errKind.Error() + "; the gateway's operator has to mend it, then send the event again"
	case errors.Is(err, errBusy):
		return errBusy.Error() + "; send it again"
	case status == http.StatusServiceUnavailable:
		return "the store of desired state gave no answer in time; send the same event again, which does no harm if it was stored"
	case status == http.StatusInternalServerError:
		return "something went wrong here; the gateway's log says what"
	}
	return err.Error()
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, rec *record, err error, results []any) {
	status := statusOf(err)
	rec.err = err
	p := problem{Detail: detail(err), Results: results}
	if invalid, ok := errors.AsType[*schemas.InvalidError](err); ok && status == http.StatusBadRequest {
		p.Detail = fmt.Sprintf("%s: %d faults", invalid.What, len(invalid.Faults))
		if len(invalid.Faults) == 1 {
			p.Detail = invalid.Error()
		}
		for _, f := range invalid.Faults {
			p.Errors = append(p.Errors, problemItem{Pointer: f.Pointer, Detail: f.Message})
		}
	}
	header := w.Header()
	var limited *rateError
	switch {
	case errors.As(err, &limited):
		header.Set("Retry-After", strconv.Itoa(int(max(limited.wait.Round(time.Second), time.Second)/time.Second)))
	case status == http.StatusServiceUnavailable:
		header.Set("Retry-After", "2")
	case status == http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	}
	h.problem(w, rec, status, p)
}

func (h *Handler) problem(w http.ResponseWriter, rec *record, status int, p problem) {
	p.Type, p.Title, p.Status = "about:blank", http.StatusText(status), status
	rec.status = status
	write(w, status, "application/problem+json", p)
}

// write sends data as JSON.
func write(w http.ResponseWriter, status int, contentType string, data any) {
	text, err := json.Marshal(data, json.Deterministic(true))
	if err != nil { // made of strings and values that were parsed
		status, text = http.StatusInternalServerError, nil
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who has gone does not read it
}
