package keeper

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

func (k *Keeper) mendNow() {
	select {
	case k.mend <- struct{}{}:
	default: // one is asked for already
	}
}

// keepMending keeps the permits as many as the limit says.
func (k *Keeper) keepMending(ctx context.Context) {
	for {
		timer := time.NewTimer(k.cfg.Mend*3/4 + rand.N(k.cfg.Mend/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.mend:
		case <-timer.C:
		}
		timer.Stop()
		if err := k.mendOnce(ctx); err != nil && ctx.Err() == nil {
			k.say("mend", err.Error())
		} else {
			k.say("mend", "")
		}
	}
}

func (k *Keeper) mendOnce(ctx context.Context) error {
	mended, err := k.cfg.Bucket.MendPermits(ctx)
	if mended.Added > 0 || mended.Removed > 0 || mended.Consumer {
		k.log.Info("permits mended", "limit", mended.Limit, "found", mended.Tokens, "added", mended.Added, "removed", mended.Removed, "consumer_made", mended.Consumer)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.lease = mended.Lease
	k.mu.Unlock()
	k.learn(mended.Limit)
	return nil
}

// learn takes the limit as it stands now. Without one nobody has to wait.
func (k *Keeper) learn(limit schemas.Limit) {
	k.mu.Lock()
	k.limit = limit
	var free []*waiter
	if unlimited(limit) {
		free = k.line.clear()
	} else {
		k.pull(time.Now())
	}
	k.mu.Unlock()
	for _, w := range free {
		k.answer(w.reply, "", natskv.PermitReply{None: true})
	}
}

func unlimited(l schemas.Limit) bool { return l.Known && l.Max == 0 }
