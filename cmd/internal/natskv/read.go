package natskv

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// Read fetches the documents of scopes and the bucket's id in one round trip:
// all requests are sent at once. A scope's own trouble is in its Err.
//
// The error matches [schemas.ErrUnavailable] when nothing, or not even the
// bucket's id, was answered by ctx's deadline. A bucket without an id is no
// error: Reading.Bucket is "" then; an id that cannot be read matches
// [schemas.ErrInvalid].
func (b *Bucket) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	reading := schemas.Reading{Scopes: make([]schemas.ScopeReading, len(scopes))}
	var wg sync.WaitGroup
	for i, scope := range scopes {
		wg.Go(func() {
			m, err := b.last(ctx, scope.Key())
			if err != nil {
				reading.Scopes[i] = schemas.ScopeReading{Scope: scope, Err: err}
			} else {
				reading.Scopes[i] = m.reading(scope)
			}
		})
	}
	info, err := b.info(ctx)
	wg.Wait()
	if err != nil {
		return schemas.Reading{}, err
	}
	reading.Bucket, reading.At = info.ID, time.Now()
	return reading, nil
}

// info reads the bucket's id; a bucket that has none gives the zero value.
func (b *Bucket) info(ctx context.Context) (schemas.BucketInfo, error) {
	m, err := b.last(ctx, schemas.BucketKey)
	if err != nil || m.revision == 0 || m.deleted() {
		return schemas.BucketInfo{}, err
	}
	return schemas.ParseBucketInfo(m.body)
}

// last fetches a key's last message; one that never had any has revision 0.
func (b *Bucket) last(ctx context.Context, key string) (message, error) {
	answer, err := b.insist(ctx, nats.NewMsg(b.lastMessage(key)))
	if err != nil {
		return message{}, err
	}
	m, err := b.direct(answer)
	if err != nil {
		return message{}, fmt.Errorf("%w: read key %q: %w", schemas.ErrUnavailable, key, err)
	}
	return m, nil
}

// message is one message of the bucket's stream.
type message struct {
	key      string
	revision uint64
	time     time.Time
	header   nats.Header
	body     []byte
}

// direct reads the answer to a direct get.
func (b *Bucket) direct(answer *nats.Msg) (message, error) {
	if status := answer.Header.Get("Status"); status == "404" {
		return message{}, nil
	}
	revision, err := announced(answer)
	if err != nil {
		return message{}, fmt.Errorf("answered %s %s", answer.Header.Get("Status"), answer.Header.Get("Description"))
	}
	at, err := time.Parse(time.RFC3339Nano, streamHeader(answer, jetstream.TimeStampHeaer))
	if err != nil {
		return message{}, fmt.Errorf("answered without the message's time: %w", err)
	}
	return message{
		key: b.key(streamHeader(answer, jetstream.SubjectHeader)), revision: revision, time: at,
		header: answer.Header, body: answer.Data,
	}, nil
}

// announced is the revision of a message that the stream sent or republished.
func announced(m *nats.Msg) (uint64, error) {
	return strconv.ParseUint(streamHeader(m, jetstream.SequenceHeader), 10, 64)
}

// streamHeader is a header that the stream adds. It comes after those that the
// message's writer set, so only the last is to be believed.
func streamHeader(m *nats.Msg, name string) string {
	values := m.Header[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// deleted reports whether the message is a marker that the key has no value.
func (m message) deleted() bool {
	op := m.header.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || m.header.Get(jetstream.MarkerReasonHeader) != ""
}

// reading is what the message says about its scope.
func (m message) reading(scope schemas.Scope) schemas.ScopeReading {
	r := schemas.ScopeReading{Scope: scope, Revision: m.revision, Time: m.time}
	switch {
	case m.revision == 0:
	case m.deleted():
		r.Deleted, r.Document = true, schemas.Emptied(m.time)
	default:
		doc, err := schemas.ParseDocument(m.body)
		if err != nil {
			r.Err = fmt.Errorf("scope %s: revision %d: %w", scope, m.revision, err)
		} else {
			r.Document = doc.Dated(m.time)
		}
	}
	return r
}
