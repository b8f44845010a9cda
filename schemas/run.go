package schemas

import (
	"slices"
	"time"
)

// Trigger says when an entry's change starts a run.
type Trigger string

// The triggers; the empty one means TriggerNow.
const (
	TriggerNow  Trigger = "now"  // as soon as the watcher may
	TriggerNext Trigger = "next" // never by itself: the next run takes it along
)

// RunPolicy says how a change of an entry is to be run. The zero value means:
// at once, a whole run, the node's own splay.
type RunPolicy struct {
	Trigger Trigger
	Splay   time.Duration // random delay of at most this much; 0 = the node's own setting
	Tags    []string      // Puppet tags that the run is limited to; at most [MaxTags]
	Noop    bool          // only a preview
}

// IsZero reports whether nothing is asked for.
func (p RunPolicy) IsZero() bool {
	return p.Trigger == "" && p.Splay == 0 && len(p.Tags) == 0 && !p.Noop
}

// Equal reports whether both ask for the same.
func (p RunPolicy) Equal(q RunPolicy) bool {
	return p.Trigger == q.Trigger && p.Splay == q.Splay && p.Noop == q.Noop && slices.Equal(p.Tags, q.Tags)
}
