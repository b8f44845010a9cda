package hieradata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bellpull/bellpull/schemas"
)

// work does what is owed; what is left when it fails stays owed.
func (s *Sync) work(ctx context.Context) error {
	if s.full {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.again {
		if err := s.read(ctx, slices.Collect(maps.Keys(s.mirror.doubt)), true); err != nil {
			return err
		}
		s.again = false
	}
	if len(s.wanted) > 0 {
		if err := s.read(ctx, slices.Collect(maps.Keys(s.wanted)), false); err != nil {
			return err
		}
	}
	s.mirror.sequence = max(s.mirror.sequence, s.heard)
	if s.target == nil || s.mirror.sequence < s.target.Sequence {
		return nil
	}
	reached := *s.target
	s.target = nil
	return s.mirror.dir.beat(reached)
}

// load brings everything in line with the bucket.
func (s *Sync) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	before, err := s.position(ctx)
	if err != nil {
		return err
	}
	s.mirror.load++
	survey := s.compare
	if before.Bucket != s.mirror.bucket {
		survey = s.all
	}
	after, err := survey(ctx, before.Bucket)
	if err != nil {
		return err // it says that all scopes were to be read
	}
	if after.Bucket != before.Bucket || after.Sequence < before.Sequence {
		return fmt.Errorf("the bucket changed its id, or went back, while it was read: %w", schemas.ErrUnavailable)
	}
	if err := s.mirror.settle(before.Bucket); err != nil {
		return err
	}
	if err := s.mirror.publish(before.Bucket); err != nil {
		return err
	}
	// Whatever was announced before has been read now.
	clear(s.wanted)
	s.mirror.sequence, s.heard, s.target = after.Sequence, after.Sequence, &after
	s.full, s.loaded = false, true
	scopes := s.mirror.documents()
	s.cfg.Log.Info("the data files are equal to the bucket", "bucket", before.Bucket, "sequence", after.Sequence, "scopes", scopes)
	s.cfg.Synced(scopes)
	return nil
}

// all reads every document.
func (s *Sync) all(ctx context.Context, bucket string) (Position, error) {
	n := 0
	return s.cfg.Store.All(ctx, func(r schemas.ScopeReading) error {
		if n++; n%aliveEach == 0 {
			s.cfg.Alive()
		}
		if err := s.mirror.take(bucket, r, false); err != nil {
			return err
		}
		s.mirror.see(r.Scope)
		return nil
	})
}

// compare reads what differs from what is known of the same bucket.
func (s *Sync) compare(ctx context.Context, bucket string) (Position, error) {
	n := 0
	var differ []schemas.Scope
	at, err := s.cfg.Store.Revisions(ctx, func(scope schemas.Scope, revision uint64, deleted bool) error {
		if n++; n%aliveEach == 0 {
			s.cfg.Alive()
		}
		switch {
		case deleted:
			if err := s.mirror.take(bucket, schemas.ScopeReading{Scope: scope, Revision: revision, Deleted: true}, false); err != nil {
				return err
			}
		case s.mirror.covers(scope) && !s.mirror.holds(scope, revision):
			differ = append(differ, scope)
		}
		s.mirror.see(scope)
		return nil
	})
	if err != nil {
		return Position{}, err
	}
	if len(differ) > n/allAtOnce {
		return s.all(ctx, bucket)
	}
	for chunk := range slices.Chunk(differ, readAtOnce) {
		s.cfg.Alive()
		reading, err := s.ask(ctx, chunk)
		if err != nil {
			return Position{}, err
		}
		if reading.Bucket != bucket {
			return Position{}, fmt.Errorf("the bucket changed its id while it was read: %w", schemas.ErrUnavailable)
		}
		for _, r := range reading.Scopes {
			if err := s.mirror.take(bucket, r, false); err != nil {
				return Position{}, fmt.Errorf("scope %s: %w", r.Scope, err)
			}
			s.mirror.see(r.Scope)
		}
	}
	return at, nil
}

func (s *Sync) ask(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reading, err := s.cfg.Store.Read(ctx, scopes)
	if err != nil {
		return schemas.Reading{}, fmt.Errorf("read %d scopes: %w", len(scopes), err)
	}
	return reading, nil
}

// check verifies the lists whose turn it is, and has the bad files of them read.
func (s *Sync) check() error {
	for ; s.due > 0; s.due-- {
		s.cfg.Alive()
		bad, err := s.mirror.check(s.turn)
		for _, scope := range bad {
			s.wanted[scope] = max(s.wanted[scope], 0)
		}
		if err == nil {
			err = s.mirror.publish(s.mirror.bucket)
		}
		if err != nil {
			return err
		}
		s.turn = (s.turn + 1) % lists
	}
	return nil
}

// position asks where the bucket stands, and refuses one that has gone back.
func (s *Sync) position(ctx context.Context) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	at, err := s.cfg.Store.Position(ctx)
	if err != nil {
		return Position{}, fmt.Errorf("ask for the bucket's position: %w", err)
	}
	if at.Bucket == "" {
		return Position{}, fmt.Errorf("the bucket has no id; run bellpull init: %w", schemas.ErrUnavailable)
	}
	if at.Bucket == s.mirror.bucket && at.Sequence < s.mirror.sequence {
		return Position{}, fmt.Errorf("bucket went back from %d to %d; if it was restored, run bellpull init --new-id: %w",
			s.mirror.sequence, at.Sequence, schemas.ErrUnavailable)
	}
	return at, nil
}

// read reads some scopes; sure says that they were in doubt.
func (s *Sync) read(ctx context.Context, scopes []schemas.Scope, sure bool) error {
	var missing error
	for chunk := range slices.Chunk(scopes, readAtOnce) {
		reading, err := s.ask(ctx, chunk)
		if err != nil {
			return err
		}
		if reading.Bucket != s.mirror.bucket {
			s.full = true
			return s.load(ctx)
		}
		for _, r := range reading.Scopes {
			err := s.mirror.take(reading.Bucket, r, sure)
			if err == nil && r.Revision < s.wanted[r.Scope] {
				err = fmt.Errorf("is at revision %d where %d was announced: %w", r.Revision, s.wanted[r.Scope], schemas.ErrUnavailable)
			}
			if err != nil {
				missing = fmt.Errorf("scope %s: %w", r.Scope, err)
				continue
			}
			delete(s.wanted, r.Scope)
		}
	}
	return errors.Join(missing, s.mirror.publish(s.mirror.bucket))
}

// aim sets out to confirm that the files are current: as of now, once every
// change up to now has been read. What was not reached since the last time was
// never announced, so everything is read again.
func (s *Sync) aim(ctx context.Context) {
	if s.target != nil {
		s.full, s.target = true, nil
		return
	}
	at, err := s.position(ctx)
	switch {
	case err != nil:
		s.cfg.Log.Warn("cannot confirm that the data files are current", "error", err)
	case at.Bucket != s.mirror.bucket || !s.loaded:
		s.full = true
	default:
		s.target = &at
	}
}
