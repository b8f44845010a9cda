package natskv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// Error codes of JetStream that nats.go has no name for.
const (
	codeInProcess  jetstream.ErrorCode = 10158 // a message with this id is being stored
	codeMsgTooLong jetstream.ErrorCode = 10054
)

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
		return 0, &schemas.InvalidError{What: fmt.Sprintf("scope %s", scope), Faults: []schemas.Fault{
			{Message: fmt.Sprintf("document has %d bytes, at most %d are allowed", len(body), schemas.MaxDocument)},
		}}
	}
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	revision, err = b.publish(ctx, b.subject(scope.Key()), body, expect)
	switch {
	case errors.Is(err, errSequence):
		return 0, b.conflict(ctx, scope, expect)
	case err != nil:
		return 0, fmt.Errorf("write scope %s: %w", scope, err)
	}
	return revision, nil
}

var errSequence = errors.New("wrong last sequence")

// publish stores body under subject if the subject's last message is expect,
// or fails with errSequence. The message's id lets it be sent again: JetStream
// answers a repetition with the sequence of the first.
func (b *Bucket) publish(ctx context.Context, subject string, body []byte, expect uint64) (uint64, error) {
	m := nats.NewMsg(subject)
	m.Data = body
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	m.Header.Set(jetstream.MsgIDHeader, rand.Text())
	for {
		answer := b.requests(ctx, []*nats.Msg{m})[0]
		if answer.err != nil {
			return 0, answer.err
		}
		var ack struct {
			jetstream.PubAck
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(answer.msg.Data, &ack); err != nil {
			return 0, fmt.Errorf("%w: NATS at %s answered with no acknowledgement: %w", schemas.ErrUnavailable, b.place(), err)
		}
		if ack.Error == nil {
			return ack.Sequence, nil
		}
		switch ack.Error.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return 0, errSequence
		case codeMsgTooLong:
			return 0, fmt.Errorf("%w: %w", schemas.ErrInvalid, ack.Error)
		case codeInProcess:
			if pause(ctx) {
				continue
			}
		}
		return 0, fmt.Errorf("%w: %w", schemas.ErrUnavailable, ack.Error)
	}
}

// conflict names the revision that stands. The replica that is asked may not
// have it yet, or it may still be under way.
func (b *Bucket) conflict(ctx context.Context, scope schemas.Scope, expect uint64) error {
	for {
		m, err := b.last(ctx, scope.Key())
		if err != nil || m.revision == expect && !pause(ctx) {
			return fmt.Errorf("%w: scope %s is no longer at revision %d", schemas.ErrConflict, scope, expect)
		}
		if m.revision != expect {
			return fmt.Errorf("%w: scope %s is at revision %d, not %d", schemas.ErrConflict, scope, m.revision, expect)
		}
	}
}
