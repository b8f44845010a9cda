package puppet_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

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
	late    time.Duration            // how far the server's clock is behind
	report  *puppet.Report           // of somebody else's run, the last
	written time.Time
}

func (a *agent) Reported() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written
}

func (a *agent) Report() (puppet.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.report == nil {
		return puppet.Report{}, os.ErrNotExist
	}
	return *a.report, nil
}

// set changes how the runs to come behave.
func (a *agent) set(change func(a *agent)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
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
	number, took := len(a.orders), a.took
	go func() {
		defer close(done)
		time.Sleep(took / 4)
		a.fact(o)
		time.Sleep(took / 4)
		a.compile()
		time.Sleep(took / 2)
		a.mu.Lock()
		delete(a.live, o.ID)
		a.mu.Unlock()
	}()
	return puppet.Process{PID: number}, nil
}

func (a *agent) fact(o puppet.Order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noFact {
		return
	}
	reading := a.n.store.lastGood(a.n.scopes)
	shown := schemas.Shown{Bucket: reading.Bucket, Run: o.ID, Time: time.Now(), Scopes: map[schemas.Scope]schemas.ShownScope{}}
	for _, s := range reading.Scopes {
		live := a.n.store.readable(s.Scope)
		shown.Scopes[s.Scope] = schemas.ShownScope{Revision: s.Revision, Live: live, Entries: a.n.digester.Entries(s.Document, time.Now())}
	}
	if a.shown != nil {
		shown = a.shown(shown)
	}
	a.n.write(filepath.Join("shown", o.ID+".json"), must(shown.Marshal()))
}

func (a *agent) compile() {
	a.mu.Lock()
	defer a.mu.Unlock()
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
		for _, e := range s.Document.Live(time.Now().Add(-a.late)) {
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
