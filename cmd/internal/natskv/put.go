package natskv

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// codeMsgTooLong is JetStream's error for what is over the stream's max_msg_size;
// nats.go has no name for it.
const codeMsgTooLong jetstream.ErrorCode = 10054

// writeHeader holds a random id, by which a writer that got no answer finds its own
// write again. It is not Nats-Msg-Id: the expected sequence already keeps a
// repetition from being stored twice, and the server's memory of ids costs it more
// than a tenth of a write.
const writeHeader = "Bellpull-Write"

// Put writes a scope's document, provided that the scope's last message is
// still expect (0 = it never had one), and returns its new revision once
// JetStream has stored it.
//
// The error matches [schemas.ErrInvalid] for a body over [schemas.MaxDocument]
// bytes, of which nothing is sent; [schemas.ErrConflict] with the standing
// revision when the scope is at another one; [schemas.ErrUnavailable] when no
// answer came by ctx's deadline. Whether the document was stored is unknown
// then: the scope must be read again. Within the deadline Put repeats itself
// without ever storing twice.
func (b *Bucket) Put(ctx context.Context, scope schemas.Scope, body []byte, expect uint64) (revision uint64, err error) {
	if len(body) > schemas.MaxDocument {
		return 0, tooLong(scope, body)
	}
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	revision, err = b.write(ctx, scope.Key(), body, expect)
	switch {
	case errors.Is(err, errSequence) && revision == expect:
		return 0, fmt.Errorf("%w: scope %s is no longer at revision %d", schemas.ErrConflict, scope, expect)
	case errors.Is(err, errSequence):
		return 0, fmt.Errorf("%w: scope %s is at revision %d, not %d", schemas.ErrConflict, scope, revision, expect)
	case err != nil:
		return 0, fmt.Errorf("write scope %s: %w", scope, err)
	}
	return revision, nil
}

func tooLong(scope schemas.Scope, body []byte) error {
	return &schemas.InvalidError{What: fmt.Sprintf("scope %s", scope), Faults: []schemas.Fault{
		{Message: fmt.Sprintf("document has %d bytes, at most %d are allowed", len(body), schemas.MaxDocument)},
	}}
}

// errSequence says that the subject's last message is another than expected.
var errSequence = errors.New("wrong last sequence")

// write stores body under a key whose last message is expect. With errSequence
// it returns the revision that stands, as far as the replica asked knows it.
//
// With several replicas JetStream also answers so while the write before is
// still being finished, and then nobody is in the way: write tries again.
func (b *Bucket) write(ctx context.Context, key string, body []byte, expect uint64) (uint64, error) {
	id, repeated := rand.Text(), false
	for patience := time.Now().Add(b.cfg.Timeout); ; {
		revision, again, err := b.publish(ctx, b.subject(key), id, body, expect)
		if !errors.Is(err, errSequence) {
			return revision, err
		}
		repeated = repeated || again
		last, err := b.last(ctx, key)
		next := last
		if err == nil && repeated {
			// If ours was stored, it is the first after expect.
			next, err = b.after(ctx, key, expect)
		}
		switch {
		case err == nil && next.header.Get(writeHeader) == id:
			return next.revision, nil
		case err == nil && last.revision > expect && next.revision != 0:
			return last.revision, errSequence
		case err == nil && time.Now().Before(patience) && pause(ctx):
		case repeated:
			return 0, b.explain(cmp.Or(err, context.DeadlineExceeded)) // whose write is in the way is unknown
		case err != nil:
			return expect, errSequence
		default:
			return last.revision, errSequence
		}
	}
}

// publish stores body under subject if the subject's last message is expect,
// or fails with errSequence. A repetition may meet itself: see writeHeader.
func (b *Bucket) publish(ctx context.Context, subject, id string, body []byte, expect uint64) (revision uint64, repeated bool, err error) {
	m := nats.NewMsg(subject)
	m.Data = body
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	m.Header.Set(writeHeader, id)
	answer := b.requests(ctx, []*nats.Msg{m})[0]
	revision, err = b.stored(answer)
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		switch refused.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			err = errSequence
		case codeMsgTooLong:
			err = fmt.Errorf("%w: %w", schemas.ErrInvalid, refused)
		}
	}
	return revision, answer.repeated, err
}

// stored is the sequence under which JetStream says that it has stored a message.
// What it refuses is a [jetstream.APIError].
func (b *Bucket) stored(a answer) (uint64, error) {
	if a.err != nil {
		return 0, a.err
	}
	if sequence, ok := acknowledged(a.msg.Data); ok {
		return sequence, nil
	}
	var ack struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(a.msg.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: NATS at %s answered with no acknowledgement: %w", schemas.ErrUnavailable, b.place(), err)
	}
	if ack.Error != nil {
		return 0, fmt.Errorf("%w: %w", schemas.ErrUnavailable, ack.Error)
	}
	return ack.Sequence, nil
}

// acknowledged reads the usual acknowledgement, {"stream":"KV_desired","seq":812}:
// decoding it by reflection costs a publisher more than sending the document.
func acknowledged(text []byte) (sequence uint64, ok bool) {
	_, rest, found := bytes.Cut(text, []byte(`"seq":`))
	digits := bytes.IndexAny(rest, ",}")
	if !found || digits <= 0 || bytes.Contains(text, []byte(`"error"`)) {
		return 0, false
	}
	sequence, err := strconv.ParseUint(string(bytes.TrimSpace(rest[:digits])), 10, 64)
	return sequence, err == nil && sequence > 0
}
