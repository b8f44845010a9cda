package natstest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Line is a TCP line to a server. It can go silent, as when the server is
// stopped by a signal or a firewall drops its packets, and it can be cut.
type Line struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	open   chan struct{} // closed while bytes may pass
	ended  chan struct{}
	conns  []net.Conn
	dead   chan struct{} // closed when the connections that stand have become silent for good
	tries  int           // connections since the last Silence
	copies sync.WaitGroup
}

// NewLine makes a line to the server.
func NewLine(t testing.TB, s *Server) *Line {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return newLine(t, u.Host)
}

// Silent returns the URL of a listener that accepts connections and never says
// a word.
func Silent(t testing.TB) string {
	t.Helper()
	return newLine(t, "").URL()
}

func newLine(t testing.TB, target string) *Line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{listener: listener, target: target, open: make(chan struct{}), ended: make(chan struct{}), dead: make(chan struct{})}
	close(l.open)
	l.copies.Go(l.accept)
	t.Cleanup(func() {
		close(l.ended)
		_ = listener.Close()
		l.Cut()
		l.copies.Wait()
	})
	return l
}

// URL is where clients connect.
func (l *Line) URL() string { return "nats://" + l.listener.Addr().String() }

// Silence holds back all bytes, in both directions; connections are accepted.
func (l *Line) Silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.tries = make(chan struct{}), 0
}

// Resume ends the silence; the bytes that were held back arrive.
func (l *Line) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

// Strand makes the connections that stand silent for good, as a sleep makes those
// of a function: the other end has forgotten them. New ones work.
func (l *Line) Strand() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.dead)
	l.dead = make(chan struct{})
}

// Left reports whether a client has given up and connected anew since the last
// Silence.
func (l *Line) Left() bool { return l.Tries() > 0 }

// Tries is how many connections were made since the last Silence.
func (l *Line) Tries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries
}

// Cut ends all connections that stand.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.tries++
		l.mu.Unlock()
		l.hold(client)
		if l.target == "" {
			continue
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.hold(server)
		l.mu.Lock()
		dead := l.dead
		l.mu.Unlock()
		l.copies.Go(func() { l.copy(client, server, dead) })
		l.copies.Go(func() { l.copy(server, client, dead) })
	}
}

// hold remembers the connection for Cut, or ends it when the test has ended.
func (l *Line) hold(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		_ = c.Close()
	default:
		l.conns = append(l.conns, c)
	}
}

func (l *Line) copy(to, from net.Conn, dead <-chan struct{}) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		select {
		case <-open:
		case <-l.ended:
			return
		}
		select {
		case <-dead:
			<-l.ended
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
