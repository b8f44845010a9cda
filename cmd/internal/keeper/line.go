package keeper

import (
	"container/list"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

// line is who stands in this keeper's line, and what it has asked of NATS for them.
//
// A request for a token is no waiter's own: a token goes to whoever has waited
// longest. There are as many requests as waiters up to leastPulls, and then a
// sixteenth as many: the server looks at all requests for each token, so that
// thousands of them cost more than all the rest. So keepers share the tokens in
// proportion to their lines, and all lines end at the same time.
type line struct {
	next   uint64
	order  *list.List               // of *waiter, who came first first
	nodes  map[string]*list.Element // by certname
	pulls  map[string]*pull         // by id
	grants map[string]grant         // just sent, by the id under which NATS says that nobody heard
	probes map[string]waiter        // who was told, by the id under which NATS says that it is gone
	heard  time.Time                // when the consumer last gave a sign of life
	again  time.Time                // no new request before this
	tries  int                      // requests in a row that came to nothing
}

const (
	leastPulls = 64
	pullsPart  = 16
)

// waiter is a node in line.
type waiter struct {
	node  string
	reply string    // where it hears
	told  time.Time // when it was last told that it stands in line
}

// pull is a request for a token.
type pull struct {
	sub   *nats.Subscription // on what it brings
	heard time.Time          // when the server last said something about it
}

// grant is a token that was handed to a node.
type grant struct {
	ack string
	at  time.Time
}

// grantKept is how long NATS may take to say that nobody heard of a grant.
const grantKept = 10 * time.Second

func newLine() *line {
	return &line{
		order: list.New(), nodes: map[string]*list.Element{}, pulls: map[string]*pull{}, grants: map[string]grant{}, probes: map[string]waiter{},
	}
}

func (l *line) id(kind string) string {
	l.next++
	return kind + strconv.FormatUint(l.next, 10)
}

// join puts a node in line; one that stands there already keeps its place.
func (l *line) join(node, reply string, now time.Time) {
	if e, ok := l.nodes[node]; ok {
		e.Value.(*waiter).reply = reply
		return
	}
	l.nodes[node] = l.order.PushBack(&waiter{node: node, reply: reply, told: now})
}

// first takes who came first out of the line; nil = nobody waits.
func (l *line) first() *waiter {
	e := l.order.Front()
	if e == nil {
		return nil
	}
	w := e.Value.(*waiter)
	l.leave(w.node)
	return w
}

// gone takes out of the line who was not there to hear. It keeps its place if it
// has asked anew since.
func (l *line) gone(w waiter) {
	if e, ok := l.nodes[w.node]; ok && e.Value.(*waiter).reply == w.reply {
		l.leave(w.node)
	}
}

func (l *line) leave(node string) {
	if e, ok := l.nodes[node]; ok {
		l.order.Remove(e)
		delete(l.nodes, node)
	}
}

// clear empties the line, gives up its requests, and returns who stood there.
func (l *line) clear() []*waiter {
	var all []*waiter
	for w := l.first(); w != nil; w = l.first() {
		all = append(all, w)
	}
	l.drop()
	return all
}

// drop gives up all requests.
func (l *line) drop() {
	for id := range l.pulls {
		l.end(id)
	}
}

// end gives up a request: without a subscription the server forgets it.
func (l *line) end(id string) {
	if p, ok := l.pulls[id]; ok {
		_ = p.sub.Unsubscribe() // fails only when the connection has ended
		delete(l.pulls, id)
	}
}

// wanted is how many requests there are to be.
func (l *line) wanted() int { return min(len(l.nodes), max(leastPulls, len(l.nodes)/pullsPart)) }

// pullFor is for how long a request for a token stands.
const pullFor = 24 * time.Hour

// pull makes the requests for tokens as many as are wanted. k.mu is held.
func (k *Keeper) pull(now time.Time) {
	l := k.line
	for id := range l.pulls {
		if len(l.pulls) <= l.wanted() {
			break
		}
		l.end(id)
	}
	if now.Before(l.again) {
		return
	}
	body := fmt.Appendf(nil, `{"batch":1,"expires":%d,"idle_heartbeat":%d}`, pullFor, k.cfg.Heartbeat)
	for len(l.pulls) < l.wanted() {
		id := l.id("p")
		// A token comes under its own subject: which request brought it, only the subscription tells.
		sub, err := k.keeping.Conn.ChanSubscribe(k.inbox+"."+id, k.news)
		if err != nil {
			return // the connection is closed
		}
		l.pulls[id] = &pull{sub: sub, heard: now}
		// Without a connection it is made again when there is one.
		_ = k.keeping.Conn.PublishMsg(&nats.Msg{Subject: k.keeping.NextToken, Reply: sub.Subject, Data: body})
	}
}

// tend is called every second: it gives up requests of which the server has said
// nothing for two heartbeats and a half, and tells those who wait that they do, as
// long as the consumer gives signs of life.
func (k *Keeper) tend(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.line
	maps.DeleteFunc(l.grants, func(_ string, g grant) bool { return now.Sub(g.at) > grantKept })
	for id, p := range l.pulls {
		if now.Sub(p.heard) > k.cfg.Heartbeat*5/2 {
			k.failed(id, now)
		}
	}
	k.pull(now)
	if now.Sub(l.heard) > k.cfg.Heartbeat*5/2 {
		return
	}
	for e := l.order.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		if now.Sub(w.told) >= natskv.PermitHeartbeat {
			w.told = now
			id := l.id("w")
			l.probes[id] = *w
			k.answer(w.reply, id, natskv.PermitReply{Waiting: true})
		}
	}
	if len(l.probes) > 4*len(l.nodes)+leastPulls {
		clear(l.probes) // NATS has long said who is gone
	}
}

// stalled is called when the keeper has stood still for so long that what it hears
// now may be old: a token that came meanwhile may be somebody else's by now, and
// must be neither granted nor given back. Without their requests tokens are not
// taken.
func (k *Keeper) stalled(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.line.drop()
	clear(k.line.grants)
	k.pull(now)
}

// failed gives up a request that came to nothing, and slows down. k.mu is held.
func (k *Keeper) failed(id string, now time.Time) {
	l := k.line
	l.end(id)
	if !now.Before(l.again) {
		l.again = now.Add(min(tick<<min(l.tries, 4), natskv.PermitHeartbeat) - tick)
		l.tries++
	}
}

// hear takes what NATS says about a request for a token, or about an answer that
// nobody heard.
func (k *Keeper) hear(m *nats.Msg) {
	subject := m.Sub.Subject
	if subject == k.inbox+".x.*" {
		subject = m.Subject
	}
	id, now, status := subject[strings.LastIndexByte(subject, '.')+1:], time.Now(), m.Header.Get("Status")
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.line
	switch {
	case strings.HasPrefix(id, "w"): // nobody heard: the node is gone
		l.gone(l.probes[id])
		delete(l.probes, id)
	case strings.HasPrefix(id, "g"):
		k.free(l.grants[id].ack)
		delete(l.grants, id)
	case status == "":
		if _, ok := l.pulls[id]; !ok {
			break // of a request that was given up: who knows how long it was on its way
		}
		l.heard, l.tries = now, 0
		l.end(id)
		k.grant(m.Reply, now)
	case status == "100":
		l.heard, l.tries = now, 0
		if p, ok := l.pulls[id]; ok {
			p.heard = now
		}
		return
	default:
		if _, ok := l.pulls[id]; ok {
			k.failed(id, now)
		}
	}
	k.pull(now)
}

// grant hands a token to who has waited longest, or back if nobody waits. k.mu is held.
func (k *Keeper) grant(ack string, now time.Time) {
	w := k.line.first()
	if w == nil {
		k.free(ack)
		return
	}
	id := k.line.id("g")
	k.line.grants[id] = grant{ack, now}
	h := handle{Ack: ack, Node: w.node, Until: now.Add(k.lease).UnixMilli()}
	k.answer(w.reply, id, natskv.PermitReply{Handle: h.seal(k.key), Lease: k.lease.Milliseconds()})
}

// free gives back a token that nobody has.
func (k *Keeper) free(ack string) {
	if ack != "" {
		// One that cannot be given back frees itself after the lease.
		_ = k.keeping.Conn.Publish(ack, []byte("-NAK"))
	}
}
