package natskv

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// Revision is one write to a scope.
type Revision struct {
	Revision uint64
	Time     time.Time
	Body     []byte // as written: it need not be a document
	Deleted  bool   // a deletion marker
}

// History returns what the bucket keeps of a scope, oldest first; nothing for a
// scope that never had a document.
func (b *Bucket) History(ctx context.Context, scope schemas.Scope) ([]Revision, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	var out []Revision
	err := b.scan(ctx, b.stream(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: b.subject(scope.Key()),
	}, func(m message) error {
		out = append(out, m.written())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("history of scope %s: %w", scope, err)
	}
	return out, nil
}

// At returns what a write to the scope stored. A revision that is another
// scope's, or no longer kept, is [schemas.ErrNotFound].
func (b *Bucket) At(ctx context.Context, scope schemas.Scope, revision uint64) (Revision, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	missing := fmt.Errorf("%w: scope %s has no revision %d", schemas.ErrNotFound, scope, revision)
	if revision == 0 {
		return Revision{}, missing
	}
	ask := nats.NewMsg(b.anyMessage())
	ask.Data = fmt.Appendf(nil, `{"seq":%d}`, revision)
	m, err := b.message(b.requests(ctx, []*nats.Msg{ask})[0])
	if err != nil {
		return Revision{}, fmt.Errorf("read revision %d of scope %s: %w", revision, scope, err)
	}
	if m.revision == 0 || m.key != scope.Key() {
		return Revision{}, missing
	}
	return m.written(), nil
}

func (m message) written() Revision {
	return Revision{Revision: m.revision, Time: m.time, Body: m.body, Deleted: m.deleted()}
}
