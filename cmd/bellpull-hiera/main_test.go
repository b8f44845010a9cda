package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellpull-hiera": main})
}

// place is a server with a bucket, and where the data files go.
type place struct {
	server *natstest.Server
	hiera  string
}

func newPlace(t testing.TB, hiera string) *place {
	t.Helper()
	s := natstest.Start(t)
	natstest.Bucket(t, s)
	return &place{server: s, hiera: hiera}
}

// env is what bellpull-hiera is told.
func (p *place) env() []string {
	return []string{
		"BELLPULL_NATS_SERVERS=[" + p.server.URL() + "]", "BELLPULL_HIERA_DIR=" + p.hiera,
		"BELLPULL_CONFIG_YAML=node: {certname: web1.example.com, hierarchy: [group/own, common]}",
	}
}

// put stores a body under a scope, whatever it holds.
func (p *place) put(ctx context.Context, scope, body string) error {
	s, err := schemas.ParseScope(scope)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{p.server.URL()}})
	if err != nil {
		return err
	}
	defer bucket.Close()
	reading, err := bucket.Read(ctx, []schemas.Scope{s})
	if err != nil {
		return err
	}
	_, err = bucket.Put(ctx, s, []byte(body), reading.Scopes[0].Revision)
	return err
}

// set stores a document with these entries, as JSON text.
func (p *place) set(t testing.TB, scope, entries string) {
	t.Helper()
	if err := p.put(t.Context(), scope, `{"bellpull":1,"entries":`+entries+`}`); err != nil {
		t.Fatal(err)
	}
}

func (p *place) sync(t testing.TB) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bellpull-hiera", "sync", "--once")
	cmd.Env = append(os.Environ(), p.env()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bellpull-hiera sync --once: %v\n%s", err, out)
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			p := newPlace(env.T().(testing.TB), env.Getenv("WORK")+"/hiera")
			env.Values["place"] = p
			env.Vars = append(env.Vars, p.env()...)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"put":   putCommand,
			"until": untilCommand,
			"nats":  natsCommand,
			"code":  codeCommand,
		},
	})
}

// putCommand is: put SCOPE BODY. It stores the body, whatever it holds.
func putCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: put SCOPE BODY")
	}
	ts.Check(ts.Value("place").(*place).put(context.Background(), args[0], args[1]))
}

// untilCommand is: [!] until FILE PATTERN. It waits until the file matches; with
// !, until it is gone or no longer does.
func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] until FILE PATTERN")
	}
	pattern := regexp.MustCompile(args[1])
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if (err == nil && pattern.Match(text)) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s still is %q after 20s", args[0], text)
		}
	}
}

// natsCommand is: nats stop|start.
func natsCommand(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("place").(*place)
	switch strings.Join(args, " ") {
	case "stop":
		p.server.Stop()
	case "start":
		p.server.Restart()
	default:
		ts.Fatalf("usage: nats stop|start")
	}
}

// codeCommand is: code N COMMAND... The command must end with this exit code,
// and, unless it is 0, print nothing on stdout and one line on stderr.
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("got exit code %d, want %s\n%s", got, args[0], stderr)
	}
	if got != 0 && (stdout != "" || strings.Count(stderr, "\n") != 1) {
		ts.Fatalf("got stdout %q and stderr %q, want nothing and one line", stdout, stderr)
	}
}
