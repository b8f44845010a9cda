package natskv

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// NodeStatus is what a node reported last.
type NodeStatus struct {
	Node   string
	Time   time.Time // when it was stored: the last that was heard of the node
	Status schemas.Status
	Err    error // matches [schemas.ErrInvalid]: what it reported is no status
}

// Statuses reads every node's last status, by name. Nodes that were forgotten are
// left out. 10,000 are read in about a second; without a deadline in ctx it has a
// minute. The error matches [schemas.ErrUnavailable].
func (b *Bucket) Statuses(ctx context.Context) ([]NodeStatus, error) {
	ctx, cancel := bounded(ctx, manageTimeout)
	defer cancel()
	var all []NodeStatus
	err := b.scan(ctx, b.statusStream(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: b.statuses(),
	}, func(m message) error {
		if s, ok := b.nodeStatus(m.subject, m.body, m.time); ok {
			all = append(all, s)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the nodes' statuses: %w", err)
	}
	slices.SortFunc(all, func(a, b NodeStatus) int { return cmp.Compare(a.Node, b.Node) })
	return all, nil
}

// StatusChanges tells what nodes report from now on. After a new connection, or
// when reports were lost, it sends a NodeStatus without a Node: read all again.
// The channel is closed when ctx or the bucket ends.
func (b *Bucket) StatusChanges(ctx context.Context) (<-chan NodeStatus, error) {
	messages := make(chan *nats.Msg, 65536)
	s, err := b.nc.ChanSubscribe(b.statuses(), messages)
	if err != nil {
		return nil, fmt.Errorf("%w: subscribe to statuses: %w", schemas.ErrUnavailable, err)
	}
	out := make(chan NodeStatus)
	b.changes.Go(func() {
		defer close(out)
		defer func() { _ = s.Unsubscribe() }() // fails only when the connection has ended
		alarms, stop := b.link.alarm()
		defer stop()
		for {
			var next NodeStatus
			select {
			case <-ctx.Done():
				return
			case <-b.link.ended:
				return
			case <-alarms:
			case m := <-messages:
				var ok bool
				if next, ok = b.nodeStatus(m.Subject, m.Data, time.Now()); !ok {
					continue
				}
			}
			select {
			case out <- next:
			case <-ctx.Done():
				return
			case <-b.link.ended:
				return
			}
		}
	})
	return out, nil
}

// ForgetStatus makes a node's status as if it had never reported, until it does
// again. The error matches [schemas.ErrNotFound] when there is none.
func (b *Bucket) ForgetStatus(ctx context.Context, node string) error {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	token, err := nodeToken(node)
	if err != nil {
		return err
	}
	ask := nats.NewMsg(b.lastStatus(token))
	m, err := b.message(b.requests(ctx, []*nats.Msg{ask})[0])
	if err == nil && (m.revision == 0 || len(m.body) == 0) {
		err = fmt.Errorf("%w: node %s has no status", schemas.ErrNotFound, node)
	}
	if err == nil {
		// The stream forbids deleting, so that no node can wipe out others.
		_, err = b.stored(b.requests(ctx, []*nats.Msg{nats.NewMsg(b.status(token))})[0])
	}
	if err != nil {
		return fmt.Errorf("forget status: %w", err)
	}
	return nil
}

// nodeStatus reads a report; false = it is none of a node's, or forgets one.
func (b *Bucket) nodeStatus(subject string, body []byte, at time.Time) (NodeStatus, bool) {
	node, err := b.nodeIn(subject)
	if err != nil || len(body) == 0 {
		return NodeStatus{}, false
	}
	s := NodeStatus{Node: node, Time: at}
	s.Status, s.Err = schemas.ParseStatus(body)
	if s.Err == nil && s.Status.Node != node {
		s.Err = fmt.Errorf("%w: it says to be %q", schemas.ErrInvalid, s.Status.Node)
	}
	return s, true
}
