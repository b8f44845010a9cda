package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// fleet is simulated nodes: all of a watcher but the agent.
type fleet struct {
	b       *bench
	server  *natsServer
	took    time.Duration // that a run takes
	nodes   []*simNode
	keepers []int         // pids
	ended   chan struct{} // gets a value at each run's end

	mu      sync.Mutex
	running int
	most    int       // runs at once, at most
	last    time.Time // end of the last run so far
	killed  []time.Time
	lapse   time.Duration // how long a killed holder counts; 0 = not at all
}

// simNode is one simulated node.
type simNode struct {
	f      *fleet
	bucket *natskv.Bucket
	leave  context.CancelFunc
	done   chan error

	mu      sync.Mutex
	read    map[schemas.Scope]uint64 // newest revision that was read
	runs    int
	start   time.Time
	waiting chan struct{} // closed at the end of the run under way
	doom    bool          // it is killed in the middle of its next run
	killed  bool
}

func (b *bench) newFleet(server *natsServer, took time.Duration) *fleet {
	return &fleet{b: b, server: server, took: took, ended: make(chan struct{}, 1<<20)}
}

// join starts a node.
func (f *fleet) join(ctx context.Context, i int, permits bool) (*simNode, error) {
	n := &simNode{f: f, read: map[schemas.Scope]uint64{}, done: make(chan error, 1)}
	dir := filepath.Join(f.b.state, fmt.Sprintf("%s-%d", f.server.name, i))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if n.bucket, err = natskv.Connect(ctx, natskv.Config{Servers: []string{f.server.url()}, Node: certname(i)}); err != nil {
		return nil, err
	}
	ctx, n.leave = context.WithCancel(ctx)
	notices, err := n.bucket.Changes(ctx, scopesOf(i))
	if err != nil {
		return nil, err
	}
	cfg := puppet.LoopConfig{
		Store: n, Runner: n, Proof: puppet.ProofExit, Scopes: scopesOf(i), Node: certname(i), Dir: dir,
		Digester: schemas.NewDigester([schemas.DigestKeySize]byte{byte(i)}),
		Timing:   puppet.Timing{Quiet: 250 * time.Millisecond, QuietMax: 2 * time.Second, Skew: 5 * time.Second},
	}
	if permits {
		cfg.Permits = n.bucket.Permits()
	}
	go func() { n.done <- puppet.NewLoop(cfg).Run(ctx, notices) }()
	return n, nil
}

// gather lets n nodes join, and waits until each has applied what stands: a node
// that is new runs once.
func (f *fleet) gather(ctx context.Context, n int, permits bool) error {
	f.nodes = make([]*simNode, n)
	if err := all(n, func(i int) (err error) { f.nodes[i], err = f.join(ctx, i, permits); return err }); err != nil {
		return err
	}
	for range n {
		select {
		case <-f.ended:
		case <-time.After(time.Minute):
			return errors.New("the nodes do not make their first run")
		}
	}
	time.Sleep(5 * time.Second) // the second resync of each connection
	f.forget()
	return nil
}

// cpu is the CPU time so far of the server, of all keepers and of all nodes.
func (f *fleet) cpu() (used [3]time.Duration) {
	count := func(i, pid int) {
		cpu, _ := bar.CPU(pid) // a process that has ended uses none
		used[i] += cpu
	}
	count(0, f.server.pid())
	for _, pid := range f.keepers {
		count(1, pid)
	}
	count(2, os.Getpid())
	return used
}

// end ends all nodes.
func (f *fleet) end() {
	for _, n := range f.nodes {
		if n != nil {
			n.leave()
		}
	}
	var all sync.WaitGroup
	for _, n := range f.nodes {
		if n != nil {
			all.Go(func() { <-n.done; n.bucket.Close() })
		}
	}
	all.Wait()
}

// runs counts the nodes by how often they ran.
func (f *fleet) runs() (none, once, more int) {
	for _, n := range f.nodes {
		n.mu.Lock()
		switch {
		case n.killed:
		case n.runs == 0:
			none++
		case n.runs == 1:
			once++
		default:
			more++
		}
		n.mu.Unlock()
	}
	return none, once, more
}

// forget makes the runs so far such that were never made.
func (f *fleet) forget() {
	for _, n := range f.nodes {
		n.mu.Lock()
		n.runs = 0
		n.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = 0
	for len(f.ended) > 0 {
		<-f.ended
	}
}

// began and over count the runs that hold a permit: those under way, and those of
// killed holders until their lease must have lapsed.
func (f *fleet) began() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	held := f.running
	for _, at := range f.killed {
		if time.Since(at) < f.lapse {
			held++
		}
	}
	f.most = max(f.most, held)
}

func (f *fleet) over() {
	f.mu.Lock()
	f.running--
	f.last = time.Now()
	f.mu.Unlock()
	f.ended <- struct{}{}
}

// Read is the watcher's store: what was read is remembered for the bench.
func (n *simNode) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	reading, err := n.bucket.ReadNode(ctx, scopes)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range reading.Scopes {
		if s.Err == nil {
			n.read[s.Scope] = max(n.read[s.Scope], s.Revision)
		}
	}
	return reading, err
}

// current reports whether the node has read the revision.
func (n *simNode) current(scope schemas.Scope, revision uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.read[scope] >= revision
}

// Blocked, Start, Wait, Reported and Report make the node its own agent.
func (n *simNode) Blocked() puppet.Blocked { return puppet.Blocked{} }

// Start starts a run that only takes time.
func (n *simNode) Start(puppet.Order) (puppet.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	n.start = time.Now()
	n.waiting = make(chan struct{})
	n.f.began()
	waiting, doomed := n.waiting, n.doom
	if doomed {
		time.AfterFunc(n.f.took/2, n.kill)
	}
	time.AfterFunc(n.f.took, func() {
		n.mu.Lock()
		killed := n.killed
		n.mu.Unlock()
		if !killed {
			n.f.over()
		}
		close(waiting)
	})
	return puppet.Process{PID: os.Getpid()}, nil
}

// kill ends the node in the middle of its run: it gives nothing back.
func (n *simNode) kill() {
	n.mu.Lock()
	n.killed = true
	start := n.start
	n.mu.Unlock()
	n.f.mu.Lock()
	n.f.running--
	n.f.killed = append(n.f.killed, start)
	n.f.mu.Unlock()
	n.leave()
	n.f.ended <- struct{}{}
}

// Wait waits for the end of a run.
func (n *simNode) Wait(ctx context.Context, run puppet.Run) (puppet.Result, error) {
	n.mu.Lock()
	waiting := n.waiting
	n.mu.Unlock()
	select {
	case <-ctx.Done():
		return puppet.Result{}, ctx.Err()
	case <-waiting:
		return puppet.Result{Outcome: puppet.Changed, Started: run.Started, Ended: time.Now()}, nil
	}
}

// Reported is zero: a stub leaves no report.
func (n *simNode) Reported() time.Time { return time.Time{} }

// Report fails: there is none.
func (n *simNode) Report() (puppet.Report, error) { return puppet.Report{}, os.ErrNotExist }
