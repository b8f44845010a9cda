// Watch measures the watcher at scale: a simulator runs thousands of nodes in one
// process, with the real natskv and the real puppet.Loop, against a real
// nats-server process, beside peers that do the same in other ways. Only the
// agent is a stub that sleeps. `make bench-watch` runs it, from the top of the
// tree; it wants go and about fifteen minutes.
//
// Every bar is one line that ends in met or not met. The exit status is 1 when
// something could not be measured, or was wrong: a change lost, a spurious run, a
// permit too many.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the sizes of what is measured.
type options struct {
	nodes      int
	rounds     int
	limit      int
	run        time.Duration
	faultNodes int
	starts     int
	idle       time.Duration
	cap        time.Duration
}

// bench is one run of the program.
type bench struct {
	options
	dir   string // temporary; binaries and stores
	state string // of simulated nodes, in memory where there is a place
	wrong []string

	mu      sync.Mutex
	started []*exec.Cmd
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "keep" {
		if err := keep(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "keeper:", err)
			os.Exit(1)
		}
		return
	}
	// Thousands of nodes in one process would spend their time collecting each other's garbage.
	debug.SetGCPercent(400)
	var o options
	sections := flag.String("sections", "fanout,restart,herd,faults,start,idle", "what to measure")
	flag.IntVar(&o.nodes, "nodes", 5000, "simulated nodes")
	flag.IntVar(&o.rounds, "rounds", 100, "changes that are announced to all nodes")
	flag.IntVar(&o.limit, "permits", 50, "limit of simultaneous runs")
	flag.DurationVar(&o.run, "run", 500*time.Millisecond, "time that a stub run takes")
	flag.IntVar(&o.faultNodes, "fault-nodes", 5000, "simulated nodes where holders are killed")
	flag.IntVar(&o.starts, "starts", 61, "real runs that are started")
	flag.DurationVar(&o.idle, "idle", 5*time.Minute, "how long a real watcher is watched idling")
	flag.DurationVar(&o.cap, "cap", 2*time.Minute, "longest wait for a peer")
	flag.Parse()
	names := strings.Split(*sections, ",")
	var err error
	if len(names) > 1 {
		err = apart(names)
	} else {
		err = run(o, names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-watch:", err)
		os.Exit(1)
	}
}

// apart measures each section in a process of its own: what 15,000 connections left
// behind in one is no part of the next.
func apart(sections []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var failed []string
	for _, section := range sections {
		cmd := exec.CommandContext(ctx, self, append(os.Args[1:], "-sections", section)...) // the last one counts
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if err := cmd.Run(); err != nil {
			failed = append(failed, section)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not measured, or wrong: %s", strings.Join(failed, ", "))
	}
	return nil
}

func run(o options, sections []string) error {
	b := &bench{options: o}
	var err error
	if b.dir, err = os.MkdirTemp("", "bench-watch-"); err != nil {
		return err
	}
	defer b.end()
	memory := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		memory = "/dev/shm"
	}
	if b.state, err = os.MkdirTemp(memory, "bench-watch-"); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		b.end()
		os.Exit(1)
	}()
	fmt.Printf("simulated nodes keep their state in %s: what their disks cost is measured at the start of real runs\n", filepath.Dir(b.state))
	for name, pkg := range map[string]string{"nats-server": "github.com/nats-io/nats-server/v2", "bellpull-watch": "./cmd/bellpull-watch"} {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(b.dir, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, section := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"fanout", b.fanout}, {"restart", b.restart}, {"herd", b.herd}, {"faults", b.faults}, {"start", b.starting}, {"idle", b.idling},
	} {
		if !slices.Contains(sections, section.name) {
			continue
		}
		fmt.Printf("\n== %s\n", section.name)
		begin := time.Now()
		if err := section.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
		fmt.Printf("(%s took %v)\n", section.name, time.Since(begin).Round(time.Second))
	}
	if len(b.wrong) > 0 {
		return errors.New(strings.Join(b.wrong, "; "))
	}
	return nil
}

// start starts a process that ends with the bench at the latest.
func (b *bench) start(cmd *exec.Cmd) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	b.started = append(b.started, cmd)
	return nil
}

// end leaves no process and no file behind. It may be called while the bench runs:
// nothing is started any more.
func (b *bench) end() {
	b.mu.Lock() // for good
	for _, cmd := range b.started {
		_ = cmd.Process.Kill() // fails for those that have ended
		_, _ = cmd.Process.Wait()
	}
	_ = os.RemoveAll(b.dir)
	_ = os.RemoveAll(b.state)
}

// check notes what must never be.
func (b *bench) check(ok bool, format string, args ...any) {
	if !ok {
		text := fmt.Sprintf(format, args...)
		fmt.Println("WRONG:", text)
		b.wrong = append(b.wrong, text)
	}
}
