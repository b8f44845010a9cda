package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// Bucket is a connection to one bucket. Its methods may be used at the same time.
type Bucket struct {
	names
	cfg     Config
	nc      *nats.Conn
	link    *link
	dialer  *dialer
	lasting bool               // the connection comes back when it is lost
	forget  context.CancelFunc // ends the attempts to connect
	changes sync.WaitGroup     // the goroutines behind Changes
	replies replies
	known   atomic.Pointer[knownInfo]
}

const (
	// writeTimeout bounds a write to a server that reads no more.
	writeTimeout = 5 * time.Second
	// A server that is silent for two pings is left: after 90 s at most.
	pingInterval = 30 * time.Second
	// reconnectTimeout is the least time for one server to accept a connection that
	// comes back.
	reconnectTimeout = 5 * time.Second
	// closeGrace is how long Close waits for nats.go before it cuts the line.
	closeGrace = 100 * time.Millisecond
)

// Dial connects to one of the servers, or says by ctx's deadline that it could
// not; silent servers share the time. The connection does not come back when it
// is lost: Dial is for one question and its answer.
//
// The error matches [schemas.ErrInvalid] for a Config that cannot work, and
// [schemas.ErrUnavailable] else.
func Dial(ctx context.Context, cfg Config) (*Bucket, error) {
	b, err := newBucket(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := b.connect(ctx, nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.SkipHostLookup()); err != nil {
		return nil, err
	}
	b.link.connected(b.nc)
	return b, nil
}

// Connect returns a bucket that connects, and connects again, for ever, with
// growing and random pauses of up to 45 s. Servers that do not answer make it
// return without a connection, after [Config.Timeout] each at most. Calls wait
// for a connection until their deadline.
//
// The error matches [schemas.ErrInvalid]: the Config cannot work.
func Connect(ctx context.Context, cfg Config) (*Bucket, error) {
	b, err := newBucket(ctx, cfg)
	if err != nil {
		return nil, err
	}
	err = b.connect(ctx,
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),                          // what cannot be sent now fails now, and is not sent behind our back
		nats.Timeout(max(b.cfg.Timeout, reconnectTimeout)), // the dialer gives the first attempt less
		nats.CustomReconnectDelay(b.link.delay), nats.PingInterval(cmp.Or(b.cfg.Ping, pingInterval)),
		nats.ConnectHandler(b.link.connected), nats.ReconnectHandler(b.link.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.link.failed(b.reason(err)) }),
	)
	if err != nil {
		return nil, err
	}
	b.lasting = true
	life, forget := context.WithCancel(context.WithoutCancel(ctx))
	b.forget = forget
	b.dialer.use(life, reconnectTimeout)
	return b, nil
}

// Close ends the connection, all calls and all channels of [Bucket.Changes].
func (b *Bucket) Close() {
	b.link.close()
	b.forget()
	timer := time.AfterFunc(closeGrace, b.dialer.abort)
	defer timer.Stop()
	b.nc.Close()
	b.changes.Wait()
}

// Name is the bucket's name.
func (b *Bucket) Name() string { return b.bucket }

// Stream is the name of the stream that holds the bucket.
func (b *Bucket) Stream() string { return b.stream() }

// Connected reports whether the connection stands, as far as is known.
func (b *Bucket) Connected() bool { return b.link.stands() }

// Reconnect drops a lasting connection that seems dead, so that a fresh one is
// made at once. It does not wait for it.
func (b *Bucket) Reconnect() { go func() { _ = b.nc.ForceReconnect() }() } // nats.go may hold its lock; closed: nothing to do

func newBucket(ctx context.Context, cfg Config) (*Bucket, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if len(cfg.Servers) == 0 {
		cfg.Servers = []string{nats.DefaultURL}
	}
	n, err := newNames(cfg.Bucket)
	if err != nil {
		return nil, err
	}
	if err := checkServers(cfg.Servers); err != nil {
		return nil, err
	}
	return &Bucket{
		names: n, cfg: cfg, link: newLink(cfg.Warn, cfg.Prompt), forget: func() {},
		dialer: &dialer{timeout: cfg.Timeout, ctx: ctx, left: len(cfg.Servers)},
	}, nil
}

func (b *Bucket) connect(ctx context.Context, more ...nats.Option) error {
	options := nats.GetDefaultOptions()
	options.Servers = b.cfg.Servers
	own, err := b.options()
	if err != nil {
		return err
	}
	for _, option := range append(own, more...) {
		if err := option(&options); err != nil {
			return fmt.Errorf("%w: nats settings: %w", schemas.ErrInvalid, err)
		}
	}
	if b.nc, err = options.Connect(); err != nil {
		return b.unreached(ctx, err)
	}
	return nil
}

func (b *Bucket) options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(b.cfg.Name), nats.Timeout(b.cfg.Timeout), nats.FlusherTimeout(writeTimeout),
		nats.SetCustomDialer(b.dialer),
		nats.ErrorHandler(b.link.fault), nats.DisconnectErrHandler(b.link.disconnected),
	}
	if b.cfg.Node != "" {
		prefix, err := inbox(b.cfg.Node)
		if err != nil {
			return nil, err
		}
		options = append(options, nats.CustomInboxPrefix(prefix))
	}
	proof, err := b.cfg.proof()
	return append(options, proof...), err
}

// checkServers refuses what is no URL here, because nats.go's own error would
// show the password that a URL may hold.
func checkServers(servers []string) error {
	var faults []schemas.Fault
	for i, server := range servers {
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		if u, err := url.Parse(server); err != nil || u.Hostname() == "" || strings.Contains(server, ",") {
			faults = append(faults, schemas.Fault{
				Pointer: fmt.Sprintf("/%d", i), Message: "is not a URL such as tls://nats.example.com:4222",
			})
		}
	}
	if faults != nil {
		return &schemas.InvalidError{What: "nats.servers", Faults: faults}
	}
	return nil
}

// place names the servers for an error text, without what proves who we are.
func (b *Bucket) place() string {
	out := make([]string, len(b.cfg.Servers))
	for i, server := range b.cfg.Servers {
		out[i] = server
		if u, err := url.Parse(server); err == nil && u.User != nil {
			u.User = nil
			out[i] = u.String()
		} else if at := strings.LastIndexByte(server, '@'); at >= 0 {
			out[i] = server[at+1:]
		}
	}
	return strings.Join(out, ", ")
}

// unreached says why there is no connection.
func (b *Bucket) unreached(ctx context.Context, err error) error {
	err = b.reason(err)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if ctx.Err() != nil && !late {
		err = context.Cause(ctx)
	}
	var network net.Error
	switch {
	case refused(err):
		return fmt.Errorf("%w: NATS at %s refused the credentials: %w", schemas.ErrUnavailable, b.place(), err)
	case late, errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%w: NATS at %s gives no answer: %w", schemas.ErrUnavailable, b.place(), err)
	default:
		return fmt.Errorf("%w: connect to NATS at %s: %w", schemas.ErrUnavailable, b.place(), err)
	}
}

// reason is why an attempt failed, where nats.go only says that no server is left.
func (b *Bucket) reason(err error) error {
	if failure := b.dialer.failure(); failure != nil && errors.Is(err, nats.ErrNoServers) {
		return failure
	}
	return err
}

// refused reports whether the server knows us not, or allows us not what we asked for.
func refused(err error) bool {
	for _, target := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrPermissionViolation,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
