package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

const patience = 120 * time.Second // for what takes a moment on a quiet machine

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellpull-auth": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := natstest.Start(env.T().(testing.TB))
			natstest.Bucket(env.T().(testing.TB), server)
			env.Values["server"] = server
			file := filepath.Join(env.Getenv("WORK"), "bellpull.yaml")
			env.Setenv("BELLPULL_CONFIG", file)
			return os.WriteFile(file, []byte("nats: {servers: ["+server.URL()+"]}\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"permit": permitCommand, "limit": limitCommand},
	})
}

// limitCommand is: limit N.
func limitCommand(ts *testscript.TestScript, _ bool, args []string) {
	limit, err := schemas.ParseLimit(args[0])
	ts.Check(err)
	with(ts, "", func(ctx context.Context, b *natskv.Bucket) { ts.Check(b.SetLimit(ctx, limit)) })
}

// permitCommand is: permit NODE. It waits until the node has a permit, and gives it back.
func permitCommand(ts *testscript.TestScript, _ bool, args []string) {
	with(ts, args[0], func(ctx context.Context, b *natskv.Bucket) {
		permits := b.Permits()
		for answer := range permits.Ask(ctx) {
			if strings.Contains(answer.Permit.Handle, ".") {
				ts.Check(permits.Release(ctx, answer.Permit))
				return
			}
		}
		ts.Fatalf("no permit within %v", patience)
	})
}

func with(ts *testscript.TestScript, node string, f func(context.Context, *natskv.Bucket)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := natskv.Connect(ctx, natskv.Config{Servers: []string{ts.Value("server").(*natstest.Server).URL()}, Node: node})
	ts.Check(err)
	defer b.Close()
	f(ctx, b)
}
