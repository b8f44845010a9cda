package schemas

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// The kinds of failure on which a caller decides. Errors of the other packages
// wrap one of these; [errors.Is] tells which.
var (
	// ErrInvalid says that the input breaks a rule; the same input never passes.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound says that what was asked for does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the standing state does not allow the change.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable says that the store gave no answer: what it holds is unknown.
	ErrUnavailable = errors.New("unavailable")
)

// Fault is one broken rule and its place.
type Fault struct {
	Pointer string `json:"pointer"` // RFC 6901 JSON pointer; "" is the whole text
	Message string `json:"message"` // what is wrong and what is allowed, never a secret's text
}

// InvalidError lists every fault of one input. It matches [ErrInvalid].
type InvalidError struct {
	What   string // the input, such as "document" or "scope"
	Faults []Fault
}

// Error gives all faults in one line, each after its pointer.
func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	for i, f := range e.Faults {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		if f.Pointer != "" {
			b.WriteString(f.Pointer)
			b.WriteString(": ")
		}
		b.WriteString(f.Message)
	}
	return b.String()
}

// Is reports whether target is [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(what, pointer, message string) *InvalidError {
	return &InvalidError{What: what, Faults: []Fault{{Pointer: pointer, Message: message}}}
}

func sortFaults(faults []Fault) {
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
}
