// Package factsource makes the external fact: what a node's scopes say now, as
// one line for Facter.
//
//   - [New] takes the scopes and a [Store]; [Source.Collect] reads them, falls
//     back scope by scope to what was read before, and never fails: unknown is a
//     fact too. [None] is the fact of a node that cannot even say what to read.
//   - [Collection.Fact] is what Facter gets. [Collection.Record], called once
//     that was written, keeps the last good state and what was shown to a run.
//
// # The fact
//
//	{"bellpull": {"bucket": "3f9c…", "revision": 812,
//	  "scopes": {"node/web1.example.com": 0, "group/web": 812, "common": 4},
//	  "pending": [], "state": {…}, "source": "live"}}
//
// source is the worst that holds for a scope: live; last-good, with stale and a
// reason; or none, with a reason and without state, when a scope has never been
// read. So three nodes without any state can be told apart: one that knows
// nothing (source none), one that was never given anything (live, every revision
// 0) and one whose entries were all removed (live, a revision above 0).
//
// pending lists entries that the watcher has not applied yet; it is there when a
// watcher keeps its record. hidden names keys that are secret, invalid keys whose
// scopes contradict each other, truncated keys that are too large for a fact or
// that Facter cannot read; unlisted counts what these lists have no room for.
// error says what an operator has to mend.
//
// A healthy fact holds no clock: the same state gives the same bytes.
package factsource

import (
	"context"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// DefaultName is the fact's name where none is set.
const DefaultName = "bellpull"

const (
	// retryAfter is the pause before a replica that is behind is asked again.
	retryAfter = 100 * time.Millisecond
	// spare is left of the context's time after the store had its share, so that
	// the store's own words about a deadline are heard.
	spare = 50 * time.Millisecond
)

// Store is where desired state is read from. Read returns one answer per scope,
// in their order. An error means that nothing was answered.
type Store interface {
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
}

// Config says what to read and where to keep it.
type Config struct {
	Store  Store
	Scopes []schemas.Scope // most specific first
	Name   string          // lower-case name of the fact; "" = [DefaultName]
	// State lists the keys that the fact carries; * stands for any text. Without
	// one the fact has no state.
	State []string
	// Dir is the node's private directory; "" keeps nothing.
	Dir      string
	Digester schemas.Digester // of Dir
	// Run is the id of the run that asks, Lock the agent's run lock, which holds
	// the pid of such a run; "" = none. They lead to a record of what was shown.
	Run, Lock string
	// Wanted is the file that says what the run was started for; "" = none. A
	// replica that does not know those revisions yet is asked again.
	Wanted string
	Now    func() time.Time // nil = [time.Now]
}

// Source makes facts.
type Source struct{ cfg Config }

// New returns a source.
func New(cfg Config) *Source {
	if cfg.Name == "" {
		cfg.Name = DefaultName
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Source{cfg}
}
