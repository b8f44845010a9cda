// Package cli is what all of bellpull's programs share around their work:
// signals, exit codes, how an error is shown, the logger and the version.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// The exit codes. They are part of the interface.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitInvalid     = 4
	ExitConflict    = 5
	ExitUnavailable = 6
	ExitWouldChange = 7
)

// Streams are a program's input and outputs: Out is for data, Err for talk.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ErrWouldChange ends a dry run that found something to do, if its exit code is to say so. It is shown nowhere.
var ErrWouldChange = errors.New("something would change")

// Main runs a program until it is done or told to stop by SIGINT or SIGTERM,
// which end ctx. It shows the error as one line on stderr after the program's
// name, its hint as another, and returns the exit code.
func Main(name string, run func(ctx context.Context, streams Streams, args []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	streams := Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	err := run(ctx, streams, os.Args[1:])
	if err != nil && !errors.Is(err, ErrWouldChange) {
		show(streams.Err, name, err)
	}
	return ExitCode(err)
}

func show(w io.Writer, name string, err error) {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	var asJSON *jsonError
	var hinted *hintError
	hint := ""
	if errors.As(err, &hinted) {
		hint = hinted.hint
	}
	if !errors.As(err, &asJSON) {
		fmt.Fprintf(w, "%s: %s\n", name, text)
		if hint != "" {
			fmt.Fprintf(w, "hint: %s\n", hint)
		}
		return
	}
	out := struct {
		Error  string          `json:"error"`
		Code   int             `json:"code"`
		Hint   string          `json:"hint,omitzero"`
		Faults []schemas.Fault `json:"faults,omitempty"`
	}{Error: text, Code: ExitCode(err), Hint: hint}
	var invalid *schemas.InvalidError
	if errors.As(err, &invalid) {
		out.Faults = invalid.Faults
	}
	line, _ := json.Marshal(out) // strings and a number: cannot fail
	fmt.Fprintf(w, "%s\n", line)
}

// ExitCode returns the code for err.
func ExitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, schemas.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, schemas.ErrInvalid):
		return ExitInvalid
	case errors.Is(err, schemas.ErrConflict):
		return ExitConflict
	case errors.Is(err, schemas.ErrUnavailable):
		return ExitUnavailable
	case errors.Is(err, ErrWouldChange):
		return ExitWouldChange
	}
	return ExitFailure
}

type usageError struct{ error }

// Usage marks an error as a wrong use of the command line; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

func (e *usageError) Unwrap() error { return e.error }

type hintError struct {
	error
	hint string
}

// Hint adds what to do about an error, on a line of its own; nil stays nil, and an
// error that has a hint keeps it.
func Hint(err error, hint string) error {
	var hinted *hintError
	if err == nil || hint == "" || errors.As(err, &hinted) {
		return err
	}
	return &hintError{err, hint}
}

func (e *hintError) Unwrap() error { return e.error }

type jsonError struct{ error }

// JSON marks an error to be shown as a JSON object; nil stays nil.
func JSON(err error) error {
	if err == nil {
		return nil
	}
	return &jsonError{err}
}

func (e *jsonError) Unwrap() error { return e.error }
