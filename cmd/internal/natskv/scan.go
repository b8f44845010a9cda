package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// scanBatch documents of the largest size are less than the 64 MB that a server
	// holds back for a client. A limit in bytes would do better, but the message
	// that does not fit is lost then (nats-server 2.15).
	scanBatch   = 50
	scanHeaders = 1000
	scanIdle    = time.Minute // between two requests, while each works
)

// scan hands the messages of a consumer of the stream to each, until it has had all that were
// stored when it began. The consumer is gone afterwards.
func (b *Bucket) scan(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, each func(message) error) error {
	cfg.AckPolicy, cfg.MemoryStorage, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, scanIdle
	var stopped error // by each; it is none of NATS's errors
	err := b.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		consumer, err := js.CreateConsumer(ctx, stream, cfg)
		if err != nil {
			return err
		}
		defer func() { // after ctx's end the server does so by itself
			_ = js.DeleteConsumer(ctx, stream, consumer.CachedInfo().Name)
		}()
		for more := consumer.CachedInfo().NumPending > 0; more && stopped == nil; {
			more, err = b.fetch(ctx, consumer, func(m message) bool {
				stopped = each(m)
				return stopped == nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, schemas.ErrNotFound) {
		err = b.explain(nats.ErrNoResponders)
	}
	return cmp.Or(err, stopped)
}

// fetch hands some messages to each until that one has enough, and reports
// whether more are waiting.
func (b *Bucket) fetch(ctx context.Context, consumer jetstream.Consumer, each func(message) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the request when the last message is there
	defer cancel()
	n := scanBatch
	if consumer.CachedInfo().Config.HeadersOnly {
		n = scanHeaders
	}
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return false, err
	}
	for next := range batch.Messages() {
		meta, err := next.Metadata()
		if err != nil {
			return false, err
		}
		goOn := each(message{
			subject: next.Subject(), key: b.key(next.Subject()), revision: meta.Sequence.Stream, time: meta.Timestamp,
			header: next.Headers(), body: next.Data(),
		})
		if !goOn || meta.NumPending == 0 {
			return false, nil
		}
	}
	return true, batch.Error()
}

// Position is a place in the bucket's history.
type Position struct {
	Bucket   string    // the bucket's id; "" = it has none
	Sequence uint64    // of the stream's last message
	At       time.Time // when the question was asked, by this machine's clock
}

// Position asks where the bucket's history ends. Who has read everything up to
// Sequence was current at At.
func (b *Bucket) Position(ctx context.Context) (Position, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	at := time.Now()
	info, err := b.streamInfo(ctx, b.stream())
	if errors.Is(err, schemas.ErrNotFound) {
		err = b.explain(nats.ErrNoResponders)
	}
	if err != nil {
		return Position{}, fmt.Errorf("read the stream's position: %w", err)
	}
	id, err := b.info(ctx)
	if err != nil {
		return Position{}, err
	}
	return Position{Bucket: id.ID, Sequence: info.State.LastSeq, At: at}, nil
}

// All hands every scope that ever had a document to each, in no order, and
// returns the position of the state that was read: it holds every change up to
// Sequence. A scope that is written meanwhile may come twice, newest last. Keys
// that no scope maps to are left out. It reads a bucket of 100,000 documents in
// seconds; without a deadline in ctx it has a minute.
//
// An error of each ends it. An error that matches [schemas.ErrUnavailable] may
// come after some scopes were handed over.
func (b *Bucket) All(ctx context.Context, each func(schemas.ScopeReading) error) (Position, error) {
	return b.lastOfAll(ctx, false, func(scope schemas.Scope, m message) error { return each(m.reading(scope)) })
}

// Revisions is like [Bucket.All], but tells only where each scope's history ends,
// which is quicker by far.
func (b *Bucket) Revisions(ctx context.Context, each func(scope schemas.Scope, revision uint64, deleted bool) error) (Position, error) {
	return b.lastOfAll(ctx, true, func(scope schemas.Scope, m message) error { return each(scope, m.revision, m.deleted()) })
}

// lastOfAll hands the last message of every scope to each.
func (b *Bucket) lastOfAll(ctx context.Context, headersOnly bool, each func(schemas.Scope, message) error) (Position, error) {
	ctx, cancel := bounded(ctx, manageTimeout)
	defer cancel()
	position, err := b.Position(ctx)
	if err != nil {
		return Position{}, err
	}
	var newest uint64
	err = b.scan(ctx, b.stream(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: b.subject(">"), HeadersOnly: headersOnly,
	}, func(m message) error {
		newest = max(newest, m.revision)
		scope, err := schemas.ScopeFromKey(m.key)
		if err != nil {
			return nil
		}
		return each(scope, m)
	})
	if err != nil {
		return Position{}, fmt.Errorf("read all scopes: %w", err)
	}
	if newest < position.Sequence {
		return Position{}, fmt.Errorf("read all scopes: %w: a replica has only revision %d of %d",
			schemas.ErrUnavailable, newest, position.Sequence)
	}
	return position, nil
}
