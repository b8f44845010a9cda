package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/servicetest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// MOD-02, and what systemd hears: behind a network that accepts connections and
// says nothing the service is ready, and works as soon as NATS answers.
func TestServiceBootsWithoutNATS(t *testing.T) {
	r := newRig(t)
	t.Setenv("WATCHDOG_USEC", "300000000")
	next := servicetest.Manager(t, filepath.Join(t.TempDir(), "notify"))
	hears := func(want string) {
		t.Helper()
		for heard := next(); !strings.HasPrefix(heard, want); heard = next() {
			if !strings.HasPrefix(heard, "STATUS=") && heard != "WATCHDOG=1" {
				t.Fatalf("heard %q, want %q", heard, want)
			}
		}
	}
	_, line := r.onLine(t)
	line.Silence()
	r.start()
	hears("READY=1")
	hears("WATCHDOG=1")
	revision := r.put("group/web", `{"fw":{"value":1}}`)
	r.until("an attempt that was given up", func() bool { return line.Tries() >= 2 })
	line.Resume()
	hears("STATUS=running: group/web: fw new")
	hears("STATUS=converged")
	r.applied(revision)
	r.runs(1)
	r.signal(syscall.SIGTERM)
	hears("STOPPING=1")
	if err := r.watch.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// MOD-02: a name that nobody knows at first is asked for again, as is a server
// that is not there yet. The longest pause between two attempts is 45 s.
func TestNameIsUnknownAtFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root may lay another file over /etc/hosts")
	}
	tools.Need(t, "unshare", "mount")
	r := newRig(t)
	const name = "nats.bellpull.test"
	_, port, _ := strings.Cut(r.listen, ":")
	r.at("nats://" + name + ":" + port)
	r.write("hosts", "127.0.0.1 localhost\n")
	r.write("resolv.conf", "nameserver 127.0.0.1\n") // where nobody answers
	// In a mount namespace of the watcher's own.
	r.prefix = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/resolv.conf" /etc/resolv.conf && exec "$@"`, r.dir}
	r.start()
	r.until("complaint", r.logged("reading is incomplete: subject=bucket"))
	if log := r.read("log"); !strings.Contains(log, "lookup "+name) {
		t.Errorf("the log does not say that the name is unknown:\n%s", log)
	}
	r.write("hosts", "127.0.0.1 localhost "+name+"\n")
	r.until("complaint about the server", r.logged("connection refused"))
	r.serve("store")
	up := time.Now()
	r.applied(r.put("group/web", `{"fw":{"value":1}}`))
	if took := time.Since(up); took > time.Minute {
		t.Errorf("booked %v after NATS was there, want a minute at most", took.Round(time.Millisecond))
	}
	r.runs(1)
}
