package puppet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// confirmAfter must pass between the two readings that make a document's
	// absence from another bucket believed.
	confirmAfter = 10 * time.Second
	// lagAllowed is how long a replica may be behind before that is an error.
	lagAllowed = 10 * time.Minute
)

// Wanted is what a node's scopes said when they were last read: digests and
// run policies, no values. Only readings change it.
type Wanted struct {
	Bucket string                        `json:"bucket"` // id of the bucket that was read last
	Scopes map[schemas.Scope]WantedScope `json:"scopes"` // a scope that was never read is not there: unknown
}

// WantedScope is one scope's document.
type WantedScope struct {
	Bucket   string                 `json:"bucket"` // id of the bucket that it was read from
	Revision uint64                 `json:"revision"`
	Entries  map[string]WantedEntry `json:"entries,omitempty"`
	// Missing is when another bucket was first seen without this document.
	Missing time.Time `json:"missing,omitzero"`
	// Behind is since when a replica has been answering with less than this.
	Behind time.Time `json:"behind,omitzero"`
}

// WantedEntry is one entry. Entries that have expired stay until their document changes.
type WantedEntry struct {
	Digest  string    `json:"digest"`
	Event   string    `json:"event,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Policy
}

func (e WantedEntry) live(now time.Time) bool { return e.Expires.IsZero() || now.Before(e.Expires) }

// remark is something about a reading that an operator may have to know.
type remark struct {
	scope schemas.Scope // "" = the bucket
	text  string
	fault bool      // it will not mend by itself
	again bool      // it may be better at the next reading, soon
	at    time.Time // a next reading at this time is needed; zero = no need
}

// take returns what is wanted after a reading, and what there is to say about it.
// What could not be read, or is older than what is known, changes nothing: a
// scope that cannot be read is never an emptied scope.
func (w Wanted) take(r schemas.Reading, d schemas.Digester) (next Wanted, remarks []remark) {
	next = Wanted{Bucket: w.Bucket, Scopes: maps.Clone(w.Scopes)}
	if next.Scopes == nil {
		next.Scopes = map[schemas.Scope]WantedScope{}
	}
	if r.Bucket == "" {
		return next, []remark{{text: "has no id, so nothing that it says is believed; run bellpull init", fault: true}}
	}
	next.Bucket = r.Bucket
	for _, s := range r.Scopes {
		known, isKnown := w.Scopes[s.Scope]
		fresh := WantedScope{Bucket: r.Bucket, Revision: s.Revision, Entries: wantedEntries(s.Document, d)}
		switch {
		case s.Err != nil:
			invalid := errors.Is(s.Err, schemas.ErrInvalid)
			remarks = append(remarks, remark{scope: s.Scope, text: fmt.Sprintf("cannot be read: %v", s.Err), fault: invalid, again: !invalid})
			continue
		case isKnown && known.Bucket == r.Bucket && s.Revision < known.Revision:
			if known.Behind.IsZero() {
				known.Behind = r.At
			}
			text := fmt.Sprintf("bucket went back from %d to %d; if it was restored, run `bellpull init --new-id`", known.Revision, s.Revision)
			remarks = append(remarks, remark{scope: s.Scope, text: text, fault: r.At.Sub(known.Behind) >= lagAllowed, again: true})
			next.Scopes[s.Scope] = known
			continue
		case isKnown && known.Bucket != r.Bucket && s.Revision == 0 && len(known.Entries) > 0:
			if known.Missing.IsZero() {
				known.Missing = r.At
			}
			if believed := known.Missing.Add(confirmAfter); r.At.Before(believed) {
				remarks = append(remarks, remark{scope: s.Scope, text: "has no document in the new bucket; asking again before that is believed", at: believed})
				next.Scopes[s.Scope] = known
				continue
			}
		}
		next.Scopes[s.Scope] = fresh
	}
	return next, remarks
}

func wantedEntries(doc schemas.Document, d schemas.Digester) map[string]WantedEntry {
	entries := map[string]WantedEntry{}
	for name, e := range doc.Entries {
		entries[name] = WantedEntry{Digest: d.Entry(e), Event: e.Event, Expires: e.Expires, Policy: policyOf(e.Run)}
	}
	return entries
}

// wantedOf is a scope as a run has used it, when that is all that is known of it.
func wantedOf(bucket string, a schemas.AppliedScope) WantedScope {
	entries := map[string]WantedEntry{}
	for name, digest := range a.Entries {
		entries[name] = WantedEntry{Digest: digest}
	}
	return WantedScope{Bucket: bucket, Revision: a.Revision, Entries: entries}
}

// Only returns what is wanted of the given scopes: the node's hierarchy may have changed.
func (w Wanted) Only(scopes []schemas.Scope) Wanted {
	out := Wanted{Bucket: w.Bucket, Scopes: map[schemas.Scope]WantedScope{}}
	for scope, s := range w.Scopes {
		if slices.Contains(scopes, scope) {
			out.Scopes[scope] = s
		}
	}
	return out
}

// handed is what a run that starts now is given.
func (w Wanted) handed(now time.Time) map[schemas.Scope]Handed {
	out := map[schemas.Scope]Handed{}
	for scope, s := range w.Scopes {
		h := Handed{Revision: s.Revision, Entries: map[string]string{}}
		if s.Bucket != w.Bucket {
			h.Revision = 0 // of another bucket: not comparable
		}
		for name, e := range s.Entries {
			if e.live(now) {
				h.Entries[name] = e.Digest
			}
		}
		out[scope] = h
	}
	return out
}

// nextExpiry is the first expiry after now; zero = none.
func (w Wanted) nextExpiry(now time.Time) time.Time {
	var next time.Time
	for _, s := range w.Scopes {
		for _, e := range s.Entries {
			if e.Expires.After(now) && (next.IsZero() || e.Expires.Before(next)) {
				next = e.Expires
			}
		}
	}
	return next
}
