package natskv_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// slack is what a busy machine may add to a deadline.
const slack = 400 * time.Millisecond

func wantTook(t *testing.T, start time.Time, atMost time.Duration) {
	t.Helper()
	if took := time.Since(start); took > atMost+slack {
		t.Errorf("took %v, want at most %v", took, atMost)
	}
}

// FACT-03, first and second form: nobody answers, or packets vanish.
func TestDialKeepsTheDeadline(t *testing.T) {
	refuses := func(t testing.TB) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "nats://" + l.Addr().String()
	}
	tests := []struct {
		name    string
		servers []func(testing.TB) string
		timeout time.Duration
		want    string
		atMost  time.Duration
	}{
		{"refused", []func(testing.TB) string{refuses}, 0, "connection refused", 100 * time.Millisecond},
		{"silent", []func(testing.TB) string{natstest.Silent}, 0, "no answer", 600 * time.Millisecond},
		{"dropped", []func(testing.TB) string{natstest.Dropped}, 0, "no answer", 600 * time.Millisecond},
		{"all three", []func(testing.TB) string{natstest.Silent, natstest.Dropped, natstest.Silent}, 0, "no answer", 600 * time.Millisecond},
		{"its own timeout", []func(testing.TB) string{natstest.Silent}, 200 * time.Millisecond, "no answer", 200 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := natskv.Config{Timeout: tt.timeout}
			for _, make := range tt.servers {
				cfg.Servers = append(cfg.Servers, make(t))
			}
			ctx := within(t, 600*time.Millisecond)
			start := time.Now()
			_, err := natskv.Dial(ctx, cfg)
			wantTook(t, start, tt.atMost)
			wantError(t, err, schemas.ErrUnavailable, append(cfg.Servers, tt.want)...)
		})
	}
}

// A silent server leaves time for one that answers.
func TestDialTriesAllServers(t *testing.T) {
	good := natstest.Start(t)
	for range 6 { // they are tried in random order
		ctx := within(t, 900*time.Millisecond)
		b, err := natskv.Dial(ctx, natskv.Config{Servers: []string{natstest.Silent(t), natstest.Dropped(t), good.URL()}})
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		b.Close()
	}
}

// A signal ends the attempt at once.
func TestDialCanceled(t *testing.T) {
	for name, place := range map[string]func(testing.TB) string{"silent": natstest.Silent, "dropped": natstest.Dropped} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			start := time.Now()
			_, err := natskv.Dial(ctx, natskv.Config{Servers: []string{place(t)}, Timeout: 10 * time.Second})
			wantTook(t, start, 100*time.Millisecond)
			wantError(t, err, schemas.ErrUnavailable, "canceled")
		})
	}
}

// FACT-03, third form: the server is stopped after the client has connected.
func TestStoppedServer(t *testing.T) {
	for name, open := range map[string]func(context.Context, natskv.Config) (*natskv.Bucket, error){
		"Dial": natskv.Dial, "Connect": natskv.Connect,
	} {
		t.Run(name, func(t *testing.T) {
			process, url := startProcess(t)
			b, err := open(within(t, 10*time.Second), natskv.Config{Servers: []string{url}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Init(within(t, 10*time.Second), natskv.InitOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			calls := map[string]func(context.Context) error{
				"read": func(ctx context.Context) error { _, err := b.Read(ctx, []schemas.Scope{"common"}); return err },
				"put": func(ctx context.Context) error {
					_, err := b.Put(ctx, "common", doc(`"`+strings.Repeat("x", 800<<10)+`"`), 0)
					return err
				},
				"list":  func(ctx context.Context) error { _, err := b.Scopes(ctx, ""); return err },
				"init":  func(ctx context.Context) error { _, err := b.Init(ctx, natskv.InitOptions{}); return err },
				"check": func(ctx context.Context) error { _, err := b.Check(ctx); return err },
			}
			for what, call := range calls {
				start := time.Now()
				err := call(within(t, 300*time.Millisecond))
				if took := time.Since(start); took > 300*time.Millisecond+slack {
					t.Errorf("%s took %v, want at most 300 ms", what, took)
				}
				wantError(t, err, schemas.ErrUnavailable, "no answer in time")
			}
			start := time.Now()
			b.Close()
			wantTook(t, start, 100*time.Millisecond)
		})
	}
}

func TestConnectionLost(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	line := natstest.NewLine(t, srv)
	b := natstest.Dial(t, natskv.Config{Servers: []string{line.URL()}})
	line.Silence()
	time.AfterFunc(100*time.Millisecond, line.Cut)
	start := time.Now()
	_, err := b.Read(within(t, 5*time.Second), []schemas.Scope{"common"})
	wantError(t, err, schemas.ErrUnavailable, "lost")
	wantTook(t, start, 100*time.Millisecond)
}
