package natskv

import (
	"context"
	"fmt"
	"strconv"
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
	return b.read(ctx, scopes, false)
}

// ReadNode is [Bucket.Read] for the watcher: the limit of simultaneous runs comes
// in the same round trip. A limit that was not answered is not known.
func (b *Bucket) ReadNode(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	return b.read(ctx, scopes, true)
}

func (b *Bucket) read(ctx context.Context, scopes []schemas.Scope, limit bool) (schemas.Reading, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	all := make([]*nats.Msg, 0, len(scopes)+2)
	for _, scope := range scopes {
		all = append(all, nats.NewMsg(b.lastMessage(scope.Key())))
	}
	known := b.known.Load()
	if !b.cfg.Prompt || known == nil || time.Since(known.at) > idTrusted {
		known = nil
		all = append(all, nats.NewMsg(b.lastMessage(schemas.BucketKey)))
	}
	if limit {
		all = append(all, nats.NewMsg(b.lastPermitMessage(b.permitLimit())))
	}
	answers := b.requests(ctx, all)

	var info schemas.BucketInfo
	if known != nil {
		info = known.info
	} else {
		var err error
		if info, err = b.bucketInfo(answers[len(scopes)]); err != nil {
			return schemas.Reading{}, err
		}
	}
	reading := schemas.Reading{Bucket: info.ID, At: time.Now(), Scopes: make([]schemas.ScopeReading, len(scopes))}
	for i, scope := range scopes {
		m, err := b.message(answers[i])
		if err != nil {
			reading.Scopes[i] = schemas.ScopeReading{Scope: scope, Err: fmt.Errorf("read scope %s: %w", scope, err)}
		} else {
			reading.Scopes[i] = m.reading(scope)
		}
	}
	if limit {
		// One that cannot be read is not known: the last known one counts.
		reading.Limit, _, _ = b.limitOf(answers[len(scopes)+1])
	}
	return reading, nil
}

// last fetches a key's last message; one that never had any has revision 0.
func (b *Bucket) last(ctx context.Context, key string) (message, error) {
	return b.message(b.requests(ctx, []*nats.Msg{nats.NewMsg(b.lastMessage(key))})[0])
}

// after fetches a key's first message after the revision.
func (b *Bucket) after(ctx context.Context, key string, revision uint64) (message, error) {
	ask := nats.NewMsg(b.anyMessage())
	ask.Data = fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`, revision+1, b.subject(key))
	return b.message(b.requests(ctx, []*nats.Msg{ask})[0])
}

// info reads the bucket's id; a bucket that has none gives the zero value.
func (b *Bucket) info(ctx context.Context) (schemas.BucketInfo, error) {
	return b.bucketInfo(b.requests(ctx, []*nats.Msg{nats.NewMsg(b.lastMessage(schemas.BucketKey))})[0])
}

func (b *Bucket) bucketInfo(a answer) (schemas.BucketInfo, error) {
	m, err := b.message(a)
	if err != nil || m.revision == 0 || m.deleted() {
		return schemas.BucketInfo{}, err
	}
	known := b.known.Load()
	if known != nil && known.body == string(m.body) { // who reads again and again meets the same
		b.known.Store(&knownInfo{known.body, known.info, time.Now()})
		return known.info, nil
	}
	info, err := schemas.ParseBucketInfo(m.body)
	if err == nil {
		b.known.Store(&knownInfo{string(m.body), info, time.Now()})
	}
	return info, err
}

// idTrusted is how long a publisher under load takes the bucket for the same. What
// it writes in that time into a bucket that is being restored is as lost as all that
// came since the backup.
const idTrusted = time.Second

// knownInfo is a bucket's id as it was read last.
type knownInfo struct {
	body string
	info schemas.BucketInfo
	at   time.Time
}

// message is one message of one of the bucket's streams.
type message struct {
	subject  string
	key      string // of a document; "" = it is none
	revision uint64
	time     time.Time
	header   nats.Header
	body     []byte
}

// message reads the answer to a direct get; revision 0 is no message.
func (b *Bucket) message(a answer) (message, error) {
	if a.err != nil {
		return message{}, a.err
	}
	status := a.msg.Header.Get("Status")
	if status == "404" {
		return message{}, nil
	}
	revision, err := announced(a.msg)
	if err != nil {
		return message{}, fmt.Errorf("%w: JetStream answered %s %s", schemas.ErrUnavailable, status, a.msg.Header.Get("Description"))
	}
	at, err := time.Parse(time.RFC3339Nano, streamHeader(a.msg, jetstream.TimeStampHeaer))
	if err != nil {
		return message{}, fmt.Errorf("%w: JetStream answered without a time: %w", schemas.ErrUnavailable, err)
	}
	subject := streamHeader(a.msg, jetstream.SubjectHeader)
	return message{
		subject: subject, key: b.key(subject), revision: revision, time: at,
		header: a.msg.Header, body: a.msg.Data,
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
