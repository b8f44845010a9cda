package natskv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// bounded gives ctx a deadline if it has none.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// during waits for the connection and runs f. f's context also ends when the
// connection is lost or NATS refuses subject; the error then says so.
func (b *Bucket) during(ctx context.Context, subject string, f func(context.Context) error) error {
	if err := b.link.wait(ctx); err != nil {
		return err
	}
	ctx, done := b.link.begin(ctx, subject)
	defer done()
	err := f(ctx)
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// request sends m once and waits for its answer.
func (b *Bucket) request(ctx context.Context, m *nats.Msg) (answer *nats.Msg, err error) {
	type result struct {
		answer *nats.Msg
		err    error
	}
	err = b.during(ctx, m.Subject, func(ctx context.Context) error {
		results := make(chan result, 1)
		// nats.go takes its lock here, which it may hold for a whole attempt to
		// reconnect: only a goroutine left behind for that time keeps the deadline.
		go func() {
			answer, err := b.nc.RequestMsgWithContext(ctx, m)
			results <- result{answer, err}
		}()
		select {
		case r := <-results:
			answer = r.answer
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return answer, err
}

// insist repeats a request that may be repeated until it is answered: when
// nobody serves the subject, as while a cluster elects a leader, when no answer
// comes, and when the connection is lost but comes back.
func (b *Bucket) insist(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	var unserved error
	for patience := b.cfg.Timeout; ; patience *= 2 {
		attempt, cancel := context.WithTimeout(ctx, patience)
		answer, err := b.request(attempt, m)
		cancel()
		switch {
		case err == nil:
			return answer, nil
		case errors.Is(err, nats.ErrNoResponders):
			unserved = err
		case errors.Is(err, context.DeadlineExceeded) && unserved != nil:
			err = unserved
		}
		if !b.mayRepeat(err) || !pause(ctx) {
			return nil, b.explain(err)
		}
	}
}

func (b *Bucket) mayRepeat(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) ||
		b.lasting && (errors.Is(err, errAway) || errors.Is(err, errLost))
}

// pause waits 100 to 200 ms, and reports whether ctx has not ended by then.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(100*time.Millisecond + rand.N(100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// explain turns what went wrong with a request into what the operator can do.
func (b *Bucket) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, schemas.ErrUnavailable), errors.Is(err, schemas.ErrInvalid):
		return err
	case refused(err):
		return fmt.Errorf("%w: NATS at %s refused the credentials: %w", schemas.ErrUnavailable, b.place(), err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: NATS at %s has no bucket %q that answers; if it was never made, run `bellpull init`",
			schemas.ErrUnavailable, b.place(), b.bucket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: NATS at %s gave no answer in time", schemas.ErrUnavailable, b.place())
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: larger than the max_payload of NATS at %s (%d bytes)",
			schemas.ErrInvalid, b.place(), b.nc.MaxPayload())
	default:
		return fmt.Errorf("%w: NATS at %s: %w", schemas.ErrUnavailable, b.place(), err)
	}
}
