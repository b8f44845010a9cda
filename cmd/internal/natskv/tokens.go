package natskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// lookAgain is the time between the two looks that must both find tokens lacking:
// a replica's counts may be a moment old.
const lookAgain = 2 * time.Second

// PermitCount is how many permits there are.
type PermitCount struct {
	Limit schemas.Limit
	// Tokens are the permits that exist: free, held, or between the two. They are as
	// many as the limit says unless some were lost, or the limit has just changed.
	Tokens int
	Lease  time.Duration // a holder that is not heard for so long has lost its permit
}

// PermitsMended is what [Bucket.MendPermits] did.
type PermitsMended struct {
	PermitCount      // as it was found
	Added       int  // permits that were missing
	Removed     int  // permits over the limit
	Consumer    bool // what hands them out was missing, and was made anew
}

// PermitCount counts the permits. The error matches [schemas.ErrUnavailable] or
// [schemas.ErrNotFound] when they are not there or cannot be counted.
func (b *Bucket) PermitCount(ctx context.Context) (PermitCount, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	limit, err := b.Limit(ctx)
	if err != nil {
		return PermitCount{}, err
	}
	look, err := b.lookAtTokens(ctx)
	if err != nil {
		return PermitCount{}, fmt.Errorf("count permits: %w", err)
	}
	return PermitCount{Limit: limit, Tokens: look.alive, Lease: look.lease}, nil
}

// MendPermits makes the permits as many as the limit says. It may be called at any
// time and by several at once: of them only one adds a permit that is missing.
//
// A permit that is missing is added at once where there is none at all, and else
// when two looks 2 s apart find it missing. Permits over the limit are taken away
// whether or not somebody holds them: no run is stopped, and none is let in for
// them. So while runs that hold such a permit go on, more than the new limit run,
// but never more than the old one.
func (b *Bucket) MendPermits(ctx context.Context) (PermitsMended, error) {
	ctx, cancel := bounded(ctx, manageTimeout)
	defer cancel()
	mended, err := b.mendPermits(ctx)
	if err != nil {
		return mended, fmt.Errorf("mend permits: %w", err)
	}
	return mended, nil
}

func (b *Bucket) mendPermits(ctx context.Context) (PermitsMended, error) {
	var mended PermitsMended
	limit, err := b.Limit(ctx)
	if err != nil {
		return mended, err
	}
	mended.Limit = limit
	look, err := b.lookAtTokens(ctx)
	if errors.Is(err, errNoConsumer) {
		if err := b.initConsumer(ctx); err != nil {
			return mended, err
		}
		mended.Consumer = true
		look, err = b.lookAtTokens(ctx)
	}
	if err != nil {
		return mended, err
	}
	mended.Tokens, mended.Lease = look.alive, look.lease
	if look.alive < limit.Max && len(look.tokens) > 0 {
		timer := time.NewTimer(lookAgain)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return mended, ctx.Err()
		}
		again, err := b.lookAtTokens(ctx)
		if err != nil {
			return mended, err
		}
		again.alive = max(again.alive, look.alive)
		look = again
	}
	switch {
	case look.alive < limit.Max:
		mended.Added, err = b.addTokens(ctx, look, limit.Max-look.alive)
	case look.alive > limit.Max:
		mended.Removed, err = b.removeTokens(ctx, look, look.alive-limit.Max)
	case len(look.tokens) > look.alive:
		err = b.removeDead(ctx, look)
	}
	return mended, err
}

var errNoConsumer = errors.New("the consumer of the permits is missing")

// tokenLook is the permits' stream and consumer at one moment.
type tokenLook struct {
	tokens []uint64 // ids, rising; some may be dead
	last   uint64   // sequence of the stream's last message
	alive  int      // tokens that are free or held
	floor  uint64   // every token up to this sequence is dead
	lease  time.Duration
}

// lookAtTokens reads the stream before the counts: whatever somebody else does in
// between makes the counts higher than the list, or the stream longer than its
// last sequence, and never leads to more tokens than the limit.
func (b *Bucket) lookAtTokens(ctx context.Context) (tokenLook, error) {
	var look tokenLook
	err := b.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, b.permitsStream())
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.permitTokens()))
		if err != nil {
			return err
		}
		look.last = info.State.LastSeq
		for subject := range maps.Keys(info.State.Subjects) {
			if id := b.tokenID(subject); id > 0 {
				look.tokens = append(look.tokens, id)
			}
		}
		slices.Sort(look.tokens)
		consumer, err := stream.Consumer(ctx, b.permitConsumer())
		if err != nil {
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				return errNoConsumer
			}
			return err
		}
		counts := consumer.CachedInfo()
		look.alive, look.floor = int(counts.NumPending)+counts.NumAckPending, counts.AckFloor.Stream
		look.lease = counts.Config.AckWait
		return nil
	})
	return look, err
}

// addTokens adds n tokens with new ids, as long as nobody else changes the stream.
func (b *Bucket) addTokens(ctx context.Context, look tokenLook, n int) (added int, err error) {
	id, last := uint64(0), look.last
	if len(look.tokens) > 0 {
		id = look.tokens[len(look.tokens)-1]
	}
	for ; added < n; added++ {
		id++
		m := nats.NewMsg(b.permitToken(id))
		m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
		sequence, err := b.stored(b.requests(ctx, []*nats.Msg{m})[0])
		var refused *jetstream.APIError
		if errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
			return added, nil // somebody else is at it
		}
		if err != nil {
			return added, err
		}
		last = sequence
	}
	return added, nil
}

// removeTokens takes n tokens away, the newest. Several that do so at once choose the same.
func (b *Bucket) removeTokens(ctx context.Context, look tokenLook, n int) (removed int, err error) {
	for _, id := range slices.Backward(look.tokens) {
		if removed == n {
			break
		}
		if err := b.removeToken(ctx, id, math.MaxUint64); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// removeDead clears away tokens that somebody acknowledged: nothing hands them out again.
func (b *Bucket) removeDead(ctx context.Context, look tokenLook) error {
	for _, id := range look.tokens {
		if err := b.removeToken(ctx, id, look.floor); err != nil {
			return err
		}
	}
	return nil
}

// removeToken deletes a token, provided that its sequence is at most last; one that
// is held ends for the consumer at once. It is not purged: a purge makes the consumer
// (nats-server 2.15) pass over what other holders say until their lease ends.
func (b *Bucket) removeToken(ctx context.Context, id, last uint64) error {
	m, err := b.message(b.permitMessage(ctx, b.permitToken(id)))
	if err != nil || m.revision == 0 || m.revision > last {
		return err
	}
	err = b.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, b.permitsStream())
		if err != nil {
			return err
		}
		return stream.DeleteMsg(ctx, m.revision)
	})
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		if now, readErr := b.message(b.permitMessage(ctx, b.permitToken(id))); readErr == nil && now.revision != m.revision {
			return nil // somebody else was faster
		}
	}
	return err
}
