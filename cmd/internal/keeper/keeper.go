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
	"encoding/json"
	"errors"
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

// asked takes a node's request.
func (k *Keeper) asked(ctx context.Context, m *nats.Msg) {
	node, err := k.cfg.Bucket.AskingNode(m.Subject)
	var ask natskv.PermitAsk
	if err == nil {
		err = json.Unmarshal(m.Data, &ask)
	}
	switch {
	case err != nil:
		k.answer(m.Reply, "", natskv.PermitReply{Error: fmt.Sprintf("the request is none: %v", err)})
	case ask.Action == natskv.PermitAcquire:
		k.acquire(ctx, node, m.Reply)
	case ask.Action == natskv.PermitRenew, ask.Action == natskv.PermitRelease:
		k.work.Go(func() { k.answer(m.Reply, "", k.settle(ctx, node, ask)) })
	default:
		k.answer(m.Reply, "", natskv.PermitReply{Error: fmt.Sprintf("there is no action %q", ask.Action)})
	}
}

// acquire puts a node in line. One that stands there already keeps its place.
func (k *Keeper) acquire(ctx context.Context, node, reply string) {
	now := time.Now()
	k.answer(reply, "", natskv.PermitReply{Waiting: true})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.line.join(node, reply, now)
	if !unlimited(k.limit) {
		k.pull(now)
		return
	}
	// Who asks has heard of a limit: is it newer than what is known here?
	k.work.Go(func() {
		limit, err := k.cfg.Bucket.Limit(ctx)
		if err != nil {
			return // the next tick asks for a token
		}
		k.learn(limit)
	})
}

// settle renews a permit, or takes it back. The server confirms, but does not
// know whose the token is by now: that the handle's end has not come does.
func (k *Keeper) settle(ctx context.Context, node string, ask natskv.PermitAsk) natskv.PermitReply {
	k.mu.Lock()
	key, lease := k.key, k.lease
	k.mu.Unlock()
	now := time.Now()
	h, err := openHandle(key, ask.Handle)
	switch {
	case err != nil || h.Node != node:
		k.log.Warn("a permit's handle is not the node's", "node", node, "action", ask.Action)
		return natskv.PermitReply{Error: "the permit is none of this node's"}
	case !now.Add(answerTimeout).Before(h.end()):
		return natskv.PermitReply{Lapsed: true}
	}
	if left := h.end().Sub(now); ask.Action == natskv.PermitRenew && left > lease*9/10 {
		// As a node does at once to see that the grant was not late: the lease has just begun.
		return natskv.PermitReply{Handle: ask.Handle, Lease: left.Milliseconds()}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	word, reply := "+WPI", natskv.PermitReply{Lease: lease.Milliseconds()}
	if ask.Action == natskv.PermitRelease {
		word, reply = "-NAK", natskv.PermitReply{Released: true}
	}
	if _, err := k.keeping.Conn.RequestWithContext(ctx, h.Ack, []byte(word)); err != nil {
		if errors.Is(err, nats.ErrNoResponders) {
			return natskv.PermitReply{Lapsed: true} // the consumer is gone
		}
		return natskv.PermitReply{Error: "NATS did not confirm it in time"}
	}
	if ask.Action == natskv.PermitRenew {
		h.Until = now.Add(lease).UnixMilli()
		reply.Handle = h.seal(key)
	}
	return reply
}

// answer sends a node a reply. Where nobody hears it and id is not "", NATS says so to [Keeper.hear].
func (k *Keeper) answer(to, id string, r natskv.PermitReply) {
	if to == "" {
		return
	}
	body, err := json.Marshal(r)
	if err != nil {
		k.log.Error("an answer cannot be written", "error", err)
		return
	}
	m := &nats.Msg{Subject: to, Data: body}
	if id != "" {
		m.Reply = k.inbox + ".x." + id
	}
	// Without a connection nobody hears it, and whoever waits asks again.
	_ = k.keeping.Conn.PublishMsg(m)
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
