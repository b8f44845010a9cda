package schemas

import (
	"maps"
	"slices"
	"time"
)

// Restored is what [Document.Restore] made of a document. Names are sorted.
type Restored struct {
	Set      []string // entries that were brought back, or given their old content
	Removed  []string // entries that the old document does not hold
	Expired  []string // entries of the old document that have expired since, and stay gone
	Warnings []string
}

// Changed reports whether the document is another one and has to be written.
func (r Restored) Changed() bool { return len(r.Set)+len(r.Removed) > 0 }

// Restore returns the document with the entries that old had, by timeless events of
// the given id and source; d itself stays as it is. Entries keep their kind, run
// policy, owner, secrecy and moment of expiry; those that are equal in this stay as
// they are, with their own event. Nothing that has expired comes back. Both must be
// [Document.Dated].
//
// The error is that of [Document.Apply].
func (d Document) Restore(old Document, id, source string, now time.Time) (Document, Restored, error) {
	var r Restored
	next := d
	apply := func(ev Event) error {
		ev.ID, ev.Source, ev.Once = id, source, true
		after, outcome, err := next.Apply(ev, now)
		if err == nil {
			next, r.Warnings = after, append(r.Warnings, outcome.Warnings...)
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(old.Entries)) {
		if old.Entries[name].Expired(now) {
			r.Expired = append(r.Expired, name)
		}
	}
	// Removals first: a key that has members now may have had one value.
	for name := range d.Live(now) {
		if e, ok := old.Entries[name]; !ok || e.Expired(now) {
			if err := apply(Event{Scope: restoring, Entry: name, Action: ActionRemove}); err != nil {
				return Document{}, Restored{}, err
			}
			r.Removed = append(r.Removed, name)
		}
	}
	for name, e := range old.Live(now) {
		if standing, ok := d.Entries[name]; ok && !standing.Expired(now) && standing.SameContent(e) {
			continue
		}
		err := apply(Event{
			Scope: restoring, Entry: name, Action: ActionSet,
			Value: e.Value, Kind: e.Kind, Expires: e.Expires, Sensitive: e.Sensitive, Run: e.Run, Owner: e.Owner,
		})
		if err != nil {
			return Document{}, Restored{}, err
		}
		r.Set = append(r.Set, name)
	}
	return next, r, nil
}

// restoring stands for the document's scope in events that go no further than here.
const restoring Scope = "scope"

// SameContent reports whether both say the same, whichever events set them.
func (e Entry) SameContent(other Entry) bool {
	return e.Value == other.Value && e.Kind == other.Kind && e.Sensitive == other.Sensitive && e.Run.Equal(other.Run) &&
		e.Owner == other.Owner && e.Expires.Equal(other.Expires)
}
