// Package keeper hands out permits to run: a fleet-wide limit of simultaneous
// runs. It is a role, played by any number of processes at once, and keeps no
// state that matters: a permit is a token of a JetStream consumer, delivered and
// not acknowledged; the line for permits is the consumer's own queue of requests,
// first come first served over all keepers; and what a keeper has to know of a
// permit travels in the permit's handle, signed, so that any keeper can renew it
// or take it back.
//
// A holder that is not heard for the lease loses its permit. A keeper that ends,
// or loses NATS, strands nobody: who stood in its line hears nothing more, and
// asks another.
//
// Where NATS limits who may do what, a keeper of the bucket desired needs, with S
// for BELLPULL_PERMITS_desired:
//
//	publish          $JS.API.STREAM.INFO.S, $JS.API.STREAM.MSG.DELETE.S, $JS.API.DIRECT.GET.S.>,
//	                 $JS.API.CONSUMER.*.S.>, $JS.API.CONSUMER.MSG.NEXT.S.permits, $JS.ACK.S.permits.>,
//	                 bellpull.permits.desired.token.*
//	subscribe        _INBOX.>, bellpull.permit.desired.*, bellpull.permits.desired.limit
//	allow_responses  max 1000, expires 2h
//
// The last is for answers to nodes, whose inboxes no wildcard names. Who waits
// longer than it lasts asks again, and keeps its place.
package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// Config says what to keep. Bucket is needed, from [natskv.Connect].
type Config struct {
	Bucket    *natskv.Bucket
	Logger    hclog.Logger  // default: none
	Mend      time.Duration // the permits are counted and mended this often, ±25 %; default 30s
	Heartbeat time.Duration // the server says this often that a request for a token stands; default 5s
}

// Keeper is one keeper.
type Keeper struct {
	cfg      Config
	log      hclog.Logger
	keeping  natskv.Keeping
	inbox    string
	requests *nats.Subscription
	work     sync.WaitGroup // answers under way
	mend     chan struct{}  // asks for mending now
	news     chan *nats.Msg // about requests for tokens, and answers that nobody heard

	mu    sync.Mutex
	key   []byte
	lease time.Duration
	limit schemas.Limit
	line  *line
	said  map[string]string // what was logged last, by subject
}

const (
	queue = "keepers"
	// pending is how many messages may wait for the keeper: every node's at once.
	pending = 65536
	// tick is how often silent requests are looked for.
	tick = time.Second
	// standstill is how long a keeper that was paused, or whose machine was, may have
	// been away before what it missed is too old. A node leaves more of its lease unused.
	standstill = 5 * time.Second
	// answerTimeout is for the server to confirm that a token was renewed or given back.
	answerTimeout = 2 * time.Second
)

// New returns a keeper.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Mend <= 0 {
		cfg.Mend = 30 * time.Second
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 5 * time.Second
	}
	return &Keeper{cfg: cfg, log: cfg.Logger, mend: make(chan struct{}, 1), news: make(chan *nats.Msg, pending), line: newLine(), said: map[string]string{}}
}

// Run keeps until ctx ends, which is no error. It goes on without NATS, and
// without a bucket, until they are there.
func (k *Keeper) Run(ctx context.Context) error {
	k.keeping = k.cfg.Bucket.Keeping()
	defer k.keeping.Stop()
	defer k.work.Wait()
	k.inbox = k.keeping.Conn.NewInbox()
	if !k.prepare(ctx) {
		return nil
	}
	select {
	case <-k.keeping.Connected: // of the connection that stands
	default:
	}
	// Only now: nobody is to stand in the line of a keeper that knows nothing yet.
	requests, limits := make(chan *nats.Msg, pending), make(chan *nats.Msg, 64)
	for _, subscribe := range []func() (*nats.Subscription, error){
		func() (*nats.Subscription, error) { return k.keeping.Conn.ChanSubscribe(k.inbox+".x.*", k.news) },
		func() (*nats.Subscription, error) { return k.keeping.Conn.ChanSubscribe(k.keeping.Limit, limits) },
		func() (*nats.Subscription, error) {
			s, err := k.keeping.Conn.ChanQueueSubscribe(k.keeping.Requests, queue, requests)
			k.requests = s
			return s, err
		},
	} {
		s, err := subscribe()
		if err != nil {
			return fmt.Errorf("keep permits: %w", err)
		}
		defer func() { _ = s.Unsubscribe() }() // fails only when the connection has ended
	}
	defer k.sendAway()
	k.log.Info("keeping permits", "limit", k.limit)
	k.work.Go(func() { k.keepMending(ctx) })
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	alive := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-requests:
			k.asked(ctx, m)
		case m := <-k.news:
			alive = k.awake(alive)
			k.hear(m)
		case m := <-limits:
			if limit, err := schemas.ParseLimit(string(m.Data)); err == nil {
				k.learn(limit)
			}
			k.mendNow()
		case <-k.keeping.Connected:
			k.mendNow()
			k.mu.Lock()
			k.line.drop() // its requests ended with the connection
			k.line.again = time.Time{}
			k.pull(time.Now())
			k.mu.Unlock()
		case now := <-ticks.C:
			alive = k.awake(alive)
			k.tend(now)
		}
	}
}

// awake looks whether the keeper has stood still since it was last seen alive. It
// goes by the wall clock: the other one stands still with a machine that sleeps.
func (k *Keeper) awake(last time.Time) time.Time {
	now := time.Now()
	if away := now.Round(0).Sub(last.Round(0)); away > standstill {
		k.log.Warn("the keeper stood still; permits that came meanwhile are left to lapse", "for", away.Round(time.Second))
		k.stalled(now)
	}
	return now
}

// sendAway tells who stands in line to ask another keeper: those that are left,
// because NATS has heard before that this one serves no more.
func (k *Keeper) sendAway() {
	_ = k.requests.Unsubscribe() // fails only when the connection has ended
	k.mu.Lock()
	all := k.line.clear()
	k.mu.Unlock()
	for _, w := range all {
		k.answer(w.reply, "", natskv.PermitReply{Again: true})
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_ = k.keeping.Conn.FlushWithContext(ctx) // without a connection nobody hears it
}

// prepare learns what a keeper has to know; false = ctx has ended.
func (k *Keeper) prepare(ctx context.Context) bool {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		key, err := k.cfg.Bucket.PermitKey(ctx)
		if err == nil {
			k.mu.Lock()
			k.key = key
			k.mu.Unlock()
			err = k.mendOnce(ctx)
		}
		if err == nil {
			k.say("prepare", "")
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		k.say("prepare", fmt.Sprintf("cannot keep permits yet: %v", err))
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// say logs what is wrong, once as long as it stays the same; "" = nothing is.
func (k *Keeper) say(subject, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.said[subject] == text {
		return
	}
	if k.said[subject] = text; text != "" {
		k.log.Warn("permits", "why", text)
	}
}
