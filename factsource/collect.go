package factsource

import (
	"context"
	"fmt"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Collect reads the scopes and makes the fact. It ends by the context's
// deadline, whatever the store does. A replica that is behind is asked again
// until then.
func (s *Source) Collect(ctx context.Context) *Collection {
	first := s.read(ctx)
	c := &Collection{cfg: s.cfg}
	c.open()
	awaited := awaited(s.cfg.Wanted)
	got := first(ctx)
	var last snapshot
	if c.same = got.err == nil && c.repeats(got.reading); !c.same {
		last = c.load()
	}
	for got.err == nil && doubtful(got.reading, last, awaited, s.cfg.Now()) && pause(ctx, retryAfter) {
		if c.same {
			last, c.same = c.load(), false
		}
		next := s.read(ctx)(ctx)
		if next.err != nil {
			break
		}
		got.reading = better(got.reading, next.reading)
	}
	c.now = s.cfg.Now()
	c.choose(got, last)
	c.Fact = c.fact()
	return c
}

// answer is the outcome of one attempt to read.
type answer struct {
	reading schemas.Reading
	err     error
}

// read starts to ask the store and returns how to wait for its answer. A store
// that overstays is left behind: the fact must come, and the process ends with it.
func (s *Source) read(ctx context.Context) func(context.Context) answer {
	done := make(chan answer, 1)
	go func() {
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-spare))
			defer cancel()
		}
		reading, err := s.cfg.Store.Read(ctx, s.cfg.Scopes)
		if err == nil && len(reading.Scopes) != len(s.cfg.Scopes) {
			err = fmt.Errorf("%d of %d scopes were answered: %w", len(reading.Scopes), len(s.cfg.Scopes), schemas.ErrUnavailable)
		}
		done <- answer{reading, err}
	}()
	return func(ctx context.Context) answer {
		select {
		case a := <-done:
			return a
		case <-ctx.Done():
			return answer{err: fmt.Errorf("no answer in time: %w", schemas.ErrUnavailable)}
		}
	}
}

// pause waits for d, unless the context would have ended by then.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d+spare {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
