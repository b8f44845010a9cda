// Package publish is the one way in which bellpull changes a document. A
// [Publisher] takes an event, checks it, and writes the document that
// [schemas.Document.Apply] makes of it, provided that nobody else wrote since:
//
//	p := publish.New(publish.Config{Bucket: bucket, Kinds: kinds})
//	result, err := p.Publish(ctx, event, publish.Options{})
//
// Events with their own time end in the same document in whatever order, how
// often and through however many publishers they come.
package publish

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Timeout bounds a Publish whose context has no deadline.
const Timeout = 10 * time.Second

// Bucket is where documents are; natskv.Bucket is one.
type Bucket interface {
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
	// Put writes if the scope's revision is still expect; else it fails with
	// [schemas.ErrConflict].
	Put(ctx context.Context, scope schemas.Scope, body []byte, expect uint64) (revision uint64, err error)
}

// Kinds knows what the entries of each kind look like; kinds.Set is one.
type Kinds interface {
	// Complete fills in what the event's kind says of every entry of its own, and
	// fails with [schemas.ErrInvalid] for an event that the kind does not allow, and
	// for a kind that is not known.
	Complete(ev schemas.Event) (schemas.Event, error)
}

// Config is what a Publisher needs. Bucket and Kinds must be set.
type Config struct {
	Bucket Bucket
	Kinds  Kinds
	Now    func() time.Time // the writer's clock; nil = [time.Now]
	// Punctual says that the bucket keeps its contexts' deadlines, so that nobody
	// has to wait for it beside the one who calls it.
	Punctual bool
}

// Publisher writes events into documents. Its methods may be used at the same
// time: events that wait for one scope are written together.
type Publisher struct {
	bucket Bucket
	kinds  Kinds
	now    func() time.Time
	inline bool

	mu sync.Mutex
	// waiting holds the jobs of each scope that a goroutine writes at the moment.
	waiting map[schemas.Scope][]*job
}

// New returns a Publisher.
func New(cfg Config) *Publisher {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Publisher{
		bucket: cfg.Bucket, kinds: cfg.Kinds, now: cfg.Now, inline: cfg.Punctual,
		waiting: make(map[schemas.Scope][]*job),
	}
}

// Options are conditions on one Publish.
type Options struct {
	IfRevision *uint64 // the scope must stand at this revision; 0 = never written
	MustExist  bool    // the entry must stand, and not be expired
	Checked    bool    // the event is one that Check returned, and is not checked again
	DryRun     bool    // say what would be done, and write nothing
	// Allow is asked about the entry that the event would replace or remove; its
	// error is the event's. nil = all.
	Allow func(standing schemas.Entry) error
}

// Result is what became of an event.
type Result struct {
	Revision   uint64    // under which the scope stands now
	Changed    bool      // the event changed the document
	Superseded bool      // a newer event had been there before
	Time       time.Time // under which the event stands; zero when Superseded
	Warnings   []string  // for the sender to see
}

// Check returns the event as Publish would write it, with what its kind fills in.
// It asks no server. The error matches [schemas.ErrInvalid].
func (p *Publisher) Check(ev schemas.Event) (schemas.Event, error) {
	if err := ev.Check(); err != nil {
		return schemas.Event{}, err
	}
	if ev.Action != schemas.ActionSet || ev.Kind == "" {
		return ev, nil
	}
	return p.kinds.Complete(ev)
}

// Publish checks the event and brings it into its scope's document. It returns
// once the document is stored. An event that was published before changes
// nothing and is no error.
//
// The error matches
//   - [schemas.ErrInvalid]: the event or its value breaks a rule, or the
//     document would become too large; nothing was sent;
//   - [schemas.ErrNotFound]: MustExist, and there is no such entry;
//   - [schemas.ErrConflict]: the scope is not at IfRevision, the same event
//     stands with other content, what stands is no document, or other writers
//     were faster again and again;
//   - Allow's error;
//   - [schemas.ErrUnavailable]: no answer by ctx's deadline. Whether the event
//     was stored is unknown then; it does no harm to publish it again.
func (p *Publisher) Publish(ctx context.Context, ev schemas.Event, opts Options) (Result, error) {
	if !opts.Checked {
		var err error
		if ev, err = p.Check(ev); err != nil {
			return Result{}, err
		}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	j := &job{event: ev, opts: opts, deadline: deadline, done: make(chan struct{})}
	if opts.DryRun {
		_ = p.attempt(ctx, ev.Scope, []*job{j}) // j.err says what failed
		return j.result, j.err
	}
	p.enqueue(ctx, j)
	select {
	case <-j.done:
		return j.result, j.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%w: scope %s: whether event %q was stored is not known: %w",
			schemas.ErrUnavailable, ev.Scope, ev.ID, ctx.Err())
	}
}
