package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// maxAttempts is how often other writers may be faster.
	maxAttempts = 32
	firstPause  = 10 * time.Millisecond
	longPause   = 500 * time.Millisecond
)

// job is one event on its way. The goroutine that writes its scope owns it
// until done is closed.
type job struct {
	event    schemas.Event
	opts     Options
	deadline time.Time

	done   chan struct{}
	result Result
	err    error
}

// enqueue hands the job to the goroutine of its scope, and starts that one where
// there is none. With a punctual bucket the caller writes its own job first.
func (p *Publisher) enqueue(ctx context.Context, j *job) {
	scope := j.event.Scope
	p.mu.Lock()
	jobs, running := p.waiting[scope]
	switch {
	case running:
		p.waiting[scope] = append(jobs, j)
	case p.inline:
		p.waiting[scope] = nil
	default:
		p.waiting[scope] = []*job{j}
		go p.work(scope, p.takeLocked(scope))
	}
	p.mu.Unlock()
	if running || !p.inline {
		return
	}
	p.settle(ctx, scope, []*job{j})
	if batch := p.take(scope); len(batch) > 0 {
		go p.work(scope, batch)
	}
}

// work writes what waits for a scope, the batch first, until nothing does.
func (p *Publisher) work(scope schemas.Scope, batch []*job) {
	for ; len(batch) > 0; batch = p.take(scope) {
		var deadline time.Time
		for _, j := range batch {
			if j.deadline.After(deadline) {
				deadline = j.deadline
			}
		}
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		p.settle(ctx, scope, batch)
		cancel()
	}
}

func (p *Publisher) settle(ctx context.Context, scope schemas.Scope, batch []*job) {
	p.write(ctx, scope, batch)
	for _, j := range batch {
		close(j.done)
	}
}

// take removes from the queue what may be written together. A job that wants a
// certain revision goes alone: what is written before it changes the revision.
func (p *Publisher) take(scope schemas.Scope) []*job {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(scope)
}

func (p *Publisher) takeLocked(scope schemas.Scope) []*job {
	jobs := p.waiting[scope]
	n := 0
	for n < len(jobs) && (n == 0 || jobs[0].opts.IfRevision == nil && jobs[n].opts.IfRevision == nil) {
		n++
	}
	if n == 0 {
		delete(p.waiting, scope)
	} else {
		p.waiting[scope] = jobs[n:]
	}
	return jobs[:n]
}

// write brings a batch into the document, however often others are faster, as
// long as one of its senders waits.
func (p *Publisher) write(ctx context.Context, scope schemas.Scope, batch []*job) {
	for n := range maxAttempts {
		err := p.attempt(ctx, scope, batch)
		switch {
		case errors.Is(err, errTooLarge) && len(batch) > 1:
			for _, j := range batch { // the others must not suffer for one
				p.write(ctx, scope, []*job{j})
			}
			return
		case !errors.Is(err, errRaced):
			return
		case n == maxAttempts-1:
			fail(batch, fmt.Errorf("%w: scope %s: other writers were faster %d times", schemas.ErrConflict, scope, maxAttempts))
			return
		case !pause(ctx, min(firstPause<<min(n, 10), longPause)):
			fail(batch, fmt.Errorf("%w: scope %s: other writers were faster until the deadline", schemas.ErrConflict, scope))
			return
		}
	}
}

var (
	errRaced    = errors.New("another writer was faster")
	errTooLarge = errors.New("the document is too large")
)

// attempt reads the document, applies the batch to it and writes it. It settles
// every job, unless it returns an error.
func (p *Publisher) attempt(ctx context.Context, scope schemas.Scope, batch []*job) error {
	doc, revision, err := p.standing(ctx, scope)
	if err != nil {
		fail(batch, err)
		return nil
	}
	now := p.now()
	changed := false
	for _, j := range batch {
		next, err := j.apply(doc, revision, now)
		if err == nil {
			doc, changed = next, changed || j.result.Changed
		}
		j.err = err
	}
	if !changed {
		return nil
	}
	body, err := doc.Marshal()
	if err != nil {
		fail(batch, fmt.Errorf("scope %s: %w", scope, err))
		return errTooLarge
	}
	warning := doc.SizeWarning(body)
	if !batch[0].opts.DryRun {
		revision, err = p.bucket.Put(ctx, scope, body, revision)
		if errors.Is(err, schemas.ErrConflict) {
			return errRaced
		}
		if err != nil {
			fail(batch, err)
			return nil
		}
	}
	for _, j := range batch {
		j.result.Revision = revision
		if warning != "" {
			j.result.Warnings = append(j.result.Warnings, fmt.Sprintf("scope %s: %s", scope, warning))
		}
	}
	return nil
}

// standing reads the document that a writer may build on.
func (p *Publisher) standing(ctx context.Context, scope schemas.Scope) (schemas.Document, uint64, error) {
	reading, err := p.bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return schemas.Document{}, 0, err
	}
	if reading.Bucket == "" {
		return schemas.Document{}, 0, errNoID
	}
	doc, err := writable(reading.Scopes[0])
	return doc, reading.Scopes[0].Revision, err
}

// errNoID: what such a bucket holds may be half of a restore.
var errNoID = fmt.Errorf("%w: the bucket has no id; run `bellpull init`", schemas.ErrUnavailable)

// writable is the document that a writer may build on.
func writable(r schemas.ScopeReading) (schemas.Document, error) {
	if errors.Is(r.Err, schemas.ErrInvalid) {
		return schemas.Document{}, fmt.Errorf(
			"%w: what stands in scope %s at revision %d is no document: take an earlier revision N from `bellpull history %s` and run `bellpull rollback %s --to N` (%v)",
			schemas.ErrConflict, r.Scope, r.Revision, r.Scope, r.Scope, r.Err)
	}
	return r.Document, r.Err
}

// apply gives the document after the job's event, and sets the job's result.
func (j *job) apply(doc schemas.Document, revision uint64, now time.Time) (schemas.Document, error) {
	j.result = Result{}
	scope, name := j.event.Scope, j.event.Entry
	if want := j.opts.IfRevision; want != nil && *want != revision {
		return doc, fmt.Errorf("%w: scope %s is at revision %d, not %d", schemas.ErrConflict, scope, revision, *want)
	}
	if entry, ok := doc.Entries[name]; j.opts.MustExist && (!ok || entry.Expired(now)) {
		return doc, fmt.Errorf("%w: scope %s has no entry %q", schemas.ErrNotFound, scope, name)
	}
	if entry, ok := doc.Entries[name]; ok && j.opts.Allow != nil && !entry.Expired(now) {
		if err := j.opts.Allow(entry); err != nil {
			return doc, err
		}
	}
	next, outcome, err := doc.Apply(j.event, now)
	if err != nil {
		return doc, err
	}
	j.result = Result{
		Revision: revision, Changed: outcome.Changed, Superseded: outcome.Superseded,
		Time: outcome.Time, Warnings: outcome.Warnings,
	}
	return next, nil
}

// fail settles the jobs that were not settled by an error of their own.
func fail(batch []*job, err error) {
	for _, j := range batch {
		if j.err == nil {
			j.result, j.err = Result{}, err
		}
	}
}

// pause waits up to d, and reports whether ctx has not ended by then.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
