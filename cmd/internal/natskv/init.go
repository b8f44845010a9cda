package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// InitOptions say what Init is to make. The zero value keeps what stands and
// makes the rest with the defaults.
type InitOptions struct {
	Replicas int  // 1, 3 or 5 copies of each stream; 0 = as it is, 1 for a new one
	History  int  // messages kept for each scope; 0 = as it is, 64 for a new one
	NewID    bool // give the bucket a new id even if it has one
}

// InitResult says what [Bucket.Init] did.
type InitResult struct {
	Bucket  schemas.BucketInfo
	NewID   bool // the bucket's id is new
	Streams []StreamResult
}

// StreamResult is what Init did to one stream: made it, mended the settings
// named, or found it right.
type StreamResult struct {
	Name    string
	Created bool
	Mended  []Difference
}

const (
	permitLease   = time.Minute
	permitWaiters = 16384
)

// Init makes the bucket's streams, or mends the settings in which they differ
// from what bellpull relies on, and last of all writes the bucket's id. It may
// be repeated at any time; documents are never touched.
//
// The error matches [schemas.ErrConflict] when a stream has a setting that NATS
// does not change, and names it; nothing is done to that stream then.
func (b *Bucket) Init(ctx context.Context, opts InitOptions) (InitResult, error) {
	ctx, cancel := bounded(ctx, manageTimeout)
	defer cancel()
	var result InitResult
	for _, want := range b.streams() {
		if opts.Replicas != 0 {
			want.Replicas = opts.Replicas
		}
		if opts.History != 0 && want.Name == b.stream() {
			want.MaxMsgsPerSubject = int64(opts.History)
		}
		done, err := b.initStream(ctx, want, opts)
		if err != nil {
			return result, fmt.Errorf("stream %s: %w", want.Name, err)
		}
		result.Streams = append(result.Streams, done)
	}
	if err := b.initPermits(ctx); err != nil {
		return result, fmt.Errorf("stream %s: %w", b.permitsStream(), err)
	}
	var err error
	result.Bucket, result.NewID, err = b.initID(ctx, opts.NewID)
	if err != nil {
		return result, fmt.Errorf("bucket id: %w", err)
	}
	return result, nil
}

func (b *Bucket) initStream(ctx context.Context, want jetstream.StreamConfig, opts InitOptions) (StreamResult, error) {
	result := StreamResult{Name: want.Name}
	info, err := b.streamInfo(ctx, want.Name)
	if errors.Is(err, schemas.ErrNotFound) {
		info, err = b.manage(ctx, func(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
			return js.CreateStream(ctx, want)
		})
		if err != nil {
			return result, err
		}
		result.Created = true
		return result, complete(info.Config, want)
	}
	if err != nil {
		return result, err
	}
	target := adopt(info.Config, want)
	if opts.Replicas != 0 {
		target.Replicas = opts.Replicas
	}
	if opts.History != 0 {
		target.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	}
	result.Mended, err = differences(info.Config, target)
	if err != nil || len(result.Mended) == 0 {
		return result, err
	}
	for _, d := range result.Mended {
		if d.Fixed {
			return result, fmt.Errorf("%w: %v, and NATS does not change that; make the stream anew under another bucket name, or remove it",
				schemas.ErrConflict, d)
		}
	}
	info, err = b.manage(ctx, func(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
		return js.UpdateStream(ctx, target)
	})
	if err != nil {
		return result, err
	}
	return result, complete(info.Config, want)
}

// complete finds what an old server left out without a word.
func complete(have, want jetstream.StreamConfig) error {
	missing, err := differences(have, adopt(have, want))
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: the server did not take it: %v; nats-server 2.12 or newer is needed", schemas.ErrConflict, missing[0])
	}
	return err
}

// initPermits makes sure that there is a limit, a key for the handles of permits,
// and the consumer that hands out the tokens.
func (b *Bucket) initPermits(ctx context.Context) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	for subject, body := range map[string][]byte{b.permitLimit(): []byte(schemas.Limit{Known: true}.String()), b.permitKey(): key} {
		if _, _, err := b.publish(ctx, subject, rand.Text(), body, 0); err != nil && !errors.Is(err, errSequence) {
			return err
		}
	}
	return b.initConsumer(ctx)
}

// initConsumer makes sure that there is the consumer that hands out the tokens.
func (b *Bucket) initConsumer(ctx context.Context) error {
	return b.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateOrUpdateConsumer(ctx, b.permitsStream(), jetstream.ConsumerConfig{
			Durable: b.permitConsumer(), FilterSubject: b.permitTokens(),
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: permitLease,
			MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: permitWaiters,
		})
		return err
	})
}

// initID writes the bucket's id if it has none, or if it is to have a new one.
func (b *Bucket) initID(ctx context.Context, anew bool) (schemas.BucketInfo, bool, error) {
	for {
		last, err := b.last(ctx, schemas.BucketKey)
		if err != nil {
			return schemas.BucketInfo{}, false, err
		}
		if last.revision != 0 && !last.deleted() && !anew {
			info, err := schemas.ParseBucketInfo(last.body)
			return info, false, err
		}
		info := schemas.BucketInfo{ID: rand.Text(), Created: time.Now().UTC().Truncate(time.Second)}
		body, err := info.Marshal()
		if err != nil {
			return schemas.BucketInfo{}, false, err
		}
		_, err = b.write(ctx, schemas.BucketKey, body, last.revision)
		if errors.Is(err, errSequence) && pause(ctx) {
			anew = false // another init was faster: its id is as new
			continue
		}
		return info, err == nil, err
	}
}
