package natskv

import (
	"context"
	"errors"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Bucket is a connection to one bucket. Its methods may be used at once.
type Bucket struct{}

// Dial connects at once or not at all.
func Dial(ctx context.Context, cfg Config) (*Bucket, error) { return nil, errors.ErrUnsupported }

// Connect returns a bucket that connects, and connects again, for ever.
func Connect(ctx context.Context, cfg Config) (*Bucket, error) { return nil, errors.ErrUnsupported }

// Close ends the connection.
func (b *Bucket) Close() {}

// Read fetches the documents of scopes, and the bucket's id, in one round trip.
func (b *Bucket) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	return schemas.Reading{}, errors.ErrUnsupported
}

// Changes tells when one of scopes may have changed; nil means all scopes.
func (b *Bucket) Changes(ctx context.Context, scopes []schemas.Scope) (<-chan schemas.Notice, error) {
	return nil, errors.ErrUnsupported
}

// Put writes a scope's document, provided that its revision is still expect.
func (b *Bucket) Put(ctx context.Context, scope schemas.Scope, body []byte, expect uint64) (revision uint64, err error) {
	return 0, errors.ErrUnsupported
}

// Init makes the streams, or mends them.
func (b *Bucket) Init(ctx context.Context, opts InitOptions) (InitResult, error) {
	return InitResult{}, errors.ErrUnsupported
}

// InitOptions: zero values keep what stands, or take the defaults.
type InitOptions struct {
	Replicas int  // 1 to 5; default 1
	History  int  // messages kept per scope; default 64
	NewID    bool // give the bucket a new id although it has one
}

// InitResult says what Init did.
type InitResult struct {
	Bucket  schemas.BucketInfo
	NewID   bool // the id was made by this call
	Streams []StreamResult
}

// StreamResult is what Init did to one stream.
type StreamResult struct {
	Name    string
	Created bool
	Changed []Difference // settings that were mended
}

// Difference is a setting of a stream that is not as it should be.
type Difference struct{ Setting, Have, Want string }

// Check compares the streams with what Init makes, and tells about the server.
func (b *Bucket) Check(ctx context.Context) (StreamCheck, error) {
	return StreamCheck{}, errors.ErrUnsupported
}

// StreamCheck is what Check found.
type StreamCheck struct {
	Server     string // name of the server
	Version    string // its version
	URL        string // without credentials
	RoundTrip  time.Duration
	MaxPayload int64         // bytes
	ClockAhead time.Duration // the server's clock minus ours
	Bucket     schemas.BucketInfo
	BucketErr  error // why Bucket is not known
	Streams    []StreamState
}

// StreamState is one stream as it stands.
type StreamState struct {
	Name        string
	Missing     bool
	Differences []Difference
	Messages    uint64
	Bytes       uint64
	Replicas    int
}

// Scopes lists the keys of all scopes that begin with prefix ("" = all), in the keys' order.
func (b *Bucket) Scopes(ctx context.Context, prefix string) ([]ScopeInfo, error) {
	return nil, errors.ErrUnsupported
}

// ScopeInfo is one key of the bucket.
type ScopeInfo struct {
	Key      string
	Scope    schemas.Scope // "" when Foreign
	Revision uint64
	Time     time.Time
	Foreign  bool // another client's key that no scope maps to
	Deleted  bool
}

// History returns what is kept of a scope, oldest first.
func (b *Bucket) History(ctx context.Context, scope schemas.Scope) ([]Revision, error) {
	return nil, errors.ErrUnsupported
}

// At returns one revision of a scope, or ErrNotFound.
func (b *Bucket) At(ctx context.Context, scope schemas.Scope, revision uint64) (Revision, error) {
	return Revision{}, errors.ErrUnsupported
}

// Revision is one write to a scope.
type Revision struct {
	Revision uint64
	Time     time.Time
	Body     []byte // as written; it need not be a document
	Deleted  bool
}

// All hands every scope of the bucket to each and returns the position it stands for:
// every change up to Sequence is in what each was given.
func (b *Bucket) All(ctx context.Context, each func(schemas.ScopeReading) error) (Position, error) {
	return Position{}, errors.ErrUnsupported
}

// Position asks the stream for its last sequence.
func (b *Bucket) Position(ctx context.Context) (Position, error) {
	return Position{}, errors.ErrUnsupported
}

// Position is a place in the bucket's history.
type Position struct {
	Bucket   string    // the bucket's id, "" = none
	Sequence uint64    // of the stream's last message
	At       time.Time // when it was asked for, by our clock
}
