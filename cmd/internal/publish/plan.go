package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const (
	planRead   = 200      // scopes in one round trip
	planReads  = 2        // of them under way: one is decided on while the other is fetched
	planAtOnce = 4        // scopes of each that are decided on at the same time
	chunkBytes = 16 << 20 // of documents in one atomic batch
	// writeTries is how often a batch is tried, planned anew each time.
	writeTries = 6
)

// Decide says what is to happen in a scope as it stands: events for that scope, in this order. It must give the same answer for
// the same standing document, and may be called for several scopes at the same time.
type Decide func(ctx context.Context, standing schemas.ScopeReading) ([]schemas.Event, error)

// Plan is what [Publisher.Plan] would write.
type Plan struct {
	p        *Publisher
	decide   Decide
	changes  []natskv.Put
	warnings []string
}

// BatchBucket writes many documents or none; natskv.Bucket is one.
type BatchBucket interface {
	PutAll(ctx context.Context, puts []natskv.Put) (revisions []uint64, err error)
}

// Plan reads the scopes, which must differ, and applies to each what decide says. It checks every event as Publish does and
// writes nothing.
//
// The error is that of Publish for the first scope that fails. Plan has no deadline of its own: each question to the bucket has.
func (p *Publisher) Plan(ctx context.Context, scopes []schemas.Scope, decide Decide) (*Plan, error) {
	plan := &Plan{p: p, decide: decide}
	parts := slices.Collect(slices.Chunk(scopes, planRead))
	results := make([]planPart, len(parts))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	turns := make(chan struct{}, planReads)
	for i, part := range parts {
		turns <- struct{}{}
		wg.Go(func() {
			if ctx.Err() == nil {
				results[i] = p.planPart(ctx, part, decide)
			}
			if err := results[i].err; err != nil {
				stop(err) // the first error is the cause
			}
			<-turns
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, r := range results {
		plan.changes = append(plan.changes, r.changes...)
		plan.warnings = append(plan.warnings, r.warnings...)
	}
	return plan, nil
}

// Scopes is how many scopes the plan changes.
func (pl *Plan) Scopes() int { return len(pl.changes) }

// Warnings are for the sender to see.
func (pl *Plan) Warnings() []string { return pl.warnings }

// planned is what becomes of one scope.
type planned struct {
	put     natskv.Put // without a body: nothing
	warning string
	err     error
}

// planPart is what becomes of scopes that are read together.
type planPart struct {
	changes  []natskv.Put
	warnings []string
	err      error
}

func (p *Publisher) planPart(ctx context.Context, scopes []schemas.Scope, decide Decide) (part planPart) {
	reading, err := p.bucket.Read(ctx, scopes)
	if err != nil {
		return planPart{err: err}
	}
	if reading.Bucket == "" {
		return planPart{err: errNoID}
	}
	results := make([]planned, len(scopes))
	var wg sync.WaitGroup
	turns := make(chan struct{}, planAtOnce)
	for i, r := range reading.Scopes {
		turns <- struct{}{}
		wg.Go(func() {
			results[i] = p.planScope(ctx, r, decide)
			<-turns
		})
	}
	wg.Wait()
	for _, r := range results {
		if r.err != nil {
			return planPart{err: r.err}
		}
		if r.put.Body != nil {
			part.changes = append(part.changes, r.put)
		}
		if r.warning != "" {
			part.warnings = append(part.warnings, r.warning)
		}
	}
	return part
}

func (p *Publisher) planScope(ctx context.Context, r schemas.ScopeReading, decide Decide) planned {
	doc, err := writable(r)
	if err != nil {
		return planned{err: err}
	}
	events, err := decide(ctx, r)
	if err != nil {
		return planned{err: err}
	}
	now, changed := p.now(), false
	for _, ev := range events {
		checked, err := p.Check(ev)
		if err != nil {
			return planned{err: fmt.Errorf("scope %s, entry %q: %w", r.Scope, ev.Entry, err)}
		}
		next, outcome, err := doc.Apply(checked, now)
		if err != nil {
			return planned{err: err}
		}
		doc, changed = next, changed || outcome.Changed
	}
	if !changed {
		return planned{}
	}
	body, err := doc.Marshal()
	if err != nil {
		return planned{err: fmt.Errorf("scope %s: %w", r.Scope, err)}
	}
	out := planned{put: natskv.Put{Scope: r.Scope, Body: body, Expect: r.Revision}}
	if warning := doc.SizeWarning(body); warning != "" {
		out.warning = fmt.Sprintf("scope %s: %s", r.Scope, warning)
	}
	return out
}

// Write writes the plan in atomic batches, as few as the server takes, and returns how many scopes are as planned now. Where
// somebody else wrote since, it reads that batch's scopes again and asks Decide anew. Where others write all the time, it goes on
// with smaller batches.
//
// The error is that of Publish. Everything before the batch that failed is written; a new plan goes on from there.
func (pl *Plan) Write(ctx context.Context, bucket BatchBucket) (done int, err error) {
	limit := natskv.MaxBatch
	for left := pl.changes; len(left) > 0; {
		chunk := left[:fitting(left, limit)]
		err := pl.writeChunk(ctx, bucket, chunk)
		var fewer *natskv.BatchLimitError
		busy := errors.Is(err, errRaced)
		switch {
		case (busy || errors.As(err, &fewer)) && len(chunk) > 1:
			if limit = len(chunk) / 2; fewer != nil && fewer.Limit > 0 && fewer.Limit < len(chunk) {
				limit = fewer.Limit
			}
			continue
		case err != nil:
			return done, err
		}
		done += len(chunk)
		left = left[len(chunk):]
	}
	return done, nil
}

// fitting is how many of the documents go in one batch.
func fitting(puts []natskv.Put, most int) (n int) {
	for bytes := 0; n < min(most, len(puts)); n++ {
		if bytes += len(puts[n].Body); n > 0 && bytes > chunkBytes {
			break
		}
	}
	return n
}

func (pl *Plan) writeChunk(ctx context.Context, bucket BatchBucket, chunk []natskv.Put) error {
	for n := 0; ; n++ {
		_, err := bucket.PutAll(ctx, chunk)
		var fewer *natskv.BatchLimitError
		unknown := errors.Is(err, schemas.ErrUnavailable)
		switch {
		case err == nil, errors.As(err, &fewer):
			return err
		case !errors.Is(err, schemas.ErrConflict) && !unknown:
			return err
		case unknown && n >= 2:
			return err
		case n == writeTries-1 && len(chunk) > 1, n == maxAttempts-1:
			return fmt.Errorf("%w: %w", errRaced, err)
		case !pause(ctx, min(firstPause<<min(n, 10), longPause)):
			return err
		}
		// What was stored although nobody said so needs no further change.
		scopes := make([]schemas.Scope, len(chunk))
		for i, put := range chunk {
			scopes[i] = put.Scope
		}
		again, planErr := pl.p.Plan(ctx, scopes, pl.decide)
		if planErr != nil {
			return planErr
		}
		if chunk = again.changes; len(chunk) == 0 {
			return nil
		}
	}
}
