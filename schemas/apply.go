package schemas

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Outcome is what [Document.Apply] made of an event.
type Outcome struct {
	Changed bool // the document is another one and has to be written
	// Superseded: the event is older than what stands, or older than [MaxAge].
	// If neither Changed nor Superseded, the event had been applied before.
	Superseded bool
	Time       time.Time // the time under which the event stands; zero when Superseded
	Warnings   []string
}

// Apply returns the document after the event; d itself stays as it is. It is
// the one place where bellpull changes a document, and has no clock of its own:
// now is the writer's. d's entries must be [Document.Dated].
//
// The error matches [ErrInvalid] for an event that breaks a rule or is more than
// [MaxFuture] ahead of now, and [ErrConflict] when the same (source, id) stands
// with other content, or when a key would have both members and one value.
func (d Document) Apply(ev Event, now time.Time) (Document, Outcome, error) {
	if err := ev.Check(); err != nil {
		return Document{}, Outcome{}, err
	}
	if ev.Time.After(now.Add(MaxFuture)) {
		return Document{}, Outcome{}, invalid("event", "/time",
			fmt.Sprintf("is more than %v ahead of this machine's clock (%s)", MaxFuture, now.UTC().Format(time.RFC3339)))
	}
	standing := d.standing(ev.Entry)
	timeless := ev.Time.IsZero()
	switch {
	case standing.found && standing.source == ev.Source && standing.id == ev.ID:
		if err := standing.sameContent(ev); err != nil {
			return Document{}, Outcome{}, err
		}
		return d, Outcome{Time: standing.time}, nil
	case standing.remembers(ev):
		return d, Outcome{Time: standing.time}, nil
	case timeless:
		ev.Time = now.UTC().Truncate(time.Millisecond)
		for _, earlier := range []time.Time{standing.time, d.SupersededBefore} {
			if !ev.Time.After(earlier) {
				ev.Time = earlier.Add(time.Millisecond)
			}
		}
	case d.supersedes(ev, standing, now):
		return d, Outcome{Superseded: true}, nil
	}
	ev.Time = ev.Time.UTC()

	next := d.clone()
	seen := standing.nextSeen(ev, timeless, now)
	if ev.Action == ActionRemove {
		delete(next.Entries, ev.Entry)
		next.Removed[ev.Entry] = Removal{Event: ev.ID, Source: ev.Source, Time: ev.Time, Seen: seen}
	} else {
		delete(next.Removed, ev.Entry)
		next.Entries[ev.Entry] = ev.entry(seen)
	}
	next.prune(now)
	if err := next.checkMembers(ev); err != nil {
		return Document{}, Outcome{}, err
	}
	return next, Outcome{Changed: true, Time: ev.Time, Warnings: next.forget(now)}, nil
}

func (ev Event) entry(seen []Seen) Entry {
	e := Entry{
		Value: ev.Value, Kind: ev.Kind, Event: ev.ID, Source: ev.Source, Time: ev.Time,
		Sensitive: ev.Sensitive, Run: ev.Run, Owner: ev.Owner, Seen: seen,
	}
	if e.Expires = ev.Expires.UTC(); ev.TTL > 0 {
		e.Expires = ev.Time.Add(ev.TTL)
	}
	return e
}

// standing is what a document knows of one name: an entry, or a removal.
type standing struct {
	order
	found   bool
	entry   Entry // zero for a removal
	removed bool
	expired bool
	seen    []Seen
}

func (d Document) standing(name string) (s standing) {
	if r, ok := d.Removed[name]; ok {
		s = standing{order: order{r.Time, r.Source, r.Event}, found: true, removed: true, expired: r.Expired, seen: r.Seen}
	}
	// Another client may have left both; then the later one stands.
	if e, ok := d.Entries[name]; ok {
		if o := (order{e.Time, e.Source, e.Event}); !s.found || o.compare(s.order) > 0 {
			s = standing{order: o, found: true, entry: e, seen: e.Seen}
		}
	}
	return s
}

// sameContent tells a repetition from another event under the same id. What an
// expired entry held is gone, so that a repetition of it is taken as one.
func (s standing) sameContent(ev Event) error {
	var same bool
	switch {
	case s.expired:
		same = ev.Action == ActionSet
	case s.removed:
		same = ev.Action == ActionRemove
	default:
		expires := ev.Expires
		if ev.TTL > 0 {
			expires = s.entry.Time.Add(ev.TTL)
		}
		same = ev.Action == ActionSet && ev.Value == s.entry.Value && ev.Kind == s.entry.Kind && expires.Equal(s.entry.Expires) &&
			ev.Sensitive == s.entry.Sensitive && ev.Run.Equal(s.entry.Run)
	}
	if !same {
		return fmt.Errorf("event %q of source %q stands already for %s %q with other content; a changed event needs an id of its own: %w",
			ev.ID, ev.Source, ev.Scope, ev.Entry, ErrConflict)
	}
	return nil
}

func (s standing) remembers(ev Event) bool {
	return slices.ContainsFunc(s.seen, func(seen Seen) bool { return seen.Event == ev.ID && seen.Source == ev.Source })
}

func (s standing) nextSeen(ev Event, timeless bool, now time.Time) []Seen {
	var seen []Seen
	for _, earlier := range s.seen {
		if earlier.Time.After(now.Add(-MaxAge)) {
			seen = append(seen, earlier)
		}
	}
	if timeless && !ev.Once {
		seen = append(seen, Seen{Event: ev.ID, Source: ev.Source, Time: ev.Time})
	}
	return seen[max(0, len(seen)-MaxSeen):]
}

// supersedes reports whether a timed event comes too late to change anything.
func (d Document) supersedes(ev Event, s standing, now time.Time) bool {
	if ev.Time.Before(now.Add(-MaxAge)) {
		return true
	}
	if s.found {
		return (order{ev.Time, ev.Source, ev.ID}).compare(s.order) < 0
	}
	return !d.SupersededBefore.IsZero() && !ev.Time.After(d.SupersededBefore)
}

// checkMembers refuses x beside x[y] for the event's own name; the rest of the
// document was checked when it was parsed.
func (d Document) checkMembers(ev Event) error {
	if ev.Action != ActionSet {
		return nil
	}
	key, _, isMember := SplitName(ev.Entry)
	for name := range d.Entries {
		otherKey, _, otherIsMember := SplitName(name)
		if otherKey == key && otherIsMember != isMember {
			return fmt.Errorf("%s already holds %q: a key has either members or one value, remove that first: %w", ev.Scope, name, ErrConflict)
		}
	}
	return nil
}

// prune turns expired entries into removals, so that a late older event stays superseded.
func (d Document) prune(now time.Time) {
	for name, e := range d.Entries {
		if e.Expired(now) {
			delete(d.Entries, name)
			d.Removed[name] = Removal{Event: e.Event, Source: e.Source, Time: e.Time, Expired: true, Seen: e.Seen}
		}
	}
}

// forget drops removals that no event can meet any more, and the oldest of those
// above [MaxRemoved]. What it drops early it says.
func (d *Document) forget(now time.Time) (warnings []string) {
	horizon := now.Add(-MaxAge)
	maps.DeleteFunc(d.Removed, func(_ string, r Removal) bool { return r.Time.Before(horizon) })
	if d.SupersededBefore.Before(horizon) {
		d.SupersededBefore = time.Time{}
	}
	over := len(d.Removed) - MaxRemoved
	if over <= 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(d.Removed), func(a, b string) int {
		return d.standing(a).compare(d.standing(b).order)
	})
	for _, name := range names[:over] {
		if t := d.Removed[name].Time; t.After(d.SupersededBefore) {
			d.SupersededBefore = t
		}
		delete(d.Removed, name)
	}
	return []string{fmt.Sprintf("more than %d entries were removed within %d days: events up to %s that still come are superseded",
		MaxRemoved, int(MaxAge.Hours()/24), d.SupersededBefore.Format(time.RFC3339Nano))}
}
