package natskv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// maxPending is how many scopes may wait for a slow reader; more become one Resync.
	maxPending = 1024
	// settling is when a cluster's servers surely know of a new subscription. A
	// fleet that came back at once reads again spread over as much time after it.
	settling = 2 * time.Second
)

// Changes tells when one of scopes may have changed; nil means every scope, and
// then a key that no scope maps to gives a notice without a scope.
//
// The first notice of every connection is a Resync, with one more 2 to 4 s later:
// in a cluster a subscription takes a moment to reach the server that announces
// changes. Lost notices and a change of the bucket's id give a Resync too. A
// reader that is slow gets the newest revision of each scope, never a queue of
// old ones. The channel is closed when ctx ends or the bucket is closed.
//
// Who reads on this Bucket after a Resync misses nothing: what was written
// before its subscription is read, what is written later is announced.
func (b *Bucket) Changes(ctx context.Context, scopes []schemas.Scope) (<-chan schemas.Notice, error) {
	subjects := []string{b.changed(">")}
	if scopes != nil {
		subjects = []string{b.changed(schemas.BucketKey)}
		for _, scope := range scopes {
			subjects = append(subjects, b.changed(scope.Key()))
		}
	}
	messages := make(chan *nats.Msg, maxPending)
	var subscriptions []*nats.Subscription
	end := func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // fails only when the connection has ended
		}
	}
	for _, subject := range subjects {
		s, err := b.nc.ChanSubscribe(subject, messages)
		if err != nil {
			end()
			return nil, fmt.Errorf("%w: subscribe to changes: %w", schemas.ErrUnavailable, err)
		}
		subscriptions = append(subscriptions, s)
	}
	notices := make(chan schemas.Notice)
	b.changes.Go(func() {
		defer close(notices)
		defer end()
		b.announce(ctx, messages, notices)
	})
	return notices, nil
}

// announce turns messages into notices until ctx or the bucket ends. It takes
// messages whether or not a notice is taken.
func (b *Bucket) announce(ctx context.Context, messages <-chan *nats.Msg, notices chan<- schemas.Notice) {
	alarms, stop := b.link.alarm()
	defer stop()
	settled := time.NewTimer(0)
	settled.Stop()
	defer settled.Stop()
	var waiting pending
	for {
		var out chan<- schemas.Notice
		next, ok := waiting.next()
		if ok {
			out = notices
		}
		select {
		case <-ctx.Done():
			return
		case <-b.link.ended:
			return
		case <-alarms:
			waiting.resync()
			settled.Reset(settling + rand.N(settling))
		case <-settled.C:
			waiting.resync()
		case m := <-messages:
			b.note(&waiting, m)
		case out <- next:
			waiting.taken()
		}
	}
}

func (b *Bucket) note(waiting *pending, m *nats.Msg) {
	key := b.key(m.Subject)
	if key == schemas.BucketKey {
		waiting.resync()
		return
	}
	scope, err := schemas.ScopeFromKey(key)
	if err != nil {
		scope = "" // another client's key
	}
	revision, err := announced(m)
	if err != nil {
		waiting.resync() // nobody announces like this: what happened is unknown
		return
	}
	waiting.add(scope, revision)
}

// pending holds the notices that the reader has not taken yet.
type pending struct {
	all       bool // a Resync comes first
	order     []schemas.Scope
	revisions map[schemas.Scope]uint64
}

func (p *pending) next() (schemas.Notice, bool) {
	switch {
	case p.all:
		return schemas.Notice{Resync: true}, true
	case len(p.order) > 0:
		return schemas.Notice{Scope: p.order[0], Revision: p.revisions[p.order[0]]}, true
	}
	return schemas.Notice{}, false
}

func (p *pending) taken() {
	if p.all {
		p.all = false
		return
	}
	delete(p.revisions, p.order[0])
	p.order = p.order[1:]
}

func (p *pending) add(scope schemas.Scope, revision uint64) {
	if p.all {
		return // the Resync covers it
	}
	if p.revisions == nil {
		p.revisions = make(map[schemas.Scope]uint64)
	}
	if _, ok := p.revisions[scope]; !ok {
		if len(p.order) == maxPending {
			p.resync()
			return
		}
		p.order = append(p.order, scope)
	}
	p.revisions[scope] = max(revision, p.revisions[scope])
}

func (p *pending) resync() { *p = pending{all: true} }
