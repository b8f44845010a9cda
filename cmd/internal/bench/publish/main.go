// Publish measures what writing costs: the gateway beside a bare handler that does
// the same to the bucket and nothing else, many publishers on one document, and
// bellpull apply. `make bench-publish` runs it, from the top of the tree, on a
// machine that does nothing else.
//
// Every bar is one line that ends in met or not met.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

// options are what may be made smaller for a quick look.
type options struct {
	sections string
	round    time.Duration
	rounds   int
	scopes   int
	bodies   int
}

func main() {
	var o options
	flag.StringVar(&o.sections, "sections", "gateway,contention,apply,fuzz", "what to measure")
	flag.DurationVar(&o.round, "round", 4*time.Second, "of load on each candidate")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds, in which the candidates take turns")
	flag.IntVar(&o.scopes, "scopes", 10_000, "scopes of apply, with 10 entries each")
	flag.IntVar(&o.bodies, "bodies", 1_000_000, "hostile bodies")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "serve":
		err = serve(flag.Arg(1))
	case "bare":
		err = bare(flag.Arg(1))
	default:
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-publish:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	dir, err := os.MkdirTemp("", "bench-publish-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"bellpull", "bellpull-gateway"} {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "./cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	for _, section := range strings.Split(o.sections, ",") {
		var err error
		switch section {
		case "gateway":
			err = throughput(dir, o)
		case "contention":
			err = contention(dir, o)
		case "apply":
			err = apply(dir, o)
		case "fuzz":
			err = hostile(o)
		default:
			err = fmt.Errorf("there is no section %q", section)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", section, err)
		}
	}
	return nil
}

// program is a process of the bench's own.
type program struct {
	cmd *exec.Cmd
	url string // the first line that it wrote
}

// launch starts a program and waits for the line with its URL. A program ends
// with its input, or by SIGTERM.
func launch(environment []string, name string, args ...string) (*program, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), environment...)
	log, err := os.CreateTemp("", "bench-publish-log-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	cmd.Stderr = log
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%s did not start: %s", name, text)
	}
	return &program{cmd: cmd, url: strings.TrimSpace(line)}, nil
}

func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// itself starts this bench in another role.
func itself(args ...string) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return launch(nil, self, args...)
}

// startServer starts a NATS server with an empty bucket.
func startServer(dir string) (*program, error) {
	store, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	p, err := itself("serve", store)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(dir, "bellpull"), "init")
	cmd.Env = append(os.Environ(), "BELLPULL_CONFIG=/dev/null", "BELLPULL_NATS_SERVERS=["+p.url+"]")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.stop()
		return nil, fmt.Errorf("bellpull init: %w\n%s", err, out)
	}
	return p, nil
}

func serve(store string) error {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, NoLog: true,
	})
	if err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("nats-server is not ready")
	}
	fmt.Println(srv.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

const token = "bp_a token for the bench alone"

// startGateway starts the gateway before the server.
func startGateway(dir, nats string) (*program, error) {
	hash := hashOf(token)
	return launch([]string{
		"BELLPULL_CONFIG=/dev/null", "BELLPULL_NATS_SERVERS=[" + nats + "]",
		`BELLPULL_GATEWAY_SENDERS=[{name: bench, auth: {bearer: ["` + hash + `"]}, kinds: [firewall_rule], scopes: ["group/*"], rate: 1000000/s}]`,
	}, filepath.Join(dir, "bellpull-gateway"), "--listen", "127.0.0.1:0")
}

// hostile lets the fuzzer of package webhook post.
func hostile(o options) error {
	began := time.Now()
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^FuzzRequest$", "-fuzztime", fmt.Sprintf("%dx", o.bodies), "./cmd/internal/webhook")
	out, err := cmd.CombinedOutput()
	panics := 0.0
	if err != nil {
		fmt.Printf("%s\n", out)
		panics = 1
	}
	bar.Print(fmt.Sprintf("%d hostile requests by the fuzzer, in %v: failures", o.bodies, time.Since(began).Round(time.Second)), panics, 0, "")
	return nil
}
