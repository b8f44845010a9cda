package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

// node is a node's files and the program as it is shipped.
type node struct {
	t       *testing.T
	program string
	dir     string // anybody may enter it
	env     []string
}

func newNode(t *testing.T, natsURL string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	n.program = filepath.Join(n.dir, "bellpull-fact")
	build := exec.Command("go", "build", "-o", n.program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for dir := n.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf("nats: {servers: [%q]}\nnode: {certname: web1.example.com, hierarchy: [common]}\nstate: %s\n",
		natsURL, filepath.Join(n.dir, "state"))
	file := filepath.Join(n.dir, "bellpull.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	n.env = append(os.Environ(), "BELLPULL_CONFIG="+file)
	return n
}

// run starts the program with an input that stays open, as Facter does, and
// holds that it ends in time with exit status 0.
func (n *node) run(configure ...func(*exec.Cmd)) (stdout, stderr string) {
	n.t.Helper()
	input, keep, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	defer input.Close()
	defer keep.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.program)
	cmd.Env, cmd.Dir, cmd.Stdin = n.env, "/", input
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	for _, f := range configure {
		f(cmd)
	}
	start := time.Now()
	if err := cmd.Run(); err != nil {
		n.t.Fatalf("the program ended with %v: %s", err, errs.String())
	}
	if took := time.Since(start); took > 1600*time.Millisecond {
		n.t.Errorf("the program took %v, its deadline is 1.5s", took)
	}
	return out.String(), errs.String()
}

func wantSource(t *testing.T, fact, source string) {
	t.Helper()
	if !strings.Contains(fact, fmt.Sprintf(`"source": %q`, source)) || strings.Count(fact, "\n") != 1 {
		t.Errorf("fact = %q, want one line with source %s", fact, source)
	}
}

// FACT-03, second form: the packets that ask for a connection are dropped, as
// they are when a listener's queue is full.
func TestNoAnswerToSYN(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for full := false; !full; {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if full = err != nil; !full {
			defer conn.Close()
		}
	}
	n := newNode(t, "nats://"+address)
	stdout, stderr := n.run()
	wantSource(t, stdout, "none")
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("stderr = %q, want one line", stderr)
	}
}

// FACT-03, third form: the server is stopped by a signal.
func TestStoppedServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, t.TempDir())
	cmd.Args[0] = "natsd"
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		input.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	natsURL := strings.TrimSpace(line)
	put(t, natstest.Dial(t, natskv.Config{Servers: []string{natsURL}}), 0, `{"x": {"value": 1}}`)
	n := newNode(t, natsURL)
	stdout, _ := n.run()
	wantSource(t, stdout, "live")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := n.run()
	wantSource(t, stdout, "last-good")
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stdout, `"state": {"x": 1}`) {
		t.Errorf("stdout = %s, stderr = %q, want the last good state and one line", stdout, stderr)
	}
}

// natsd is a server in a process of its own, which ends with its input.
func natsd() {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: os.Args[1], NoLog: true, NoSigs: true,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		os.Exit(1)
	}
	bucket, err := natskv.Dial(context.Background(), natskv.Config{Servers: []string{srv.ClientURL()}})
	if err == nil {
		_, err = bucket.Init(context.Background(), natskv.InitOptions{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.ClientURL())
	io.Copy(io.Discard, os.Stdin)
}

func put(t *testing.T, bucket *natskv.Bucket, expect uint64, entries string) uint64 {
	t.Helper()
	revision, err := bucket.Put(t.Context(), "common", []byte(`{"bellpull": 1, "entries": `+entries+`}`), expect)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// A process that is ended at any time leaves no half file: whatever is there is
// read by the next one without complaint.
func TestEndedAtAnyTime(t *testing.T) {
	srv := natstest.Start(t)
	bucket := natstest.Bucket(t, srv)
	n := newNode(t, srv.URL())
	var revision uint64
	for i := range 60 {
		revision = put(t, bucket, revision, fmt.Sprintf(`{"x": {"value": %q}}`, strings.Repeat("x", 100*i)))
		cmd := exec.Command(n.program)
		cmd.Env = append(n.env, fmt.Sprintf("BELLPULL_RUN=run-%d", i))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The moment is the point here; there is nothing to wait for.
		time.Sleep(rand.N(30 * time.Millisecond))
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if i%10 == 9 {
			if stdout, stderr := n.run(); stderr != "" {
				t.Fatalf("after %d runs that were ended: %s%s", i+1, stderr, stdout)
			}
		}
	}
}

// A user without rights gets a live fact, in silence, and leaves nothing.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can become another user")
	}
	srv := natstest.Start(t)
	put(t, natstest.Bucket(t, srv), 0, `{"x": {"value": 1}}`)
	n := newNode(t, srv.URL())
	nobody := func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	for _, state := range []string{"missing", "root's"} {
		stdout, stderr := n.run(nobody)
		wantSource(t, stdout, "live")
		if stderr != "" {
			t.Errorf("state directory %s: stderr = %q, want nothing", state, stderr)
		}
		n.run() // root makes the directory
	}
}

// A state directory that does not answer holds up neither the fact nor the end.
func TestStateOnADeadPipe(t *testing.T) {
	srv := natstest.Start(t)
	put(t, natstest.Bucket(t, srv), 0, `{"x": {"value": 1}}`)
	n := newNode(t, srv.URL())
	n.run()
	// The one file that is read without more ado: opening a pipe waits for a writer.
	if err := syscall.Mkfifo(filepath.Join(n.dir, "state/node/puppet.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := n.run()
	wantSource(t, stdout, "none")
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("stderr = %q, want one line", stderr)
	}
}

// What only writers need is not linked: it would cost every start milliseconds.
func TestLinksNoMoreThanAReaderNeeds(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{
		"santhosh-tekuri/jsonschema", "spf13/cobra", "nats-io/nats-server", "hashicorp/go-hclog", "bellpull/schemas/kinds", "\ntesting\n",
	} {
		if strings.Contains(string(out), forbidden) {
			t.Errorf("bellpull-fact links %s", strings.TrimSpace(forbidden))
		}
	}
}
