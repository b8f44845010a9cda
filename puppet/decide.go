package puppet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Action is what the watcher does next.
type Action string

// The actions.
const (
	Idle  Action = "no run"  // nothing is owed
	Wait  Action = "waiting" // a run is owed, but not yet
	Queue Action = "in line" // a run is owed, and only a permit is missing
	Go    Action = "run"
)

// Decision is what to do, until when that holds, and why.
type Decision struct {
	Action Action
	State  schemas.NodeState // what the node reports of it
	Until  time.Time         // with Wait and Queue: when to decide again; zero = when something happens
	Why    string
	Dues   []Due
	Fresh  bool // some of the dues are not what an earlier run was for
	Tags   []string
	Noop   bool
}

// Retry is what is kept of runs that did not prove what they were for.
type Retry struct {
	Attempt int       `json:"attempt"` // runs made so far for the same state
	At      time.Time `json:"at"`      // when the next one may start
	Why     string    `json:"why"`
	// Tried is what the last of them was given: digest by scope and entry.
	Tried map[schemas.Scope]map[string]string `json:"tried"`
}

// Timing shapes when a run starts. The zero value starts it at once.
type Timing struct {
	Quiet       time.Duration // after a change, wait this long for more
	QuietMax    time.Duration // but at most this long
	Splay       time.Duration // spread runs over this long; an entry's own splay goes before
	MinInterval time.Duration // least time between two runs' starts
	Skew        time.Duration // an entry counts as expired this long after its time
}

// Situation is all that a decision rests on.
type Situation struct {
	Now     time.Time
	Node    string // certname, for the splay
	Timing  Timing
	Scopes  []schemas.Scope // the node's hierarchy
	Wanted  Wanted
	Book    Book
	Noticed map[string]time.Time // when each due was first seen, by its key
	Since   time.Time            // since when new dues have been coming without a run; zero = only now
	Retry   *Retry               // nil = the last run proved what it was for
	Last    time.Time            // the last run's start; zero = none is known
	Pause   time.Time            // no run before this; zero = none
	AtOnce  bool                 // wait for nothing but what blocks a run
	Permit  PermitState
	Blocked func() Blocked // asked only when a run would start
}

const (
	pollLock     = 2 * time.Second
	pollDisabled = 15 * time.Second
	pollReport   = 5 * time.Second
)

// Decide answers what to do. It changes nothing.
func (s Situation) Decide() Decision {
	owed := dues(s.Wanted, s.Book, s.Scopes, s.Now, s.Timing.Skew)
	if len(owed) == 0 {
		state, why := s.idle()
		return Decision{Action: Idle, State: state, Why: why}
	}
	d := Decision{Action: Wait, State: schemas.NodeWaiting, Dues: owed}
	d.Tags, d.Noop = combine(owed)
	ready, quiet, fresh := s.ready(owed)
	d.Fresh = fresh
	wait := func(state schemas.NodeState, until time.Time, why string) Decision {
		d.State, d.Until, d.Why = state, until, why
		return d
	}
	switch {
	case s.AtOnce:
	case ready.After(s.Now) && !d.Fresh:
		return wait(schemas.NodeFailed, ready, fmt.Sprintf("retry %d: %s", s.Retry.Attempt, s.Retry.Why))
	case quiet.After(s.Now) && !s.Permit.InLine(): // who stands in line takes what comes along
		return wait(schemas.NodeWaiting, quiet, "more changes may come: "+describe(owed))
	case ready.After(s.Now):
		return wait(schemas.NodeWaiting, ready, "splay: "+describe(owed))
	case s.Pause.After(s.Now):
		return wait(schemas.NodeWaiting, s.Pause, "pause: "+describe(owed))
	case !s.Last.After(s.Now) && s.Last.Add(s.Timing.MinInterval).After(s.Now):
		return wait(schemas.NodeWaiting, s.Last.Add(s.Timing.MinInterval), "watch.min_interval: "+describe(owed))
	}
	if b := s.Blocked(); b.Disabled {
		return wait(schemas.NodeDisabled, s.Now.Add(pollDisabled), b.String())
	} else if !b.Free() {
		return wait(schemas.NodeLocked, s.Now.Add(pollLock), b.String())
	}
	if until, why := s.Permit.missing(s.Now); why != "" {
		d.Action = Queue
		return wait(schemas.NodeQueued, until, why+": "+describe(owed))
	}
	d.Action, d.State, d.Why = Go, schemas.NodeRunning, describe(owed)
	return d
}

// ready tells when the first of the dues lets a run start, until when changes are
// gathered, and whether any due is not what an earlier run was for.
func (s Situation) ready(owed []Due) (ready, quiet time.Time, fresh bool) {
	var last time.Time
	for _, d := range owed {
		at := s.noticed(d)
		if s.Retry.covers(d) {
			at = s.Retry.At
		} else {
			fresh = true
			if d.Why != whyExpired && at.After(last) { // an expiry was known long before
				last = at
			}
			splay := cmp.Or(time.Duration(d.Policy.Splay), s.Timing.Splay)
			at = at.Add(splayDelay(splay, s.Node, cmp.Or(d.Event, string(d.Scope)+" "+d.Entry)))
		}
		ready = earlier(ready, at)
	}
	if !last.IsZero() {
		quiet = earlier(last.Add(s.Timing.Quiet), cmp.Or(s.Since, s.Now).Add(s.Timing.QuietMax))
	}
	return ready, quiet, fresh
}

func (s Situation) noticed(d Due) time.Time {
	if at, ok := s.Noticed[d.Key()]; ok && at.Before(s.Now) { // the clock may have been set back since
		return at
	}
	return s.Now
}

// covers reports whether the due is what an earlier run was for already.
func (r *Retry) covers(d Due) bool {
	return r != nil && (d.Entry == "" || r.Tried[d.Scope][d.Entry] == d.Digest)
}

const (
	firstBackoff  = 30 * time.Second
	maxBackoff    = 30 * time.Minute
	behindBackoff = 5 * time.Second
)

// backoff is the time before the next attempt: 30 s doubling to 30 min, ±50 % by
// random in [0, 1). Where somebody had only to catch up, the first comes after 5 s.
func backoff(attempt int, behind bool, random float64) time.Duration {
	if behind {
		if attempt == 1 {
			return behindBackoff
		}
		attempt--
	}
	wait := firstBackoff
	for range attempt - 1 {
		wait = min(2*wait, maxBackoff)
	}
	return time.Duration((0.5 + random) * float64(wait))
}

// earlier returns the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// idle says why nothing is owed.
func (s Situation) idle() (schemas.NodeState, string) {
	for _, scope := range s.Scopes {
		if _, known := s.Wanted.Scopes[scope]; !known {
			return schemas.NodeUnknown, fmt.Sprintf("%s has never been read", scope)
		}
	}
	return schemas.NodeConverged, "equal data"
}
