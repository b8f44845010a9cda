package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// rig is a node with fakepuppet, and a `bellpull server` process that can be killed.
type rig struct {
	t      *testing.T
	dir    string
	listen string
	server *exec.Cmd
	watch  *exec.Cmd
	prefix []string // what the watcher is started by
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes take a while: not in a short run")
	}
	r := &rig{t: t, dir: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", r.dir, "../bellpull").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.listen = listener.Addr().String()
	listener.Close()
	r.at("nats://" + r.listen)
	t.Setenv("BELLPULL_CONFIG", filepath.Join(r.dir, "bellpull.yaml"))
	t.Cleanup(func() {
		r.kill(r.watch)
		r.kill(r.server)
	})
	return r
}

// at is where the node looks for NATS.
func (r *rig) at(url string) {
	r.t.Helper()
	r.write("bellpull.yaml", fmt.Sprintf(`
nats: {servers: ["%[1]s"]}
node: {certname: web1.example.com, hierarchy: ["node/{certname}", group/web, common]}
state: %[2]s/state
watch: {command: [fakepuppet, %[2]s], proof: agent, quiet: 50ms}
puppet: {lock: %[2]s/agent.lock, disabled_lock: %[2]s/disabled.lock, report: %[2]s/report.yaml}
`, url, r.dir))
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	text, _ := os.ReadFile(r.path(name)) // what is not there is empty
	return string(text)
}

// serve starts the server, with its store in the directory, and waits until it is ready.
func (r *rig) serve(store string) {
	r.t.Helper()
	r.server = exec.Command(r.path("bellpull"), "server", "--listen", r.listen, "--store", r.path(store))
	out, err := r.server.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.server.Start(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		r.t.Fatalf("the server is not ready: %v", err)
	}
}

// start starts the watcher; its log is added to the file log.
func (r *rig) start() {
	r.t.Helper()
	log, err := os.OpenFile(r.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	args := append(r.prefix, "bellpull-watch", "--log-level", "debug")
	r.watch = exec.Command(args[0], args[1:]...)
	r.watch.Stderr = log
	if err := r.watch.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends a process without a word.
func (r *rig) kill(cmd *exec.Cmd) {
	if cmd != nil && cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func (r *rig) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.watch.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// put writes a scope's document, and returns the revision.
func (r *rig) put(name schemas.Scope, entries string) uint64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{"nats://" + r.listen}})
	if err != nil {
		r.t.Fatal(err)
	}
	defer bucket.Close()
	reading, err := bucket.Read(ctx, []schemas.Scope{name})
	if err != nil {
		r.t.Fatal(err)
	}
	revision, err := bucket.Put(ctx, name, []byte(`{"bellpull":1,"entries":`+entries+`}`), reading.Scopes[0].Revision)
	if err != nil {
		r.t.Fatal(err)
	}
	return revision
}

func (r *rig) until(what string, check func() bool) {
	r.t.Helper()
	if _, ok := eventually(func() (string, bool) { return "", check() }); !ok {
		r.t.Fatalf("%s: not within %v; log:\n%s", what, patience, r.read("log"))
	}
}

func (r *rig) logged(text string) func() bool {
	return func() bool { return strings.Contains(r.read("log"), text) }
}

// applied waits until the revision of group/web is booked.
func (r *rig) applied(revision uint64) {
	r.t.Helper()
	r.until(fmt.Sprintf("booking of revision %d", revision), func() bool {
		a, err := schemas.ParseApplied([]byte(r.read("state/node/applied.json")))
		return err == nil && a.Scopes["group/web"].Revision == revision
	})
}

func (r *rig) runs(want int) {
	r.t.Helper()
	if got := strings.Count(r.read("runs"), "\n"); got != want {
		r.t.Errorf("%d runs, want %d; log:\n%s", got, want, r.read("log"))
	}
}

// quietly waits until the watcher has read everything again and decided anew, and
// checks that no run came of it.
func (r *rig) quietly(what string, runs int) {
	r.t.Helper()
	marks := strings.Count(r.read("log"), "no run: ")
	r.put("node/web1.example.com", fmt.Sprintf(`{"mark":{"value":%d,"run":{"trigger":"next"}}}`, time.Now().UnixNano()))
	r.until(what, func() bool { return strings.Count(r.read("log"), "no run: ") > marks })
	r.runs(runs)
}

func (r *rig) command(name string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
