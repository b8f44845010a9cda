package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// Limit reads how many nodes may run at the same time. The error matches
// [schemas.ErrUnavailable] when it is not known, which is never "none".
func (b *Bucket) Limit(ctx context.Context) (schemas.Limit, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	limit, _, err := b.limitOf(b.permitMessage(ctx, b.permitLimit()))
	if err != nil {
		return schemas.Limit{}, fmt.Errorf("read the limit of simultaneous runs: %w", err)
	}
	return limit, nil
}

// SetLimit sets how many nodes may run at the same time. The tokens follow when a
// keeper mends them, or [Bucket.MendPermits] does.
func (b *Bucket) SetLimit(ctx context.Context, limit schemas.Limit) error {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	if _, err := schemas.ParseLimit(limit.String()); err != nil {
		return err
	}
	for {
		_, revision, err := b.limitOf(b.permitMessage(ctx, b.permitLimit()))
		if err != nil && !errors.Is(err, schemas.ErrInvalid) && !errors.Is(err, schemas.ErrNotFound) {
			return fmt.Errorf("set the limit of simultaneous runs: %w", err)
		}
		_, _, err = b.publish(ctx, b.permitLimit(), rand.Text(), []byte(limit.String()), revision)
		if errors.Is(err, errSequence) && pause(ctx) {
			continue // somebody else has set it just now: the last one counts
		}
		if err != nil {
			return fmt.Errorf("set the limit of simultaneous runs: %w", err)
		}
		return nil
	}
}

// permitMessage asks for the last message of one of the permits' subjects.
func (b *Bucket) permitMessage(ctx context.Context, subject string) answer {
	return b.requests(ctx, []*nats.Msg{nats.NewMsg(b.lastPermitMessage(subject))})[0]
}

// limitOf reads the limit, and the revision that it stands at.
func (b *Bucket) limitOf(a answer) (schemas.Limit, uint64, error) {
	m, err := b.message(a)
	if err != nil {
		return schemas.Limit{}, 0, err
	}
	if m.revision == 0 {
		return schemas.Limit{}, 0, fmt.Errorf("%w: bucket %q has no limit; run `bellpull init`", schemas.ErrNotFound, b.bucket)
	}
	limit, err := schemas.ParseLimit(string(m.body))
	return limit, m.revision, err
}
