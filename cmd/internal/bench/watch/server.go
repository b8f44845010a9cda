package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// others is how many documents are in the bucket beside those of the nodes.
const others = 10_000

// natsServer is a nats-server process.
type natsServer struct {
	name string
	dir  string
	port int
	prof int // port of its profiles
	cmd  *exec.Cmd
}

// startServer starts a nats-server with JetStream, that allows a consumer per node.
func (b *bench) startServer(name string) (*natsServer, error) {
	s := &natsServer{name: name, dir: filepath.Join(b.dir, name)}
	for _, port := range []*int{&s.port, &s.prof} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*port = listener.Addr().(*net.TCPAddr).Port
		listener.Close()
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("listen: \"127.0.0.1:%d\"\nmax_connections: 100000\nprof_port: %d\njetstream { store_dir: %q, limits { default_max_consumers: -1 } }\nlog_file: %q\n",
		s.port, s.prof, s.dir, filepath.Join(s.dir, "log"))
	if err := os.WriteFile(filepath.Join(s.dir, "conf"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s, s.launch(b)
}

func (s *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }
func (s *natsServer) pid() int    { return s.cmd.Process.Pid }

// launch starts the process and waits until it answers. Go raises its limit of
// open files to what the machine allows.
func (s *natsServer) launch(b *bench) error {
	s.cmd = exec.Command(filepath.Join(b.dir, "nats-server"), "-c", filepath.Join(s.dir, "conf"))
	if err := b.start(s.cmd); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		nc, err := nats.Connect(s.url())
		if err != nil {
			continue
		}
		js, err := jetstream.New(nc)
		if err == nil {
			_, err = js.AccountInfo(context.Background())
		}
		nc.Close()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer; see its log", s.name)
}

// live is the memory that the server uses, in KiB: heap and stacks after a garbage
// collection. What is resident beside it depends on when the last one was.
func (s *natsServer) live() (int, error) {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/heap?gc=1&debug=1", s.prof))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, name := range []string{"HeapAlloc", "Stack"} {
		_, rest, found := strings.Cut(string(text), "\n# "+name+" = ")
		n, err := strconv.Atoi(strings.Fields(rest + " x")[0])
		if err != nil || !found {
			return 0, fmt.Errorf("%s: its profile has no %s", s.name, name)
		}
		total += n
	}
	return total / 1024, nil
}

// kill ends the process as a power cut does.
func (s *natsServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// bucket makes the bucket, with the documents of n nodes and those of others, and
// returns a connection to it.
func (s *natsServer) bucket(ctx context.Context, n, others int) (*natskv.Bucket, error) {
	bucket, err := natskv.Connect(ctx, natskv.Config{Servers: []string{s.url()}})
	if err != nil {
		return nil, err
	}
	if _, err := bucket.Init(ctx, natskv.InitOptions{}); err != nil {
		return nil, err
	}
	scopes := []schemas.Scope{"common"}
	for i := range groups {
		scopes = append(scopes, group(i))
	}
	for i := range n {
		scopes = append(scopes, scopesOf(i)[0])
	}
	for i := range others {
		scopes = append(scopes, schemas.Scope(fmt.Sprintf("other/n%05d.example.com", i)))
	}
	return bucket, all(len(scopes), func(i int) error {
		_, err := bucket.Put(ctx, scopes[i], document(i%1000), 0)
		return err
	})
}

// document is a document with one entry; another value makes another document.
func document(value int) []byte {
	return fmt.Appendf(nil, `{"bellpull": 1, "entries": {"my_firewall::rules[tcp-8443]": {"value": {"port": %d, "protocol": "tcp", "action": "allow"}, `+
		`"kind": "firewall_rule", "event": "4f0e-%d", "source": "shop/deploy", "time": "2026-12-01T10:00:00Z"}}}`, 1024+value, value)
}

// groups is how many groups the nodes are in.
const groups = 100

func group(i int) schemas.Scope { return schemas.Scope(fmt.Sprintf("group/g%d", i%groups)) }

// scopesOf is a node's hierarchy: its own scope, its group, and common.
func scopesOf(i int) []schemas.Scope {
	return []schemas.Scope{schemas.Scope("node/" + certname(i)), group(i), "common"}
}

func certname(i int) string { return fmt.Sprintf("n%05d.example.com", i) }

// change writes another value to a scope.
func change(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope, value int) (uint64, error) {
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return 0, err
	}
	if err := reading.Scopes[0].Err; err != nil {
		return 0, err
	}
	return bucket.Put(ctx, scope, document(value), reading.Scopes[0].Revision)
}

// all does something for each of n nodes, some at a time.
func all(n int, do func(i int) error) error {
	const atOnce = 64
	next := make(chan int)
	errs := make(chan error, atOnce)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < n && err == nil; i++ {
		select {
		case next <- i:
		case err = <-errs:
		}
	}
	close(next)
	workers.Wait()
	if err == nil && len(errs) > 0 {
		err = <-errs
	}
	return err
}

// keep is a keeper process; it ends when it is killed.
func keep(url string) error {
	bucket, err := natskv.Connect(context.Background(), natskv.Config{Servers: []string{url}})
	if err != nil {
		return err
	}
	return keeper.New(keeper.Config{Bucket: bucket}).Run(context.Background())
}

// startKeepers starts keeper processes.
func (b *bench) startKeepers(n int, url string) (started []*exec.Cmd, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	for range n {
		cmd := exec.Command(self, "keep", url)
		cmd.Stderr = os.Stderr
		if err := b.start(cmd); err != nil {
			stop()
			return nil, nil, err
		}
		started = append(started, cmd)
	}
	return started, stop, nil
}
