package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// WATCH-01: the server is killed without a word and started again, and something
// is put as soon as it is back: one run, within seconds of the reconnect.
func TestServerKilled(t *testing.T) {
	r := newRig(t)
	r.serve("store")
	revision := r.put("group/web", `{"fw":{"value":1}}`)
	r.start()
	r.applied(revision)
	r.runs(1)
	for i := range 3 {
		r.kill(r.server)
		r.serve("store")
		revision = r.put("group/web", fmt.Sprintf(`{"fw":{"value":%d}}`, 2+i))
		began := time.Now()
		r.applied(revision)
		t.Logf("booked %v after the put", time.Since(began).Round(time.Millisecond))
		r.runs(2 + i)
	}
	r.quietly("nothing more", 4)
}

// WATCH-01: the watcher itself is stopped, as by a debugger or a frozen machine,
// while the server is killed, started, and changed.
func TestWatcherStoppedAcrossRestart(t *testing.T) {
	r := newRig(t)
	r.serve("store")
	r.start()
	r.applied(r.put("group/web", `{"fw":{"value":1}}`))
	r.signal(syscall.SIGSTOP)
	r.kill(r.server)
	r.serve("store")
	revision := r.put("group/web", `{"fw":{"value":2}}`)
	r.put("common", `{"motd":{"value":"x"}}`)
	r.signal(syscall.SIGCONT)
	r.applied(revision)
	r.quietly("nothing more", 2)
}

// The server comes back without its store: another bucket. What is there again as
// it was starts no run; what is missing is believed to be gone only when a second
// reading, ten seconds later, finds it so.
func TestStoreLost(t *testing.T) {
	r := newRig(t)
	r.serve("store")
	r.put("common", `{"motd":{"value":"x"}}`)
	revision := r.put("group/web", `{"fw":{"value":1}}`)
	r.start()
	r.applied(revision)
	r.until("all is applied", func() bool { return strings.Contains(r.read("state/node/applied.json"), `"common":{"revision":2`) })
	runs := strings.Count(r.read("runs"), "\n")
	r.kill(r.server)
	r.serve("empty")
	r.put("group/web", `{"fw":{"value":1}}`) // as it was
	r.until("the other bucket", r.logged("the bucket has another id"))
	r.until("the first reading without common", r.logged("has no document in the new bucket; asking again before that is believed"))
	r.runs(runs)
	r.until("its loss is believed", r.logged("common: motd removed"))
	r.until("and applied", func() bool { return !strings.Contains(r.read("state/node/applied.json"), `"motd"`) })
	// The fact keeps a second reading of its own, so a second run may be needed.
	if got := strings.Count(r.read("runs"), "\n") - runs; got > 2 {
		t.Errorf("%d runs for the lost scope, want one, or two", got)
	}
	r.quietly("nothing more", strings.Count(r.read("runs"), "\n"))
}

// A watcher that is killed at any moment, again and again, neither forgets nor
// repeats a run: what is owed in the end is made once.
func TestWatcherKilled(t *testing.T) {
	r := newRig(t)
	r.serve("store")
	const states = 18
	moments := []string{"watching", "more changes may come", "run: run=", "run ended", "applied: run=", "no run: "}
	var revision uint64
	for i := range states {
		revision = r.put("group/web", fmt.Sprintf(`{"fw":{"value":%d}}`, i))
		r.write("log", "")
		r.start()
		moment := moments[i%len(moments)]
		// An earlier watcher's run may have used the change already: then there is none of its own.
		r.until(moment, func() bool { return r.logged(moment)() || r.logged("no run: ")() })
		r.kill(r.watch)
	}
	runs := strings.Count(r.read("runs"), "\n")
	if runs > states {
		t.Errorf("%d runs of %d states", runs, states)
	}
	r.start()
	r.applied(revision)
	if got := strings.Count(r.read("runs"), "\n"); got > runs+1 {
		t.Errorf("%d runs after the last kill, want at most one", got-runs)
	}
	r.quietly("nothing more", strings.Count(r.read("runs"), "\n"))
}

// A state directory that is full, and then one that is read-only: no run is
// started that could not be written down, it is said once, and it heals by itself.
func TestStateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root may mount a small file system")
	}
	tools.Need(t, "unshare", "mount", "nsenter")
	r := newRig(t)
	r.serve("store")
	if err := os.Mkdir(r.path("state"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A mount namespace of the watcher's own: it ends with it.
	r.prefix = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=256k,mode=755 tmpfs "$0" && exec "$@"`, r.path("state")}
	r.start()
	root := fmt.Sprintf("/proc/%d/root", r.watch.Process.Pid)
	state := func(name string) string { return filepath.Join(root, r.path("state"), "node", name) }
	booked := func(revision uint64) {
		t.Helper()
		r.until(fmt.Sprintf("booking of revision %d", revision), func() bool {
			text, _ := os.ReadFile(state("applied.json"))
			return strings.Contains(string(text), fmt.Sprintf(`"group/web":{"revision":%d`, revision))
		})
	}
	booked(r.put("group/web", `{"fw":{"value":1}}`))

	t.Run("full", func(t *testing.T) {
		fill(t, state("filler"))
		revision := r.put("group/web", `{"fw":{"value":2}}`)
		r.until("complaint", r.logged("state cannot be kept; no run is started until it can"))
		r.runs(1)
		if err := os.Remove(state("filler")); err != nil {
			t.Fatal(err)
		}
		booked(revision)
		r.runs(2)
	})
	t.Run("read-only", func(t *testing.T) {
		r.remount("ro")
		r.write("log", "")
		revision := r.put("group/web", `{"fw":{"value":3}}`)
		r.until("complaint", r.logged("state cannot be kept; no run is started until it can"))
		r.runs(2)
		r.remount("rw")
		booked(revision)
		r.runs(3)
	})
	if n := strings.Count(r.read("log"), "state cannot be kept"); n != 1 {
		t.Errorf("it is said %d times, want once", n)
	}
	r.quietly("nothing more", 3)
}

// fill takes all the space that is left.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// remount makes the state directory ro or rw, where the watcher sees it.
func (r *rig) remount(how string) {
	r.t.Helper()
	r.command("nsenter", "--mount", "--target", fmt.Sprint(r.watch.Process.Pid), "mount", "-o", "remount,"+how, r.path("state"))
}
