package natskv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// MaxBatch is how many documents a server takes in one [Bucket.PutAll], unless it is told otherwise (max_batch_size).
const MaxBatch = 1000

// What a message of an atomic batch says, and what JetStream answers to one.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"

	codeBatchIncomplete jetstream.ErrorCode = 10176 // a message was lost, or the leader is another one
	codeBatchTooLarge   jetstream.ErrorCode = 10199
	codeBatchTooMany    jetstream.ErrorCode = 10210 // of other writers, at the moment
	codeBatchDisabled   jetstream.ErrorCode = 10174
)

const (
	// PutAll waits for an acknowledgement this often: what a stream has not yet taken from its queue it may drop.
	batchStride = 200
	batchBytes  = 8 << 20
	// batchTimeout bounds a PutAll whose context has no deadline, batchAnswer the wait for one answer: a commit is the work of
	// a thousand writes.
	batchTimeout = 30 * time.Second
	batchAnswer  = 10 * time.Second
	batchRefusal = 100 * time.Millisecond
)

// Put is one document to write: see [Bucket.Put].
type Put struct {
	Scope  schemas.Scope
	Body   []byte
	Expect uint64 // the scope's revision; 0 = it never had one
}

// BatchLimitError says that a server takes fewer documents in one [Bucket.PutAll]; nothing was written.
type BatchLimitError struct{ Limit int }

func (e *BatchLimitError) Error() string {
	return fmt.Sprintf("NATS takes at most %d documents at once", e.Limit)
}

var (
	errIncomplete = errors.New("the batch did not arrive whole")          // so that nothing of it was stored
	errUnanswered = errors.New("nobody told whether the batch is stored") // it may be, now or soon
)

// PutAll writes all documents or none: each is stored only if every scope still is at the revision expected. It returns the new
// revisions, in the order of puts, which must name different scopes.
//
// The errors are those of [Bucket.Put]. A conflict names the scope if it can be told. After [schemas.ErrUnavailable] it is not
// known whether all or none were stored, unless the text says so; read the scopes again. [*BatchLimitError]: fewer at once.
// It is for a connection of [Dial].
func (b *Bucket) PutAll(ctx context.Context, puts []Put) (revisions []uint64, err error) {
	for _, p := range puts {
		if len(p.Body) > schemas.MaxDocument {
			return nil, tooLong(p.Scope, p.Body)
		}
	}
	switch {
	case len(puts) == 0:
		return nil, nil
	case len(puts) > MaxBatch:
		return nil, &BatchLimitError{MaxBatch}
	case len(puts) == 1:
		revision, err := b.Put(ctx, puts[0].Scope, puts[0].Body, puts[0].Expect)
		return []uint64{revision}, err
	}
	ctx, cancel := bounded(ctx, batchTimeout)
	defer cancel()
	last, err := b.writeAll(ctx, puts)
	if err != nil {
		return nil, err
	}
	revisions = make([]uint64, len(puts))
	for i := range puts { // a batch has sequences without a gap
		revisions[i] = last - uint64(len(puts)-1-i)
	}
	return revisions, nil
}

// writeAll returns the revision of the last document.
func (b *Bucket) writeAll(ctx context.Context, puts []Put) (uint64, error) {
	patience, election := time.Now().Add(b.cfg.Timeout), time.Now().Add(batchAnswer)
	for {
		id := rand.Text()
		last, err := b.attemptAll(ctx, id, puts)
		switch {
		case err == nil:
			return last, nil
		case errors.Is(err, errUnanswered):
			first, seen := b.after(ctx, puts[0].Scope.Key(), puts[0].Expect)
			if seen == nil && first.header.Get(batchID) == id {
				return first.revision + uint64(len(puts)-1), nil
			}
			return 0, fmt.Errorf("write %d scopes: %w: NATS at %s did not say whether they are stored", len(puts), schemas.ErrUnavailable, b.place())
		case (errors.Is(err, errIncomplete) || errors.Is(err, nats.ErrNoResponders)) && time.Now().Before(election) && pause(ctx):
		case errors.Is(err, errSequence):
			if moved := b.moved(ctx, puts); moved != nil {
				return 0, moved
			}
			// See write: with several replicas nobody may be in the way.
			if time.Now().After(patience) || !pause(ctx) {
				return 0, fmt.Errorf("%w: one of %d scopes is no longer at the revision expected", schemas.ErrConflict, len(puts))
			}
		default:
			if !errors.Is(err, schemas.ErrInvalid) {
				err = b.explain(err)
			}
			return 0, fmt.Errorf("write %d scopes, of which none is stored: %w", len(puts), err)
		}
	}
}

// moved says which scope is at another revision than expected; nil = none, as far as the replica asked knows.
func (b *Bucket) moved(ctx context.Context, puts []Put) error {
	for len(puts) > 0 {
		part := puts[:min(batchStride, len(puts))]
		puts = puts[len(part):]
		asks := make([]*nats.Msg, len(part))
		for i, p := range part {
			asks[i] = nats.NewMsg(b.lastMessage(p.Scope.Key()))
		}
		for i, a := range b.requests(ctx, asks) {
			if m, err := b.message(a); err == nil && m.revision > part[i].Expect {
				return fmt.Errorf("%w: scope %s is at revision %d, not %d", schemas.ErrConflict, part[i].Scope, m.revision, part[i].Expect)
			}
		}
	}
	return nil
}

// attemptAll sends the batch once.
func (b *Bucket) attemptAll(ctx context.Context, id string, puts []Put) (last uint64, err error) {
	if err := b.link.wait(ctx); err != nil {
		return 0, err
	}
	refusals := make(chan refusal, 1)
	ctx, done := b.link.begin(ctx, func(r refusal) {
		select {
		case refusals <- r:
		default: // one is enough
		}
	})
	defer done()
	inbox, replies, forget, err := b.replies.expect(b.nc, len(puts))
	if err != nil {
		return 0, err
	}
	defer forget()

	waiting := 0 // bytes
	for i, p := range puts {
		m := nats.NewMsg(b.subject(p.Scope.Key()))
		m.Data = p.Body
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(p.Expect, 10))
		m.Header.Set(batchID, id)
		m.Header.Set(batchSequence, strconv.Itoa(i+1))
		commit := i == len(puts)-1
		if commit {
			m.Header.Set(batchCommit, "1")
		}
		waiting += len(p.Body)
		// The first is asked for, so that a server that takes no batch says so at once.
		if ask := commit || i%batchStride == 0 || waiting > batchBytes; !ask {
			if err := b.nc.PublishMsg(m); err != nil {
				return 0, fmt.Errorf("scope %s: %w", p.Scope, b.explain(err))
			}
			continue
		}
		waiting = 0
		m.Reply = inbox + strconv.Itoa(i)
		if err := b.nc.PublishMsg(m); err != nil {
			return 0, fmt.Errorf("scope %s: %w", p.Scope, b.explain(err))
		}
		answer, err := b.batchAnswer(ctx, m.Reply, replies, refusals)
		if err != nil && commit && !refused(err) {
			return 0, errUnanswered
		}
		if err != nil {
			return 0, err
		}
		last, err = taken(answer)
		if errors.Is(err, errIncomplete) {
			select { // a message that is missing may have been refused
			case r := <-refusals:
				err = r.err
			case <-time.After(batchRefusal):
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}

// batchAnswer waits for the answer to one message of a batch.
func (b *Bucket) batchAnswer(ctx context.Context, reply string, replies <-chan *nats.Msg, refusals <-chan refusal) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, batchAnswer)
	defer cancel()
	for {
		select {
		case m := <-replies:
			if m.Subject == reply {
				return m, nil
			}
		case r := <-refusals:
			b.replies.refused(r.subject)
			return nil, r.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// taken reads the answer to a message of a batch: the sequence of a commit, 0 for another one.
func taken(m *nats.Msg) (uint64, error) {
	switch {
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		return 0, nats.ErrNoResponders
	case len(m.Data) == 0:
		return 0, nil
	}
	var ack struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("answered with no acknowledgement: %w", err)
	}
	if ack.Error == nil {
		return ack.Sequence, nil
	}
	switch ack.Error.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return 0, errSequence
	case codeBatchIncomplete, codeBatchTooMany:
		return 0, fmt.Errorf("%w: %w", errIncomplete, ack.Error)
	case codeBatchTooLarge:
		limit, _ := strconv.Atoi(regexp.MustCompile(`\d+$`).FindString(ack.Error.Description))
		return 0, &BatchLimitError{limit}
	case codeBatchDisabled:
		return 0, fmt.Errorf("%w: the bucket takes no atomic batches; run `bellpull init`", schemas.ErrUnavailable)
	case codeMsgTooLong:
		return 0, fmt.Errorf("%w: %w", schemas.ErrInvalid, ack.Error)
	}
	return 0, ack.Error
}
