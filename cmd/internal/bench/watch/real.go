package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// watcher is a real bellpull-watch process whose run is date, which starts as
// true does and tells when it did.
type watcher struct {
	cmd *exec.Cmd
	dir string
}

func (b *bench) startWatcher(name, url, timing string) (*watcher, error) {
	w := &watcher{dir: filepath.Join(b.dir, name)}
	file := filepath.Join(b.dir, name+".yaml")
	config := fmt.Sprintf("nats: {servers: [%q]}\nnode: {certname: %s, hierarchy: [%s, %s, %s]}\nstate: %s\nwatch: {command: [date, +%%s%%N]%s}\n",
		url, certname(0), scopesOf(0)[0], scopesOf(0)[1], scopesOf(0)[2], w.dir, timing)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	w.cmd = exec.Command(filepath.Join(b.dir, "bellpull-watch"), "--config", file, "--log-level", "error")
	w.cmd.Stderr = os.Stderr
	return w, b.start(w.cmd)
}

func (w *watcher) stop() {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.cmd.Wait()
}

// began waits until a run is booked that began after the time, and tells when it did.
func (w *watcher) began(after time.Time) (time.Time, error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(w.dir, "node/run.out"))
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			continue
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if at := time.Unix(0, ns); err == nil && at.After(after) {
			time.Sleep(30 * time.Millisecond) // it is judged and booked
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("no run within 30 s of the change")
}

// starting measures from a change to the start of the agent's process on an idle
// node, beside the parts that nobody can do without.
func (b *bench) starting(ctx context.Context) error {
	server, err := b.startServer("start")
	if err != nil {
		return err
	}
	defer server.kill()
	admin, err := server.bucket(ctx, b.nodes, others)
	if err != nil {
		return err
	}
	defer admin.Close()
	node, err := natskv.Connect(ctx, natskv.Config{Servers: []string{server.url()}, Node: certname(0)})
	if err != nil {
		return err
	}
	defer node.Close()
	nc, err := nats.Connect(server.url())
	if err != nil {
		return err
	}
	defer nc.Close()
	heard := make(chan time.Time, 16)
	if _, err := nc.Subscribe("bellpull.changed.desired.bare", func(*nats.Msg) { heard <- time.Now() }); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	fast, err := b.startWatcher("fast", server.url(), ", quiet: 0s, quiet_max: 0s")
	if err != nil {
		return err
	}
	defer fast.stop()
	usual, err := b.startWatcher("usual", server.url(), "")
	if err != nil {
		return err
	}
	defer usual.stop()
	if err := b.current(ctx, admin, fast, usual); err != nil {
		return err
	}
	bare, err := change(ctx, admin, "bare", 1001)
	if err != nil {
		return err
	}
	<-heard
	common, err := admin.Read(ctx, []schemas.Scope{"common"})
	if err != nil {
		return err
	}
	revision := common.Scopes[0].Revision
	var notify, read, write, spawn, sum, whole, late []time.Duration
	for round := range b.starts {
		begin := time.Now()
		if bare, err = admin.Put(ctx, "bare", document(round), bare); err != nil {
			return err
		}
		notify = append(notify, (<-heard).Sub(begin))

		begin = time.Now()
		if _, err := node.ReadNode(ctx, scopesOf(0)); err != nil {
			return err
		}
		read = append(read, time.Since(begin))

		journal, err := os.ReadFile(filepath.Join(fast.dir, "node/run.json"))
		if err != nil {
			return err
		}
		begin = time.Now()
		if err := renameio.WriteFile(filepath.Join(fast.dir, "bench.json"), journal, 0o600, renameio.WithTempDir(fast.dir)); err != nil {
			return err
		}
		write = append(write, time.Since(begin))

		begin = time.Now()
		out, err := exec.Command("date", "+%s%N").Output()
		if err != nil {
			return err
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			return err
		}
		spawn = append(spawn, time.Unix(0, ns).Sub(begin))
		sum = append(sum, notify[round]+read[round]+write[round]+spawn[round])

		begin = time.Now()
		if revision, err = admin.Put(ctx, "common", document(100+round), revision); err != nil {
			return err
		}
		at, err := fast.began(begin)
		if err != nil {
			return err
		}
		whole = append(whole, at.Sub(begin))
		if at, err = usual.began(begin); err != nil {
			return err
		}
		late = append(late, at.Sub(begin))
	}
	for _, part := range []struct {
		name string
		took []time.Duration
	}{
		{"change to bare notification", notify}, {"pipelined read", read}, {"durable small-file write", write}, {"start of a process", spawn},
		{"the sum", sum}, {"change to agent started, no quiet period", whole}, {"change to agent started, defaults", late},
	} {
		fmt.Printf("%-42s p50 %9s, p99 %9s\n", part.name, bar.Ms(bar.Median(part.took)), bar.Ms(bar.Quantile(part.took, 0.99)))
	}
	bar.Print("change to agent started, p50, by the sum of its parts", float64(bar.Median(whole))/float64(bar.Median(sum)), 1.5, "")
	const quiet = 250 * time.Millisecond
	bar.Print("the same with defaults, less the quiet period, by the sum of its parts", float64(bar.Median(late)-quiet)/float64(bar.Median(sum)), 1.5, "")
	return nil
}

// current makes a first change, so that each watcher has run once and is idle.
func (b *bench) current(ctx context.Context, admin *natskv.Bucket, watchers ...*watcher) error {
	begin := time.Now()
	if _, err := change(ctx, admin, "common", 1); err != nil {
		return err
	}
	for _, w := range watchers {
		if _, err := w.began(begin); err != nil {
			return err
		}
	}
	time.Sleep(5 * time.Second) // the second resync of the connection
	return nil
}

// idling measures a real watcher with nothing to do.
func (b *bench) idling(ctx context.Context) error {
	server, err := b.startServer("idle")
	if err != nil {
		return err
	}
	defer server.kill()
	admin, err := server.bucket(ctx, 1, 0)
	if err != nil {
		return err
	}
	defer admin.Close()
	w, err := b.startWatcher("idle-watch", server.url(), "")
	if err != nil {
		return err
	}
	defer w.stop()
	if err := b.current(ctx, admin, w); err != nil {
		return err
	}
	before, err := bar.CPU(w.cmd.Process.Pid)
	if err != nil {
		return err
	}
	time.Sleep(b.idle)
	after, err := bar.CPU(w.cmd.Process.Pid)
	if err != nil {
		return err
	}
	kib, err := bar.Resident(w.cmd.Process.Pid)
	if err != nil {
		return err
	}
	bar.Print(fmt.Sprintf("CPU of bellpull-watch, idle for %v", b.idle), 100*float64(after-before)/float64(b.idle), 0.2, " %")
	bar.Print("resident size of bellpull-watch, idle", float64(kib)/1024, 20, " MiB")
	return nil
}
