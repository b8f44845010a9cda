package puppet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// AgentConfig says what a run is. Its zero value is `puppet agent`, at most an
// hour, with its records in the working directory.
type AgentConfig struct {
	Command []string      // program and arguments, no shell; default [DefaultCommand]
	Proof   Proof         // default: told from Command
	Timeout time.Duration // after it TERM is sent; default 1h
	Grace   time.Duration // between TERM and KILL; default 30s
	Paths   Paths         // [FindPaths]; not needed with ProofExit
	Dir     string        // where the run's output is kept, as run.out and run.err, until the next run
	Env     []string      // additions to the clean environment, as NAME=value
}

// Agent starts runs, waits for them and tells their true results. It starts at
// most what it is told to: that only one run is under way is [Loop]'s business.
type Agent struct {
	cfg AgentConfig

	mu       sync.Mutex
	children map[string]*child // by run id
}

// child is a run that this process started. Its process is waited for as long
// as it lives, whoever listens, so that its exit status is not lost.
type child struct {
	done chan struct{} // closed when the process has ended
	exit int
}

// NewAgent returns an agent; a command that does not fit its proof matches
// [schemas.ErrInvalid].
func NewAgent(cfg AgentConfig) (*Agent, error) {
	if len(cfg.Command) == 0 {
		cfg.Command = DefaultCommand()
	}
	proof, err := ParseProof(string(cfg.Proof), cfg.Command)
	if err != nil {
		return nil, err
	}
	cfg.Proof = proof
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Hour
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 30 * time.Second
	}
	return &Agent{cfg: cfg, children: map[string]*child{}}, nil
}

// Proof says by what this agent's runs prove what they used.
func (a *Agent) Proof() Proof { return a.cfg.Proof }

// Blocked says whether a run may start now, by Puppet's own lock files.
func (a *Agent) Blocked() Blocked { return readBlocked(a.cfg.Paths) }

// Reported tells when the last run's report was written; zero = there is none.
func (a *Agent) Reported() time.Time {
	if a.cfg.Proof == ProofExit {
		return time.Time{}
	}
	return modified(a.cfg.Paths.Report)
}

// Report reads the last run's report, whoever started that run.
func (a *Agent) Report() (Report, error) { return ReadReport(a.cfg.Paths.Report) }

// Start starts a run in a session of its own: it outlives this process. An error
// means that nothing was started.
func (a *Agent) Start(o Order) (Process, error) {
	args := a.cfg.Proof.arguments(a.cfg.Command, o)
	program, err := lookPath(args[0])
	if err != nil {
		return Process{}, err
	}
	stdout, stderr := a.outputs()
	out, err := stdout.open()
	if err != nil {
		return Process{}, err
	}
	defer out.Close()
	errs, err := stderr.open()
	if err != nil {
		return Process{}, err
	}
	defer errs.Close()
	cmd := exec.Command(program, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Dir = "/"
	variables, err := o.hand(a.cfg.Dir)
	if err != nil {
		return Process{}, err
	}
	cmd.Env = append(append(environment(), a.cfg.Env...), variables...)
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("start %s: %w", args[0], err)
	}
	process := identify(cmd.Process.Pid)
	c := &child{done: make(chan struct{})}
	a.mu.Lock()
	a.children[o.ID] = c
	a.mu.Unlock()
	go func() {
		defer close(c.done)
		// The error says no more than the state, which tells the status.
		_ = cmd.Wait()
		c.exit = exitStatus(cmd.ProcessState)
	}()
	return process, nil
}

// watchEvery is how often a run's output, and the life of one that another
// process has started, are looked at.
const watchEvery = 250 * time.Millisecond

// Wait waits until the run has ended, stopping it when its time is over, and
// tells how it went. The run may have been started by an earlier process: one
// without a known process is looked for by its id first. When ctx ends, Wait
// returns its error and the run goes on.
func (a *Agent) Wait(ctx context.Context, run Run) (Result, error) {
	process, c := run.Process, a.child(run.ID)
	if process.PID == 0 {
		process, _ = findRun(run.ID)
	}
	var done chan struct{} // nil: not our child
	if c != nil {
		done = c.done
	}
	stdout, stderr := a.outputs()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	timeout := time.NewTimer(time.Until(run.Started.Add(a.cfg.Timeout)))
	defer timeout.Stop()
	timedOut := false
	for running := c != nil || process.Alive(); running; {
		select {
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-done:
			running = false
		case <-tick.C:
			stdout.cut()
			stderr.cut()
			running = c != nil || process.Alive()
		case <-timeout.C:
			timedOut = true
			if err := a.stop(ctx, process, done); err != nil {
				return Result{}, err
			}
			running = false
		}
	}
	e := evidence{
		proof: a.cfg.Proof, id: run.ID, started: run.Started, found: c != nil || process.PID != 0, exit: -1, timedOut: timedOut,
		stderr: stderr.String(),
	}
	if c != nil {
		select {
		case <-c.done:
		case <-ctx.Done(): // the process survives even KILL; so long no other run is started
			return Result{}, ctx.Err()
		}
		e.exit = c.exit
		a.mu.Lock()
		delete(a.children, run.ID)
		a.mu.Unlock()
	}
	if a.cfg.Proof != ProofExit {
		e.report, e.reportErr = ReadReport(a.cfg.Paths.Report)
		e.blocked = a.Blocked()
	}
	result := e.verdict()
	result.Ended, result.Stdout, result.Stderr = time.Now(), stdout.String(), e.stderr
	if result.Outcome == Failed && a.cfg.Proof == ProofExit {
		result.Reason += "; what it said is in " + stderr.path
	}
	return result, nil
}

// stop ends the process and all that belongs to it: TERM, and KILL for what is
// left after the grace time. Puppet ends by itself on TERM, but leaves the
// command that it was running behind.
func (a *Agent) stop(ctx context.Context, process Process, done <-chan struct{}) error {
	family := process.family()
	signal(family, syscall.SIGTERM)
	grace := time.NewTimer(a.cfg.Grace)
	defer grace.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for anyAlive(family) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			done = nil // the family's others may still be there
		case <-tick.C:
		case <-grace.C:
			signal(append(family, process.family()...), syscall.SIGKILL)
			return nil
		}
	}
	return nil
}

func anyAlive(processes []Process) bool {
	for _, p := range processes {
		if p.Alive() {
			return true
		}
	}
	return false
}

func (a *Agent) child(id string) *child {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.children[id]
}

func (a *Agent) outputs() (stdout, stderr *output) {
	return &output{path: filepath.Join(a.cfg.Dir, "run.out")}, &output{path: filepath.Join(a.cfg.Dir, "run.err")}
}

// lookPath finds a program as a shell would, in the path that the run is given.
func lookPath(program string) (string, error) {
	if filepath.Base(program) != program {
		return program, nil
	}
	for _, dir := range filepath.SplitList(searchPath()) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("start %s: %w", program, exec.ErrNotFound)
}

func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
