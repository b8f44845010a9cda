package natskv

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// Keeping is what package keeper, which knows NATS too, needs besides a bucket's
// methods. Nobody else does.
type Keeping struct {
	Conn      *nats.Conn
	Requests  string // subject of what nodes ask, by a wildcard
	NextToken string // subject on which the consumer is asked for a token
	Limit     string // subject of the limit, for hearing when it is set
	// Connected gets a value after each connect, until stop is called.
	Connected <-chan struct{}
	Stop      func()
}

// Keeping returns what a keeper works with.
func (b *Bucket) Keeping() Keeping {
	connected, stop := b.link.alarm()
	return Keeping{
		Conn: b.nc, Requests: b.permitRequest("*"), NextToken: b.nextToken(), Limit: b.permitLimit(), Connected: connected, Stop: stop,
	}
}

// AskingNode is the node whose request came on the subject, by its certname. The
// error matches [schemas.ErrInvalid].
func (b *Bucket) AskingNode(subject string) (string, error) { return b.nodeIn(subject) }

// PermitKey reads the key of the permits' handles, which only keepers may read.
// The error matches [schemas.ErrNotFound] when `bellpull init` has not made it.
func (b *Bucket) PermitKey(ctx context.Context) ([]byte, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	m, err := b.message(b.permitMessage(ctx, b.permitKey()))
	if err == nil && len(m.body) == 0 {
		err = fmt.Errorf("%w: bucket %q has none; run `bellpull init`", schemas.ErrNotFound, b.bucket)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the permits: %w", err)
	}
	return m.body, nil
}
