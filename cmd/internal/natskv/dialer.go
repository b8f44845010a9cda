package natskv

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialer opens the TCP connections for nats.go, which by itself would give each
// server its full timeout whatever the caller's deadline, and bounds neither
// the look-up of a name nor the writes of a handshake.
type dialer struct {
	timeout time.Duration // for one attempt: look-up, connection, handshake

	mu   sync.Mutex
	ctx  context.Context // ends the attempts; nats.go's Dial has no parameter for it
	left int             // servers that share the time until ctx's deadline
	conn *conn           // of the latest attempt
	err  error           // of the latest attempt
}

// Dial is called by nats.go for each attempt at a server.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	base, until := d.ctx, time.Now().Add(d.timeout)
	if end, ok := base.Deadline(); ok {
		share := time.Now().Add(time.Until(end) / time.Duration(max(d.left, 1)))
		if share.Before(until) {
			until = share
		}
	}
	d.left--
	d.mu.Unlock()

	ctx, cancel := context.WithDeadline(base, until)
	defer cancel()
	tcp, err := new(net.Dialer).DialContext(ctx, network, address)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err = err; err != nil {
		return nil, err
	}
	d.conn = &conn{Conn: tcp, until: until}
	d.conn.release = context.AfterFunc(base, d.conn.end)
	return d.conn, nil
}

// use makes ctx the one that ends later attempts, which have more time: a server
// to which thousands of clients come back at once is slow, not gone.
func (d *dialer) use(ctx context.Context, timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx, d.left, d.timeout = ctx, 0, max(d.timeout, timeout)
}

// failure is why the latest attempt got no connection.
func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// abort ends a write that waits for the network.
func (d *dialer) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.end()
	}
}

// conn keeps nats.go's deadlines from reaching past the attempt's own.
type conn struct {
	net.Conn
	release func() bool

	mu    sync.Mutex
	until time.Time // zero once the handshake is over
}

// SetDeadline is called by nats.go when the handshake begins, and with the zero
// time when it is over.
func (c *conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.release()
		c.mu.Lock()
		c.until = time.Time{}
		c.mu.Unlock()
	}
	return c.Conn.SetDeadline(c.clamp(t))
}

// SetWriteDeadline is called by nats.go around each write.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.clamp(t))
}

func (c *conn) clamp(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		return c.until
	}
	return t
}

func (c *conn) end() { _ = c.Conn.Close() }
