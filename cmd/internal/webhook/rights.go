package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// may reports whether the sender may send the event.
func (s *sender) may(ev schemas.Event) error {
	if !s.mayScope(ev.Scope) {
		return fmt.Errorf("%w: sender %s may not write in scope %s", errForbidden, s.Name, ev.Scope)
	}
	if !s.mayEntry(ev.Entry) {
		return fmt.Errorf("%w: sender %s may touch these entries: %s", errForbidden, s.Name, strings.Join(s.Entries, ", "))
	}
	if ev.Action == schemas.ActionSet && !s.mayKind(ev.Kind) {
		return fmt.Errorf("%w: sender %s may set entries of these kinds: %s", errForbidden, s.Name, strings.Join(s.Kinds, ", "))
	}
	return nil
}

// mayTouch keeps a sender from replacing or removing what it may not set.
func (s *sender) mayTouch(standing schemas.Entry) error {
	if s.mayKind(standing.Kind) {
		return nil
	}
	return fmt.Errorf("%w: an entry of another kind stands there, and sender %s may touch entries of these kinds: %s",
		errForbidden, s.Name, strings.Join(slices.Sorted(slices.Values(s.Kinds)), ", "))
}

type rateError struct {
	sender string
	wait   time.Duration
}

func (e *rateError) Error() string {
	return fmt.Sprintf("too many events of sender %s; try again in %v", e.sender, max(e.wait.Round(time.Second), time.Second))
}

func (e *rateError) Is(target error) bool { return target == errRate }

// fits refuses a batch that the sender's rate would never let pass.
func (s *sender) fits(n int) error {
	if most := s.limit.Burst(); n > most {
		return &schemas.InvalidError{What: "batch", Faults: []schemas.Fault{{
			Message: fmt.Sprintf("holds %d events, the rate of sender %s takes %d at once", n, s.Name, most),
		}}}
	}
	return nil
}

// admit takes n events from the sender's rate.
func (s *sender) admit(n int, now time.Time) error {
	r := s.limit.ReserveN(now, n)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return &rateError{sender: s.Name, wait: wait}
	}
	return nil
}

// errRate is what every rateError is.
var errRate = errors.New("too many events")
