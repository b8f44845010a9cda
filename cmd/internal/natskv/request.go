package natskv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// answer is what came of one request. One that was not answered has an error
// that [Bucket.explain] has yet to turn into words.
type answer struct {
	msg      *nats.Msg
	err      error
	repeated bool // the request was sent more than once
}

// requests sends all requests at once and returns an answer to each, in their
// order. They are repeated as long as they may be and ctx allows: when nobody
// serves the subject, as while a cluster elects a leader, when no answer comes,
// and when the connection is lost but comes back.
func (b *Bucket) requests(ctx context.Context, all []*nats.Msg) []answer {
	answers := make([]answer, len(all))
	open := make([]int, len(all))
	for i := range all {
		open[i] = i
	}
	repeated := false
	patience := b.cfg.Timeout
	if b.lasting {
		// Where thousands ask at once the answer comes late, and later if they ask twice.
		patience = max(patience, reconnectTimeout)
	}
	for ; ; patience *= 2 {
		attempt, cancel := context.WithTimeout(ctx, patience)
		for i, a := range b.attempt(attempt, all, open) {
			if late := errors.Is(a.err, context.DeadlineExceeded); late && errors.Is(answers[open[i]].err, nats.ErrNoResponders) {
				continue // the reason why it is late
			}
			a.repeated = repeated
			answers[open[i]] = a
		}
		repeated = true
		cancel()
		var again []int
		for _, i := range open {
			if b.mayRepeat(answers[i].err) {
				again = append(again, i)
			}
		}
		if open = again; len(open) == 0 || !pause(ctx) {
			break
		}
	}
	for i := range answers {
		answers[i].err = b.explain(answers[i].err)
	}
	return answers
}

// attempt sends the open ones of all once. It ends by ctx's deadline.
func (b *Bucket) attempt(ctx context.Context, all []*nats.Msg, open []int) []answer {
	if err := b.link.wait(ctx); err != nil {
		return unanswered(len(open), err)
	}
	if !b.lasting {
		return b.exchange(ctx, all, open)
	}
	// nats.go may hold its lock for a whole attempt to reconnect; only a goroutine
	// that is left behind for that time keeps the deadline.
	done := make(chan []answer, 1)
	go func() { done <- b.exchange(ctx, all, open) }()
	select {
	case answers := <-done:
		return answers
	case <-ctx.Done():
		return unanswered(len(open), ctx.Err())
	}
}

func unanswered(n int, err error) []answer {
	answers := make([]answer, n)
	for i := range answers {
		answers[i].err = err
	}
	return answers
}

// exchange sends the open ones of all, each with its own reply subject, and
// collects the answers.
func (b *Bucket) exchange(ctx context.Context, all []*nats.Msg, open []int) []answer {
	refusals := make(chan refusal, len(open)+1)
	ctx, done := b.link.begin(ctx, func(r refusal) {
		select {
		case refusals <- r:
		default: // more than we asked for
		}
	})
	defer done()
	inbox, replies, forget, err := b.replies.expect(b.nc, len(open))
	if err != nil {
		return unanswered(len(open), err)
	}
	defer forget()

	answers := make([]answer, len(open))
	left := len(open)
	settle := func(i int, a answer) {
		if answers[i] == (answer{}) {
			answers[i], left = a, left-1
		}
	}
	for i, n := range open {
		m := *all[n]
		m.Reply = inbox + strconv.Itoa(i)
		if err := b.nc.PublishMsg(&m); err != nil {
			settle(i, answer{err: err})
		}
	}
	for left > 0 {
		select {
		case m := <-replies:
			i, err := strconv.Atoi(strings.TrimPrefix(m.Subject, inbox))
			switch {
			case err != nil || i < 0 || i >= len(open):
			case len(m.Data) == 0 && m.Header.Get("Status") == "503":
				settle(i, answer{err: nats.ErrNoResponders})
			default:
				settle(i, answer{msg: m})
			}
		case r := <-refusals:
			deaf := b.replies.refused(r.subject)
			for i, n := range open {
				if deaf || r.subject == all[n].Subject {
					settle(i, answer{err: r.err})
				}
			}
		case <-ctx.Done():
			for i := range open {
				settle(i, answer{err: context.Cause(ctx)})
			}
		}
	}
	return answers
}

func (b *Bucket) mayRepeat(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) ||
		b.lasting && (errors.Is(err, errAway) || errors.Is(err, errLost) || errors.Is(err, nats.ErrReconnectBufExceeded))
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

// bounded gives ctx a deadline if it has none.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// explain turns what went wrong with a request into what the operator can do.
func (b *Bucket) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, schemas.ErrUnavailable):
		return err
	case refused(err):
		return fmt.Errorf("%w: NATS at %s refused the credentials: %w", schemas.ErrUnavailable, b.place(), err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: NATS at %s has no bucket %q that answers; if it was never made, run `bellpull init`",
			schemas.ErrUnavailable, b.place(), b.bucket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: NATS at %s gave no answer in time", schemas.ErrUnavailable, b.place())
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: larger than NATS at %s takes (max_payload is %d bytes)", schemas.ErrInvalid, b.place(), b.nc.MaxPayload())
	default:
		return fmt.Errorf("%w: NATS at %s: %w", schemas.ErrUnavailable, b.place(), err)
	}
}
