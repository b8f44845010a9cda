package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// sourceApply begins the source of every event of an apply.
const sourceApply = "apply/"

// applyRun is one apply: what it wants, and what it decides.
type applyRun struct {
	owner, source, id string
	prune, take       bool
	wanted            map[schemas.Scope][]schemas.Event // by scope, sorted by entry
	history           func(context.Context, schemas.Scope) ([]natskv.Revision, error)

	mu      sync.Mutex
	decided map[schemas.Scope][]decision
}

// action is what a run does about an entry.
type action string

const (
	actionAdd    action = "add"
	actionChange action = "change"
	actionTake   action = "take"  // own what stands as the file has it
	actionPrune  action = "prune" // no file has it any more
	actionKeep   action = "keep"  // somebody else has set or removed it
	actionLeft   action = "left"  // no file has it, and nothing is to be pruned
	actionRemove action = "remove"
)

// decision is what a run does about one entry, and why if it is not plain.
type decision struct {
	action   action
	scope    schemas.Scope
	name     string
	old, new *schemas.Entry
	why      string
}

// decide is [publish.Decide]. It remembers what it decided last for each scope.
func (r *applyRun) decide(ctx context.Context, standing schemas.ScopeReading) ([]schemas.Event, error) {
	s := scopeDecision{run: r, standing: standing, now: time.Now()}
	inFile := map[string]bool{}
	for _, ev := range r.wanted[standing.Scope] {
		inFile[ev.Entry] = true
		if err := s.entry(ctx, ev); err != nil {
			return nil, err
		}
	}
	var removals []schemas.Event // first: x may have to go for x[y]
	for name, e := range standing.Document.Live(s.now) {
		switch {
		case inFile[name] || !r.owns(e):
		case r.prune:
			s.decided = append(s.decided, decision{action: actionPrune, scope: standing.Scope, name: name, old: &e})
			removals = append(removals, schemas.Event{
				ID: r.id, Source: r.source, Scope: standing.Scope, Entry: name, Action: schemas.ActionRemove, Once: true,
			})
		default:
			s.decided = append(s.decided, decision{action: actionLeft, scope: standing.Scope, name: name, old: &e,
				why: "no file has it; --prune removes it"})
		}
	}
	slices.SortFunc(s.decided, func(a, b decision) int { return strings.Compare(a.name, b.name) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided == nil {
		r.decided = map[schemas.Scope][]decision{}
	}
	r.decided[standing.Scope] = s.decided
	return append(removals, s.events...), nil
}

// owns reports whether an entry is as this run, or an earlier one of the same owner, has written it. One that somebody brought
// back from the history has its owner still, but another source.
func (r *applyRun) owns(e schemas.Entry) bool {
	return e.Owner == r.owner && strings.HasPrefix(e.Source, sourceApply)
}

// scopeDecision is the work on one scope.
type scopeDecision struct {
	run      *applyRun
	standing schemas.ScopeReading
	now      time.Time
	events   []schemas.Event
	decided  []decision

	read      bool
	revisions []revisedDocument // newest first
}

// entry decides about one entry that a file has.
func (s *scopeDecision) entry(ctx context.Context, ev schemas.Event) error {
	e, live := s.standing.Document.Entries[ev.Entry]
	live = live && !e.Expired(s.now)
	ours := live && s.run.owns(e)
	switch {
	case live && sameContent(ev, e):
		if s.run.take && e.Owner != s.run.owner {
			s.set(actionTake, ev, &e)
		}
		return nil
	case !ev.Expires.IsZero() && !s.now.Before(ev.Expires):
		if live {
			break // what stands is to go, one way or the other
		}
		s.keep(ev, nil, "expired at "+stamp(ev.Expires)+", by its file")
		return nil
	case ours || live && s.run.take:
		s.set(actionChange, ev, &e)
		return nil
	case s.run.take:
		s.set(actionAdd, ev, nil)
		return nil
	case live && e.Owner != "" && e.Owner != s.run.owner:
		s.keep(ev, &e, fmt.Sprintf("kept by %s", e.Owner))
		return nil
	}
	last, known, err := s.last(ctx, ev.Entry)
	switch {
	case err != nil:
		return err
	case known && !sameContent(ev, last) && live:
		s.set(actionChange, ev, &e)
	case live:
		s.keep(ev, &e, fmt.Sprintf("set by %s at %s", who(e.Source, e.Event), stamp(e.Time)))
	case known && sameContent(ev, last):
		s.keep(ev, nil, s.gone(ev.Entry))
	default:
		s.set(actionAdd, ev, nil)
	}
	return nil
}

func (s *scopeDecision) set(a action, ev schemas.Event, old *schemas.Entry) {
	if s.run.take {
		ev.Owner = s.run.owner
	}
	entry := schemas.Entry{
		Value: ev.Value, Kind: ev.Kind, Sensitive: ev.Sensitive, Run: ev.Run, Owner: ev.Owner, Expires: ev.Expires,
	}
	if ev.TTL > 0 {
		entry.Expires = s.now.Add(ev.TTL)
	}
	s.events = append(s.events, ev)
	s.decided = append(s.decided, decision{action: a, scope: ev.Scope, name: ev.Entry, old: old, new: &entry})
}

func (s *scopeDecision) keep(ev schemas.Event, old *schemas.Entry, why string) {
	s.decided = append(s.decided, decision{action: actionKeep, scope: ev.Scope, name: ev.Entry, old: old, why: why})
}

func who(source, event string) string {
	switch {
	case source != "":
		return source
	case event != "":
		return "event " + event
	}
	return "another client"
}

// gone says how an entry went that does not stand, as far as it is known.
func (s *scopeDecision) gone(name string) string {
	if e, ok := s.standing.Document.Entries[name]; ok {
		return "expired at " + stamp(e.Expires)
	}
	r, ok := s.standing.Document.Removed[name]
	switch {
	case ok && r.Expired:
		return "expired; it was set at " + stamp(r.Time)
	case ok:
		return fmt.Sprintf("removed by %s at %s", who(r.Source, r.Event), stamp(r.Time))
	case s.standing.Deleted:
		return "the scope was deleted at " + stamp(s.standing.Time)
	}
	return "removed since the last apply"
}

// revisedDocument is what one revision of a scope said.
type revisedDocument struct {
	entries map[string]schemas.Entry
	removed map[string]schemas.Removal
}

// last finds what a run of this owner wrote last for a name that is not as it left it. One that such a run removed itself since
// is as if it had never been.
func (s *scopeDecision) last(ctx context.Context, name string) (schemas.Entry, bool, error) {
	if s.standing.Revision == 0 {
		return schemas.Entry{}, false, nil
	}
	doc := s.standing.Document
	if found, ok, over := s.run.lastIn(revisedDocument{doc.Entries, doc.Removed}, name); over {
		return found, ok, nil
	}
	if !s.read {
		revisions, err := s.run.history(ctx, s.standing.Scope)
		if err != nil {
			return schemas.Entry{}, false, err
		}
		for _, r := range slices.Backward(revisions) {
			if doc, err := schemas.ParseDocument(r.Body); !r.Deleted && err == nil {
				doc = doc.Dated(r.Time)
				s.revisions = append(s.revisions, revisedDocument{doc.Entries, doc.Removed})
			}
		}
		s.read = true
	}
	removedByOthers := false
	for _, r := range s.revisions {
		removal, removed := r.removed[name]
		removedByOthers = removedByOthers || removed && !strings.HasPrefix(removal.Source, sourceApply)
		if removedByOthers {
			r.removed = nil // an earlier one by apply does not count
		}
		if found, ok, over := s.run.lastIn(r, name); over {
			return found, ok, nil
		}
	}
	return schemas.Entry{}, false, nil
}

// lastIn looks in one document. over: there is no need to look further back.
func (r *applyRun) lastIn(doc revisedDocument, name string) (e schemas.Entry, found, over bool) {
	if e, ok := doc.entries[name]; ok && r.owns(e) {
		return e, true, true
	}
	removal, ok := doc.removed[name]
	return schemas.Entry{}, false, ok && !removal.Expired && strings.HasPrefix(removal.Source, sourceApply)
}
