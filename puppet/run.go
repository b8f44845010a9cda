package puppet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Order says what to run.
type Order struct {
	ID     string   // the run's id, for --job-id and $BELLPULL_RUN
	Tags   []string // what the run is limited to; nil = nothing
	Noop   bool     // preview only
	Wanted string   // path of the file that says what is wanted, for $BELLPULL_WANTED
	// Changes are what the run is for, for $BELLPULL_SCOPES, $BELLPULL_ENTRIES and
	// the file $BELLPULL_CHANGES.
	Changes []Due
}

// Run is a run under way, as it is kept on disk: a watcher that is started while
// it goes on picks it up.
type Run struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Process Process   `json:"process,omitzero"` // zero = not started yet, as far as is known
	Tags    []string  `json:"tags,omitempty"`
	Noop    bool      `json:"noop,omitzero"`
	Why     string    `json:"why"`
	Attempt int       `json:"attempt,omitzero"` // how many runs went before it for the same state
	// Bucket and Handed are what was wanted at the start.
	Bucket string                   `json:"bucket"`
	Handed map[schemas.Scope]Handed `json:"handed"`
	// Covers are the entries that a run with tags, or a preview, is for; nil = all.
	Covers map[schemas.Scope]map[string]Cover `json:"covers,omitempty"`
	Events []string                           `json:"events,omitempty"` // that it is for, at most [schemas.MaxStatusNames]
	Permit *schemas.Permit                    `json:"permit,omitzero"`  // under which it goes on
	Asked  time.Time                          `json:"asked,omitzero"`   // when the permit was asked for
}

// Handed is what was wanted of one scope when a run was started.
type Handed struct {
	Revision uint64            `json:"revision"`
	Entries  map[string]string `json:"entries"` // digest by name
}

// Cover is an entry for which a limited run was started.
type Cover struct {
	Digest string   `json:"digest"`
	Tags   []string `json:"tags,omitempty"`
}

// Runner carries runs out; [Agent] is one.
type Runner interface {
	// Blocked says whether a run may start now.
	Blocked() Blocked
	// Start starts a run; an error means that nothing was started.
	Start(o Order) (Process, error)
	// Wait waits for the end of a run, whoever started it, and tells its result. Its
	// only error is ctx's: then the run goes on.
	Wait(ctx context.Context, run Run) (Result, error)
	// Reported tells when the report of the last run was written, whoever started
	// that; zero = there is none, or runs leave none.
	Reported() time.Time
	// Report reads that report.
	Report() (Report, error)
}

// newRunID returns an id that is never used again, fit for a file's name.
func newRunID(now time.Time) string {
	var random [6]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return now.UTC().Format("20060102t150405z-") + hex.EncodeToString(random[:])
}
