package puppet

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// Store is where desired state is read from. Read returns one answer per scope.
// An error means that nothing was answered.
type Store interface {
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
}

// LoopConfig says what to watch and how to run. Store, Runner, Scopes, Dir and
// Digester are needed.
type LoopConfig struct {
	Store    Store
	Runner   Runner
	Proof    Proof           // of Runner's runs; default [ProofAgent]
	Scopes   []schemas.Scope // the node's hierarchy
	Node     string          // certname: splays differ by it
	Dir      string          // the node's private directory
	Digester schemas.Digester
	Timing   Timing
	Resync   time.Duration  // everything is read again this often; default 10m
	Logger   hclog.Logger   // default: none
	Random   func() float64 // in [0, 1), for jitter; default math/rand/v2

	Permits Permits // where there may be a limit of simultaneous runs; nil = there is none
	// PermitsUnavailable is how long to wait for a keeper's answer where there is a
	// limit; after it the run starts at a random moment of the next 30 minutes, or of
	// the splay if that is longer. 0 = 10m, negative = for ever.
	PermitsUnavailable time.Duration
	Version            string               // of the watcher, for its status
	Report             func(schemas.Status) // is told the node's status whenever it is another; must not block
	Alive              func()               // is called at least once a minute while the loop works; must not block
}

// Permits hands out the right to run. The methods may be called at the same time.
type Permits interface {
	// Ask stands in line for a permit until one is granted or ctx ends, and asks again
	// when nobody answers. The channel is closed after the grant and at ctx's end. A
	// permit that is granted to nobody any more is given back.
	Ask(ctx context.Context) <-chan schemas.PermitAnswer
	// Renew returns the permit with a later end. An error says that it could not be
	// renewed this time, or [schemas.ErrConflict] that it has lapsed.
	Renew(ctx context.Context, p schemas.Permit) (schemas.Permit, error)
	// Release gives the permit back. A permit past its end is not: it may be somebody else's by now.
	Release(ctx context.Context, p schemas.Permit) error
}
