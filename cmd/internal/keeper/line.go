package keeper

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

// line is who stands in this keeper's line. Its order is the consumer's.
type line struct {
	next   uint64
	nodes  map[string]*waiter // by certname
	pulls  map[string]*waiter // by the id of the request for a token
	grants map[string]grant   // just sent, by the id under which NATS says that nobody heard
}

// waiter is a node in line.
type waiter struct {
	node  string
	reply string             // where it hears
	place uint64             // rises with the time of joining
	pull  string             // id of its request for a token; "" = none is under way
	sub   *nats.Subscription // on what that request brings
	heard time.Time          // when the server last said something about that request
	told  time.Time          // when the node was last told that it stands in line
	tries int                // requests in a row that came to nothing
	again time.Time          // no new request before this
}

// grant is a token that was handed to a node.
type grant struct {
	ack string
	at  time.Time
}

// grantKept is how long NATS may take to say that nobody heard of a grant.
const grantKept = 10 * time.Second

func newLine() *line {
	return &line{nodes: map[string]*waiter{}, pulls: map[string]*waiter{}, grants: map[string]grant{}}
}

func (l *line) id(kind string) string {
	l.next++
	return kind + strconv.FormatUint(l.next, 10)
}

// join puts a node in line; one that stands there already keeps its place.
func (l *line) join(node, reply string, now time.Time) (w *waiter, isNew bool) {
	if w, ok := l.nodes[node]; ok {
		w.reply = reply
		return w, false
	}
	l.next++
	w = &waiter{node: node, reply: reply, place: l.next, told: now}
	l.nodes[node] = w
	return w, true
}

// leave strikes a waiter off; the server forgets its request.
func (l *line) leave(w *waiter) {
	delete(l.nodes, w.node)
	l.drop(w)
}

// drop gives up the waiter's request for a token.
func (l *line) drop(w *waiter) {
	delete(l.pulls, w.pull)
	if w.sub != nil {
		_ = w.sub.Unsubscribe() // fails only when the connection has ended
	}
	w.pull, w.sub = "", nil
}

// all returns who stands in line, in order.
func (l *line) all() []*waiter { return inOrder(slices.Collect(maps.Values(l.nodes))) }

func inOrder(all []*waiter) []*waiter {
	slices.SortFunc(all, func(a, b *waiter) int { return int(int64(a.place) - int64(b.place)) })
	return all
}

// connectedAgain gives up all requests, which ended with the connection, and
// returns the waiters.
func (k *Keeper) connectedAgain() []*waiter {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.line.all()
	for _, w := range all {
		k.line.drop(w)
	}
	return all
}

// silent returns the waiters whose request has to be made again: it ended, or the
// server has said nothing about it for two heartbeats and a half. It forgets old
// grants too.
func (k *Keeper) silent(now time.Time) []*waiter {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.line.grants, func(_ string, g grant) bool { return now.Sub(g.at) > grantKept })
	var again []*waiter
	for _, w := range k.line.nodes {
		if w.pull != "" && now.Sub(w.heard) > k.cfg.Heartbeat*5/2 {
			k.ended(w, now)
		}
		if w.pull == "" && !now.Before(w.again) {
			again = append(again, w)
		}
	}
	return inOrder(again)
}

// ended notes that a waiter's request came to nothing. k.mu is held.
func (k *Keeper) ended(w *waiter, now time.Time) {
	k.line.drop(w)
	w.again = now.Add(min(tick<<min(w.tries, 4), natskv.PermitHeartbeat) - tick)
	w.tries++
}

// pullFor is for how long a request for a token stands. Whoever waited longer
// would lose its place.
const pullFor = 24 * time.Hour

// pull asks the consumer for a token for each of the waiters.
func (k *Keeper) pull(waiters ...*waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body := fmt.Appendf(nil, `{"batch":1,"expires":%d,"idle_heartbeat":%d}`, pullFor, k.cfg.Heartbeat)
	for _, w := range waiters {
		if k.line.nodes[w.node] != w || w.pull != "" {
			continue
		}
		id := k.line.id("p")
		// A token comes under its own subject: which request brought it, only the subscription tells.
		sub, err := k.keeping.Conn.ChanSubscribe(k.inbox+"."+id, k.news)
		if err != nil {
			return // the connection is closed
		}
		w.pull, w.sub, w.heard = id, sub, time.Now()
		k.line.pulls[id] = w
		// Without a connection it is made again when there is one.
		_ = k.keeping.Conn.PublishMsg(&nats.Msg{Subject: k.keeping.NextToken, Reply: sub.Subject, Data: body})
	}
}

// hear takes what NATS says about a request for a token, or about an answer that
// nobody heard: the answer to the request p1 has the id wp1, a grant one of its own.
func (k *Keeper) hear(m *nats.Msg) {
	subject := m.Sub.Subject
	if subject == k.inbox+".x.*" {
		subject = m.Subject
	}
	id, now, status := subject[strings.LastIndexByte(subject, '.')+1:], time.Now(), m.Header.Get("Status")
	k.mu.Lock()
	switch {
	case strings.HasPrefix(id, "w"):
		if w, waits := k.line.pulls[id[1:]]; waits {
			k.line.leave(w) // nobody heard: the node is gone
		}
	case strings.HasPrefix(id, "g"):
		g := k.line.grants[id]
		delete(k.line.grants, id)
		k.mu.Unlock()
		k.free(g.ack)
		return
	case status == "":
		k.mu.Unlock()
		k.grant(id, m.Reply, now)
		return
	default:
		w, waits := k.line.pulls[id]
		if waits && status == "100" {
			w.heard, w.tries = now, 0
			reply, tell := w.reply, now.Sub(w.told) >= natskv.PermitHeartbeat-k.cfg.Heartbeat
			if tell {
				w.told = now
			}
			k.mu.Unlock()
			if tell {
				k.answer(reply, "w"+id, natskv.PermitReply{Waiting: true})
			}
			return
		}
		if waits {
			k.ended(w, now)
		}
	}
	k.mu.Unlock()
}

// grant hands a token to the waiter whose request brought it, or back if it has left.
func (k *Keeper) grant(pull, ack string, now time.Time) {
	k.mu.Lock()
	w, waits := k.line.pulls[pull]
	if !waits {
		k.mu.Unlock()
		k.free(ack)
		return
	}
	k.line.leave(w)
	id := k.line.id("g")
	k.line.grants[id] = grant{ack, now}
	h := handle{Ack: ack, Node: w.node, Until: now.Add(k.lease).UnixMilli()}
	key, lease := k.key, k.lease
	k.mu.Unlock()
	k.answer(w.reply, id, natskv.PermitReply{Handle: h.seal(key), Lease: lease.Milliseconds()})
}

// free gives back a token that nobody has.
func (k *Keeper) free(ack string) {
	if ack != "" {
		// One that cannot be given back frees itself after the lease.
		_ = k.keeping.Conn.Publish(ack, []byte("-NAK"))
	}
}
