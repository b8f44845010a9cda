package puppet_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// node is a node with its watcher, in a synctest bubble.
type node struct {
	t        testing.TB
	dir      string
	scopes   []schemas.Scope
	store    *bucket
	agent    *agent
	digester schemas.Digester
	timing   puppet.Timing
	proof    puppet.Proof
	log      *logText
	notices  chan schemas.Notice
	stop     func()
	keeper   *keeper       // nil = permits are unknown here
	patience time.Duration // watch.permits_unavailable
	random   float64

	mu    sync.Mutex
	alive int              // signs of life
	told  []schemas.Status // what was reported
}

type logText struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{
		t: t, dir: t.TempDir(), scopes: []schemas.Scope{"node/web1.example.com", "group/web", "common"}, store: newBucket(),
		digester: schemas.NewDigester([schemas.DigestKeySize]byte{1}), proof: puppet.ProofAgent, log: &logText{},
		random: 0.5,
		timing: puppet.Timing{Quiet: 250 * time.Millisecond, QuietMax: 2 * time.Second, Skew: 5 * time.Second},
	}
	n.agent = &agent{n: n, took: 2 * time.Second, class: true, live: map[string]chan struct{}{}}
	if err := os.Mkdir(filepath.Join(n.dir, "shown"), 0o700); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) loop() *puppet.Loop {
	cfg := puppet.LoopConfig{
		Store: n.store, Runner: n.agent, Proof: n.proof, Scopes: n.scopes, Node: "web1.example.com", Dir: n.dir,
		Digester: n.digester, Timing: n.timing, Random: func() float64 { return n.random },
		Logger:             hclog.New(&hclog.LoggerOptions{Output: io.Writer(n.log), Level: hclog.Debug, DisableTime: true}),
		PermitsUnavailable: n.patience, Version: "1.2.3",
		Report: func(s schemas.Status) { n.mu.Lock(); defer n.mu.Unlock(); n.told = append(n.told, s) },
		Alive:  func() { n.mu.Lock(); defer n.mu.Unlock(); n.alive++ },
	}
	if n.keeper != nil {
		cfg.Permits = n.keeper
	}
	return puppet.NewLoop(cfg)
}

// start starts the watcher; stop ends it. Either leaves everything settled.
func (n *node) start() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n.notices = make(chan schemas.Notice, 100)
	done := make(chan error, 1)
	loop := n.loop()
	go func() { done <- loop.Run(ctx, n.notices) }()
	n.notices <- schemas.Notice{Resync: true}
	n.stop = func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("loop ended with %v", err)
		}
		n.stop = func() {}
	}
	synctest.Wait()
}

func (n *node) restart() {
	n.stop()
	n.start()
}

// pass lets d of the bubble's time go by.
func (n *node) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// put writes a scope's document and notifies the watcher.
func (n *node) put(scope schemas.Scope, entries ...string) uint64 {
	n.t.Helper()
	return n.putReading(scope, schemas.ScopeReading{Document: document(n.t, entries...)})
}

func (n *node) putReading(scope schemas.Scope, reading schemas.ScopeReading) uint64 {
	revision := n.store.set(scope, reading)
	if n.notices != nil {
		n.notices <- schemas.Notice{Scope: scope, Revision: revision}
		synctest.Wait()
	}
	return revision
}

// booked puts the document, lets the node apply it, and forgets the run.
func (n *node) booked(scope schemas.Scope, entries ...string) {
	n.t.Helper()
	n.put(scope, entries...)
	n.start()
	n.pass(10 * time.Second)
	n.wantRuns(1)
	n.wantApplied(scope, names(entries)...)
	n.reset()
}

// reset forgets the runs so far, and returns the time.
func (n *node) reset() time.Time {
	n.agent.set(func(a *agent) { a.orders, a.starts = nil, nil })
	return time.Now()
}

func names(entries []string) []string {
	var out []string
	for _, e := range entries {
		name, _, _ := strings.Cut(e, "=")
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (n *node) wantRuns(want int) {
	n.t.Helper()
	n.agent.mu.Lock()
	defer n.agent.mu.Unlock()
	if got := len(n.agent.orders); got != want {
		n.t.Errorf("%d runs, want %d\n%s", got, want, n.log)
	}
}

// gaps are the times between the starts of runs, the first counted from since.
func (n *node) gaps(since time.Time) []time.Duration {
	var out []time.Duration
	for _, at := range n.agent.starts {
		out = append(out, at.Sub(since))
		since = at
	}
	return out
}

func (n *node) wantApplied(scope schemas.Scope, want ...string) {
	n.t.Helper()
	applied := n.applied()
	if got := slices.Sorted(maps.Keys(applied.Scopes[scope].Entries)); !slices.Equal(got, want) {
		n.t.Errorf("applied of %s: %q, want %q\n%s", scope, got, want, n.log)
	}
	wanted := n.digester.Entries(n.store.scopes[scope].Document, time.Now())
	for _, name := range want {
		if got := applied.Scopes[scope].Entries[name]; wanted[name] != "" && got != wanted[name] {
			n.t.Errorf("applied of %s: another value of %s than is wanted", scope, name)
		}
	}
}

func (n *node) applied() schemas.Applied {
	n.t.Helper()
	body, err := os.ReadFile(filepath.Join(n.dir, "applied.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	return must(schemas.ParseApplied(body))
}

func (n *node) wantLog(words ...string) {
	n.t.Helper()
	for line := range strings.Lines(n.log.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return
		}
	}
	n.t.Errorf("no log line has %q:\n%s", words, n.log.String())
}

func (n *node) write(name string, body []byte) {
	if err := os.WriteFile(filepath.Join(n.dir, name), body, 0o600); err != nil {
		n.t.Error(err)
	}
}

// bubble runs a test with a node in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.stop = func() {}
		defer func() { n.stop(); time.Sleep(time.Hour) }() // runs that go on without a watcher end too
		f(t, n)
	})
}

// booked0 starts the watcher on a node for which nothing is wanted.
func (n *node) booked0() {
	n.t.Helper()
	n.start()
	n.pass(10 * time.Second)
	n.wantRuns(0)
}
