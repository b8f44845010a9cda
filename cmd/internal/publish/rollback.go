package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bellpull/bellpull/schemas"
)

// Rollback asks to bring a scope back to an earlier document.
type Rollback struct {
	Scope      schemas.Scope
	To         schemas.Document // dated
	ID, Source string           // of the events that do it
	IfRevision *uint64          // the scope must stand at this revision
	Force      bool             // entries that their kinds no longer allow too
	DryRun     bool
}

// Rollback writes a new revision of a scope with the entries of an earlier
// document: see [schemas.Document.Restore]. What stands may be deleted, or no
// document at all. It returns the revision that stands then.
//
// The error is that of Publish. It matches [schemas.ErrInvalid] when an entry is
// not what its kind asks for today, and Force is not set.
func (p *Publisher) Rollback(ctx context.Context, r Rollback) (revision uint64, restored schemas.Restored, err error) {
	if !r.Force {
		if err := p.fits(r); err != nil {
			return 0, schemas.Restored{}, err
		}
	}
	for n := range maxAttempts {
		revision, restored, err = p.rollback(ctx, r)
		if !errors.Is(err, errRaced) {
			return revision, restored, err
		}
		if !pause(ctx, min(firstPause<<min(n, 10), longPause)) {
			break
		}
	}
	return 0, schemas.Restored{}, fmt.Errorf("%w: scope %s: other writers were faster again and again", schemas.ErrConflict, r.Scope)
}

// fits checks the entries that would come back against their kinds.
func (p *Publisher) fits(r Rollback) error {
	var faults []schemas.Fault
	for _, name := range slices.Sorted(maps.Keys(r.To.Entries)) {
		e := r.To.Entries[name]
		if e.Kind == "" || e.Expired(p.now()) {
			continue
		}
		_, err := p.kinds.Complete(schemas.Event{ID: r.ID, Scope: r.Scope, Entry: name, Action: schemas.ActionSet, Value: e.Value, Kind: e.Kind})
		var invalid *schemas.InvalidError
		switch {
		case errors.As(err, &invalid):
			for _, f := range invalid.Faults {
				faults = append(faults, schemas.Fault{Pointer: f.Pointer, Message: fmt.Sprintf("%s (entry %q, kind %s)", f.Message, name, e.Kind)})
			}
		case err != nil:
			return err
		}
	}
	if len(faults) > 0 {
		return &schemas.InvalidError{What: fmt.Sprintf("scope %s: what stood then is not valid any more", r.Scope), Faults: faults}
	}
	return nil
}

func (p *Publisher) rollback(ctx context.Context, r Rollback) (uint64, schemas.Restored, error) {
	reading, err := p.bucket.Read(ctx, []schemas.Scope{r.Scope})
	if err != nil {
		return 0, schemas.Restored{}, err
	}
	if reading.Bucket == "" {
		return 0, schemas.Restored{}, errNoID
	}
	stands := reading.Scopes[0]
	doc := stands.Document
	switch {
	case errors.Is(stands.Err, schemas.ErrInvalid): // not parsed: as if it had been deleted
		doc = schemas.Emptied(stands.Time)
	case stands.Err != nil:
		return 0, schemas.Restored{}, stands.Err
	}
	if r.IfRevision != nil && *r.IfRevision != stands.Revision {
		return 0, schemas.Restored{}, fmt.Errorf("%w: scope %s is at revision %d, not %d", schemas.ErrConflict, r.Scope, stands.Revision, *r.IfRevision)
	}
	next, restored, err := doc.Restore(r.To, r.ID, r.Source, p.now())
	if err != nil {
		return 0, schemas.Restored{}, fmt.Errorf("scope %s: %w", r.Scope, err)
	}
	// What is no document is replaced even by an empty one: nothing else would mend it.
	if !restored.Changed() && stands.Err == nil {
		return stands.Revision, restored, nil
	}
	body, err := next.Marshal()
	if err != nil || r.DryRun {
		return stands.Revision, restored, err
	}
	revision, err := p.bucket.Put(ctx, r.Scope, body, stands.Revision)
	if errors.Is(err, schemas.ErrConflict) {
		return 0, schemas.Restored{}, errRaced
	}
	return revision, restored, err
}
