package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

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
