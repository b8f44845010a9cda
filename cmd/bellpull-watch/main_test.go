package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

const patience = 180 * time.Second // for what takes a moment on a quiet machine

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellpull-watch": main, "fakepuppet": fakePuppet})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			t := env.T().(testing.TB)
			server := natstest.Start(t)
			natstest.Bucket(t, server)
			env.Values["server"] = server
			work := env.Getenv("WORK")
			env.Setenv("BELLPULL_CONFIG", filepath.Join(work, "bellpull.yaml"))
			return os.WriteFile(filepath.Join(work, "bellpull.yaml"), fmt.Appendf(nil, `
nats: {servers: ["%s"]}
node: {certname: web1.example.com, hierarchy: ["node/{certname}", group/web, common]}
state: %[2]s/state
watch: {command: [fakepuppet, %[2]s], proof: agent}
puppet: {lock: %[2]s/agent.lock, disabled_lock: %[2]s/disabled.lock, report: %[2]s/report.yaml}
`, server.URL(), work), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"put":     putCommand,
			"until":   untilCommand,
			"nats":    natsCommand,
			"signal":  signalCommand,
			"exits":   exitsCommand,
			"runs":    runsCommand,
			"applied": appliedCommand,
			"settle":  settleCommand,
		},
	})
}

// putCommand is: put SCOPE ENTRIES. It stores a document with these entries, as JSON.
func putCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: put SCOPE ENTRIES")
	}
	ts.Check(put(ts.Value("server").(*natstest.Server), args[0], args[1]))
}

func put(server *natstest.Server, name, entries string) error {
	scope, err := schemas.ParseScope(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{server.URL()}})
	if err != nil {
		return err
	}
	defer bucket.Close()
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return err
	}
	_, err = bucket.Put(ctx, scope, []byte(`{"bellpull":1,"entries":`+entries+`}`), reading.Scopes[0].Revision)
	return err
}

// untilCommand is: [!] until FILE PATTERN. It waits until the file matches; with
// !, until it is gone or no longer does.
func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] until FILE PATTERN")
	}
	pattern := regexp.MustCompile(args[1])
	if text, ok := eventually(func() (string, bool) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return string(text), (err == nil && pattern.Match(text)) != neg
	}); !ok {
		ts.Fatalf("%s still is %q after %v", args[0], text, patience)
	}
}

func eventually(check func() (string, bool)) (last string, ok bool) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if last, ok = check(); ok || time.Now().After(deadline) {
			return last, ok
		}
	}
}

// natsCommand is: nats stop|start.
func natsCommand(ts *testscript.TestScript, neg bool, args []string) {
	server := ts.Value("server").(*natstest.Server)
	switch strings.Join(args, " ") {
	case "stop":
		server.Stop()
	case "start":
		server.Restart()
	default:
		ts.Fatalf("usage: nats stop|start")
	}
}

// signalCommand is: signal NAME. It sends the signal to the command in the background.
func signalCommand(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	background := ts.BackgroundCmds()
	if neg || len(args) != 1 || signals[args[0]] == 0 || len(background) != 1 {
		ts.Fatalf("usage: signal TERM|KILL|HUP, with one command in the background")
	}
	ts.Check(background[0].Process.Signal(signals[args[0]]))
}

// exitsCommand is: exits N COMMAND... The command must end with this exit code,
// print nothing on stdout, and end its stderr with one line of its own.
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s\n%s", got, args[0], ts.ReadFile("stderr"))
	}
	if stdout := ts.ReadFile("stdout"); stdout != "" {
		ts.Fatalf("stdout %q, want none", stdout)
	}
}

// runsCommand is: runs N. So many runs of fakepuppet must have been started.
func runsCommand(ts *testscript.TestScript, neg bool, args []string) {
	body, err := os.ReadFile(ts.MkAbs("runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	if got := strings.Count(string(body), "\n"); neg || len(args) != 1 || fmt.Sprint(got) != args[0] {
		ts.Fatalf("%d runs, want %v\n%s", got, args, body)
	}
}

// appliedCommand is: applied SCOPE REVISION. It waits until that is booked.
func appliedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: applied SCOPE REVISION")
	}
	if text, ok := eventually(func() (string, bool) {
		text, _ := os.ReadFile(ts.MkAbs("state/node/applied.json"))
		applied, err := schemas.ParseApplied(text)
		return string(text), err == nil && fmt.Sprint(applied.Scopes[schemas.Scope(args[0])].Revision) == args[1]
	}); !ok {
		ts.Fatalf("applied still is %s after %v", text, patience)
	}
}

// settleCommand is: settle. It waits until the watcher has looked at everything
// that was put so far, and has nothing to do or waits.
func settleCommand(ts *testscript.TestScript, neg bool, args []string) {
	server := ts.Value("server").(*natstest.Server)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{server.URL()}})
	ts.Check(err)
	defer bucket.Close()
	scopes := []schemas.Scope{"node/web1.example.com", "group/web", "common"}
	reading, err := bucket.Read(ctx, scopes)
	ts.Check(err)
	if text, ok := eventually(func() (string, bool) {
		text, err := os.ReadFile(ts.MkAbs("state/node/run.json"))
		var wanted struct {
			Scopes map[string]struct{ Revision uint64 }
			Run    *struct{}
		}
		if err != nil || json.Unmarshal(text, &wanted) != nil {
			return string(text), false
		}
		for _, s := range reading.Scopes {
			if wanted.Scopes[string(s.Scope)].Revision != s.Revision {
				return string(text), false
			}
		}
		return string(text), wanted.Run == nil
	}); !ok {
		ts.Fatalf("run.json still is %s after %v", text, patience)
	}
}
