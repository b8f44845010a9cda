package natskv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// manageTimeout bounds what makes or walks streams where the caller's context
// has no deadline.
const manageTimeout = time.Minute

// withJetStream runs f against JetStream's own interface. Streams and consumers are
// the business of operators and servers: a node is not allowed to see them.
func (b *Bucket) withJetStream(ctx context.Context, f func(context.Context, jetstream.JetStream) error) error {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return err
	}
	if err := b.link.wait(ctx); err != nil {
		return b.explain(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, done := b.link.begin(ctx, func(r refusal) {
		if strings.HasPrefix(r.subject, "$JS.") || strings.HasPrefix(r.subject, "_INBOX") {
			cancel(r.err)
		}
	})
	defer done()
	if err = f(ctx, js); err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	var api jetstream.JetStreamError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", schemas.ErrNotFound, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: NATS at %s has no JetStream that answers: %w", schemas.ErrUnavailable, b.place(), err)
	case errors.As(err, &api) && api.APIError() != nil && api.APIError().Code/100 == 4:
		return fmt.Errorf("%w: %w", schemas.ErrConflict, err)
	}
	return b.explain(err)
}

func (b *Bucket) manage(ctx context.Context, f func(context.Context, jetstream.JetStream) (jetstream.Stream, error)) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := b.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := f(ctx, js)
		if err == nil {
			info = stream.CachedInfo()
		}
		return err
	})
	return info, err
}

// streamInfo is [schemas.ErrNotFound] for a stream that does not exist.
func (b *Bucket) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	return b.manage(ctx, func(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
		return js.Stream(ctx, name)
	})
}
