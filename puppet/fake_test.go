package puppet_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// bucket is a store in a map.
type bucket struct {
	mu       sync.Mutex
	id       string
	revision uint64
	scopes   map[schemas.Scope]schemas.ScopeReading
	good     map[schemas.Scope]schemas.ScopeReading // the last that could be read
	err      error                                  // of the whole reading
	reads    int
}

func newBucket() *bucket {
	return &bucket{id: "b1", scopes: map[schemas.Scope]schemas.ScopeReading{}, good: map[schemas.Scope]schemas.ScopeReading{}}
}

func (b *bucket) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.err != nil {
		return schemas.Reading{}, b.err
	}
	return b.reading(b.scopes, scopes), nil
}

// lastGood is a reading by somebody who keeps the last good state, as the fact and
// the server's sync do.
func (b *bucket) lastGood(scopes []schemas.Scope) schemas.Reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reading(b.good, scopes)
}

func (b *bucket) reading(from map[schemas.Scope]schemas.ScopeReading, scopes []schemas.Scope) schemas.Reading {
	r := schemas.Reading{Bucket: b.id, At: time.Now()}
	for _, scope := range scopes {
		s := from[scope]
		s.Scope = scope
		r.Scopes = append(r.Scopes, s)
	}
	return r
}

// document reads entries written as name=value; a value of "-" is none, and
// options stand after blanks: "fw=80 ttl=1h next noop tags=a,b splay=1m secret".
func document(t testing.TB, entries ...string) schemas.Document {
	t.Helper()
	doc := schemas.Document{Entries: map[string]schemas.Entry{}}
	for _, text := range entries {
		words := strings.Fields(text)
		name, value, _ := strings.Cut(words[0], "=")
		parsed, err := schemas.ParseValue([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		e := schemas.Entry{Value: parsed, Event: "event-of-" + name}
		for _, option := range words[1:] {
			option, value, _ := strings.Cut(option, "=")
			switch option {
			case "ttl":
				e.Expires = time.Now().Add(must(time.ParseDuration(value)))
			case "splay":
				e.Run.Splay = must(time.ParseDuration(value))
			case "next":
				e.Run.Trigger = schemas.TriggerNext
			case "noop":
				e.Run.Noop = true
			case "tags":
				e.Run.Tags = strings.Split(value, ",")
			case "secret":
				e.Sensitive = true
			default:
				t.Fatalf("unknown option %q", option)
			}
		}
		doc.Entries[name] = e
	}
	return doc
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// set changes one scope of the bucket and returns the revision.
func (b *bucket) set(scope schemas.Scope, reading schemas.ScopeReading) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	reading.Revision = b.revision
	b.scopes[scope] = reading
	if reading.Err == nil {
		b.good[scope] = reading
	}
	return b.revision
}

// agent is a runner whose runs take two seconds: the fact reads after half a
// second, the server compiles after one.
type agent struct {
	n  *node
	mu sync.Mutex

	blocked puppet.Blocked
	took    time.Duration
	results []puppet.Result // one per run, the last repeats; empty = changed
	noFact  bool
	class   bool    // class bellpull is in the catalog
	server  *bucket // what the server compiles from; nil = the node's bucket
	skipped bool    // the class's file was skipped
	matched []string
	shown   func(schemas.Shown) schemas.Shown
	orders  []puppet.Order
	starts  []time.Time
	live    map[string]chan struct{} // runs under way
}

func (a *agent) Blocked() puppet.Blocked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.blocked
}

func (a *agent) Start(o puppet.Order) (puppet.Process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.live) > 0 {
		a.n.t.Errorf("two runs at once")
	}
	a.orders, a.starts = append(a.orders, o), append(a.starts, time.Now())
	done := make(chan struct{})
	a.live[o.ID] = done
	number := len(a.orders)
	go func() {
		defer close(done)
		time.Sleep(a.took / 4)
		a.fact(o)
		time.Sleep(a.took / 4)
		a.compile()
		time.Sleep(a.took / 2)
		a.mu.Lock()
		delete(a.live, o.ID)
		a.mu.Unlock()
	}()
	return puppet.Process{PID: number}, nil
}

func (a *agent) fact(o puppet.Order) {
	if a.noFact {
		return
	}
	reading := a.n.store.lastGood(a.n.scopes)
	shown := schemas.Shown{Bucket: reading.Bucket, Run: o.ID, Time: time.Now(), Scopes: map[schemas.Scope]schemas.ShownScope{}}
	for _, s := range reading.Scopes {
		live := a.n.store.scopes[s.Scope].Err == nil
		shown.Scopes[s.Scope] = schemas.ShownScope{Revision: s.Revision, Live: live, Entries: a.n.digester.Entries(s.Document, time.Now())}
	}
	if a.shown != nil {
		shown = a.shown(shown)
	}
	a.n.write(filepath.Join("shown", o.ID+".json"), must(shown.Marshal()))
}

func (a *agent) compile() {
	if !a.class {
		return
	}
	server := a.server
	if server == nil {
		server = a.n.store
	}
	compiled := map[schemas.Scope]map[string]any{}
	reading := server.lastGood(a.n.scopes)
	for _, s := range reading.Scopes {
		c := map[string]any{"bucket": reading.Bucket, "revision": s.Revision}
		for _, e := range s.Document.Live(time.Now().Add(-a.n.serverLate)) {
			if until, ok := c["until"].(time.Time); !e.Expires.IsZero() && (!ok || e.Expires.Before(until)) {
				c["until"] = e.Expires
			}
		}
		compiled[s.Scope] = c
	}
	a.n.write("compiled.json", must(json.Marshal(compiled)))
}

func (a *agent) Wait(ctx context.Context, run puppet.Run) (puppet.Result, error) {
	a.mu.Lock()
	done, under := a.live[run.ID]
	started := slices.IndexFunc(a.orders, func(o puppet.Order) bool { return o.ID == run.ID })
	a.mu.Unlock()
	if under {
		select {
		case <-ctx.Done():
			return puppet.Result{}, ctx.Err()
		case <-done:
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if started < 0 {
		return puppet.Result{Outcome: puppet.NotRun, Reason: "was not started"}, nil
	}
	result := puppet.Result{Outcome: puppet.Changed}
	if len(a.results) > 0 {
		result = a.results[min(started, len(a.results)-1)]
	}
	result.Ended = time.Now()
	result.Report = &puppet.Report{Resources: map[string]puppet.ResourceStatus{"File[/etc/fw]": {Tags: append([]string{"file"}, a.matched...)}}}
	if a.class {
		result.Report.Resources["File["+filepath.Join(a.n.dir, "compiled.json")+"]"] = puppet.ResourceStatus{Tags: []string{puppet.CompiledTag}, Skipped: a.skipped}
	}
	result.Noop = result.Noop || a.orders[started].Noop
	return result, nil
}

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

	serverLate time.Duration // how far the server's clock is behind
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

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{
		t: t, dir: t.TempDir(), scopes: []schemas.Scope{"node/web1.example.com", "group/web", "common"}, store: newBucket(),
		digester: schemas.NewDigester([schemas.DigestKeySize]byte{1}), proof: puppet.ProofAgent, log: &logText{},
		timing: puppet.Timing{Quiet: 250 * time.Millisecond, QuietMax: 2 * time.Second, Skew: 5 * time.Second},
	}
	n.agent = &agent{n: n, took: 2 * time.Second, class: true, live: map[string]chan struct{}{}}
	if err := os.Mkdir(filepath.Join(n.dir, "shown"), 0o700); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) loop() *puppet.Loop {
	return puppet.NewLoop(puppet.LoopConfig{
		Store: n.store, Runner: n.agent, Proof: n.proof, Scopes: n.scopes, Node: "web1.example.com", Dir: n.dir,
		Digester: n.digester, Timing: n.timing, Random: func() float64 { return 0.5 },
		Logger: hclog.New(&hclog.LoggerOptions{Output: io.Writer(n.log), Level: hclog.Debug, DisableTime: true}),
	})
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
	n.agent.orders, n.agent.starts = nil, nil
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
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
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
