//go:build unix

package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// keeperURL makes the test's own program a keeper, so that it can be paused.
const keeperURL = "BELLPULL_TEST_KEEPER"

func TestMain(m *testing.M) {
	url := os.Getenv(keeperURL)
	if url == "" {
		os.Exit(m.Run())
	}
	b, err := natskv.Connect(context.Background(), natskv.Config{Servers: []string{url}})
	if err == nil {
		err = keeper.New(keeper.Config{Bucket: b, Logger: hclog.Default()}).Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A keeper that was paused for longer than the lease hands out no token that came
// meanwhile: it may have another holder by now.
func TestPaused(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(5 * time.Second)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), keeperURL+"="+f.server.URL())
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	send := func(s syscall.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	f.awayForTwoLeases(func() { send(syscall.SIGSTOP) }, func() { send(syscall.SIGCONT) })
}

// The same where the network holds back what goes to the keeper.
func TestHeldBack(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(5 * time.Second)
	wire := natstest.NewLine(t, f.server)
	k := keeper.New(keeper.Config{Bucket: f.connect("", wire.URL()), Mend: time.Second, Heartbeat: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	f.awayForTwoLeases(wire.Silence, wire.Resume)
}

// awayForTwoLeases lets the one keeper be away while a permit lapses twice.
func (f *fleet) awayForTwoLeases(leave, comeBack func()) {
	f.t.Helper()
	f.tokens(1)
	holder := f.ask("holder.example.com")
	permit := holder.granted()
	line := []*asker{f.ask("n1.example.com").waiting(), f.ask("n2.example.com").waiting()}
	js := must(jetstream.New(natstest.Conn(f.t, f.server)))
	delivered := func() uint64 {
		return must(js.Consumer(f.ctx(), "BELLPULL_PERMITS_desired", "permits")).CachedInfo().Delivered.Consumer
	}
	before := delivered()
	leave()
	// The holder's permit lapses, and the one token goes to the keeper again and again.
	f.until("the token is sent for each in line", func() bool { return delivered() == before+2 })
	comeBack()
	if _, err := holder.Renew(f.ctx(), schemas.Permit{Handle: permit.Handle, Until: time.Now().Add(time.Minute)}); !errors.Is(err, schemas.ErrConflict) {
		f.t.Errorf("renewal of a permit that has lapsed: %v, want a conflict", err)
	}
	for _, a := range line {
		a.notGranted()
	}
	for _, a := range line { // when the token has lapsed
		a.release(a.granted())
	}
}
