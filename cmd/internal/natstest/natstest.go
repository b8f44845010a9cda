// Package natstest starts real NATS servers inside a test: one with JetStream
// ([Start]), a cluster of them ([Cluster]), one that is there but does not
// answer ([Silent]), and a line to one that can be stopped and cut ([Line]).
// Everything ends with the test.
package natstest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

const startTimeout = 20 * time.Second

// Server is an embedded NATS server with JetStream, on a random port of the
// loopback address, storing in a directory of the test's own.
type Server struct {
	t    testing.TB
	opts *server.Options
	srv  *server.Server
}

// Start starts a server and waits until it answers. The options can be changed
// before the start, for users and permissions for example.
func Start(t testing.TB, configure ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, opts: &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true,
	}}
	for _, f := range configure {
		f(s.opts)
	}
	t.Cleanup(s.Stop)
	s.Restart()
	return s
}

// URL is where clients connect, the same after [Server.Restart].
func (s *Server) URL() string { return s.srv.ClientURL() }

// Embedded is the server itself, for what only it can tell.
func (s *Server) Embedded() *server.Server { return s.srv }

// Stop ends the server; what it stored stays until the test ends.
func (s *Server) Stop() {
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
	}
}

// Restart stops the server and starts it on the same port and store.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.launch()
	if !s.srv.ReadyForConnections(startTimeout) {
		s.t.Fatalf("nats-server is not ready after %v", startTimeout)
	}
}

func (s *Server) launch() {
	s.t.Helper()
	srv, err := server.NewServer(s.opts.Clone())
	if err != nil {
		s.t.Fatalf("start nats-server: %v", err)
	}
	srv.Start()
	s.srv = srv
	if s.opts.Port == server.RANDOM_PORT && srv.ReadyForConnections(startTimeout) {
		s.opts.Port = srv.Addr().(*net.TCPAddr).Port
	}
}

// Conn is a plain client of the server, for what bellpull itself never does.
func Conn(t testing.TB, s *Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.URL(), options...)
	if err != nil {
		t.Fatalf("connect to %s: %v", s.URL(), err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Bucket makes the bucket "desired" on the server and returns a connection to it.
func Bucket(t testing.TB, s *Server) *natskv.Bucket {
	t.Helper()
	b := Dial(t, natskv.Config{Servers: []string{s.URL()}})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if _, err := b.Init(ctx, natskv.InitOptions{}); err != nil {
		t.Fatalf("make the bucket: %v", err)
	}
	return b
}

// Dial is [natskv.Dial] for a test, which ends the connection.
func Dial(t testing.TB, cfg natskv.Config) *natskv.Bucket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	b, err := natskv.Dial(ctx, cfg)
	if err != nil {
		t.Fatalf("connect to %v: %v", cfg.Servers, err)
	}
	t.Cleanup(b.Close)
	return b
}
