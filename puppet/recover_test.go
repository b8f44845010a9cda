package puppet_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

func (n *node) read(name string) []byte {
	n.t.Helper()
	body, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return body
}

// MOD-01: a watcher that ends in the middle of its own run leaves it running; the
// next one starts no second and books the first.
func TestLoopRestartDuringRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		down time.Duration // how long no watcher is there; the run ends after a second
	}{{"run goes on", 0}, {"run has ended meanwhile", time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.start()
				n.put(web, "fw=80")
				n.pass(1250 * time.Millisecond)
				n.wantRuns(1)
				n.stop()
				n.pass(tt.down)
				n.start()
				n.wantLog("a run of an earlier watcher is taken over", "pid=1")
				n.pass(time.Hour)
				n.wantRuns(1)
				n.wantApplied(web, "fw")
			})
		})
	}
}

// Crash points: whatever is on disk when a watcher is killed, the next one makes
// exactly the runs that are owed.
func TestLoopCrashPoints(t *testing.T) {
	tests := []struct {
		name  string
		at    time.Duration // when the watcher is killed, after the put; the run starts at 250 ms and ends at 2250 ms
		crash func(n *node)
		more  int // runs that are owed after the crash
	}{
		{"in the quiet period", 100 * time.Millisecond, func(*node) {}, 1},
		{"run written down, not started", 300 * time.Millisecond, func(n *node) {
			n.agent.forget()
			n.journal(func(j map[string]any) { delete(j["run"].(map[string]any), "process") })
		}, 1},
		{"started, pid not written down", 300 * time.Millisecond, func(n *node) {
			n.journal(func(j map[string]any) { delete(j["run"].(map[string]any), "process") })
		}, 0},
		{"run has ended, nothing booked", time.Second, func(n *node) { n.pass(time.Minute) }, 0},
		{"booked, run still written down", time.Second, func(n *node) {
			before := n.read("run.json")
			n.start()
			n.pass(time.Minute)
			n.wantApplied(web, "fw")
			n.stop()
			n.write("run.json", before)
		}, 0},
		{"after all", time.Minute, func(*node) {}, 0},
		{"after all, run.json lost", time.Minute, func(n *node) { n.remove("run.json") }, 0},
		{"after all, run.json zeroed", time.Minute, func(n *node) { n.write("run.json", make([]byte, 100)) }, 0},
		{"after all, applied.json lost", time.Minute, func(n *node) { n.remove("applied.json") }, 1},
		{"after all, applied.json zeroed", time.Minute, func(n *node) { n.write("applied.json", make([]byte, 100)) }, 1},
		{"after all, all cut off", time.Minute, func(n *node) {
			n.write("run.json", n.read("run.json")[:20])
			n.write("applied.json", n.read("applied.json")[:20])
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.start()
				n.put(web, "fw=80")
				n.pass(tt.at)
				n.stop()
				tt.crash(n)
				n.agent.mu.Lock()
				before := len(n.agent.orders)
				n.agent.mu.Unlock()
				n.start()
				n.pass(time.Hour)
				n.wantRuns(before + tt.more)
				n.wantApplied(web, "fw")
				n.restart()
				n.pass(time.Hour)
				n.wantRuns(before + tt.more)
			})
		})
	}
}

// journal changes what is in run.json.
func (n *node) journal(change func(j map[string]any)) {
	var j map[string]any
	if err := json.Unmarshal(n.read("run.json"), &j); err != nil {
		n.t.Fatal(err)
	}
	change(j)
	n.write("run.json", must(json.Marshal(j)))
}

func (n *node) remove(name string) {
	if err := os.Remove(filepath.Join(n.dir, name)); err != nil {
		n.t.Error(err)
	}
}

// forget makes the runs so far such that were never started.
func (a *agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders, a.starts = nil, nil
	clear(a.live)
}

// Without a place to write down a run, none is started: a restart would repeat it.
func TestLoopStateThatCannotBeKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		hidden := n.dir + ".hidden"
		if err := os.Rename(n.dir, hidden); err != nil {
			t.Fatal(err)
		}
		n.put(web, "fw=81")
		n.pass(time.Hour)
		n.wantRuns(0)
		n.wantLog("ERROR", "state cannot be kept")
		if got := strings.Count(n.log.String(), "state cannot be kept"); got > 2 {
			t.Errorf("said %d times", got)
		}
		if err := os.Rename(hidden, n.dir); err != nil {
			t.Fatal(err)
		}
		n.pass(2 * time.Minute)
		n.wantRuns(1)
		n.wantApplied(web, "fw")
	})
}

// Two watchers on one node would start two runs.
func TestLoopIsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.start()
		n.put(web, "fw=80")
		if err := n.loop().Run(t.Context(), nil); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("run: %v, want %v", err, schemas.ErrConflict)
		}
		if err := n.loop().Once(t.Context(), false); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("once: %v, want %v", err, schemas.ErrConflict)
		}
		if err := n.loop().Once(t.Context(), true); err != nil {
			t.Errorf("dry run: %v", err)
		}
	})
}

// Neither values nor anything from which a short one could be guessed is kept.
func TestLoopKeepsNoSecret(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, `token="swordfish" secret`)
		for _, name := range []string{"applied.json", "run.json"} {
			info, err := os.Stat(filepath.Join(n.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, want 0600", name, info.Mode())
			}
			if strings.Contains(string(n.read(name)), "swordfish") {
				t.Errorf("%s holds the secret", name)
			}
		}
		if strings.Contains(n.log.String(), "swordfish") {
			t.Error("the log holds the secret")
		}
	})
}

// The file that a run is given says what is wanted, and stays as it was handed over.
func TestLoopWantedFile(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Second)
		n.put(web, "fw=81")
		n.pass(time.Millisecond)
		var wanted struct {
			Bucket string
			Scopes map[schemas.Scope]puppet.WantedScope
			Run    puppet.Run
		}
		if err := json.Unmarshal(must(os.ReadFile(n.agent.orders[0].Wanted)), &wanted); err != nil {
			t.Fatal(err)
		}
		if wanted.Bucket != "b1" || wanted.Scopes[web].Revision != 2 || wanted.Run.ID != n.agent.orders[0].ID || wanted.Run.Handed[web].Revision != 1 {
			t.Errorf("wanted file %+v", wanted)
		}
	})
}

// A watcher that is told to stop while it starts a run finishes writing it down.
func TestLoopStopIsPrompt(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Second)
		begin := time.Now()
		n.stop()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("stop took %v: it waited for the run", took)
		}
	})
}

// What a run is waited for stands on disk soon: a watcher that is killed in a long
// wait, and comes back without NATS, still owes it.
func TestLoopLongWaitIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.timing.Splay = 9 * time.Hour
		n.booked0()
		n.put(web, "fw=80")
		n.pass(6 * time.Second)
		kept := n.read("run.json")
		n.stop()
		n.write("run.json", kept) // as if it had been killed
		n.store.fail(schemas.ErrUnavailable)
		n.start()
		n.pass(time.Second)
		if got := n.status().Scopes[web]; got.Wanted != 1 || len(got.Pending) != 1 {
			t.Errorf("%+v, want that fw is pending", got)
		}
		n.store.fail(nil)
		n.pass(24 * time.Hour)
		n.wantRuns(1)
		n.wantApplied(web, "fw")
	})
}
