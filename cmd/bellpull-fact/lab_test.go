package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// lab is what a script finds: its commands drive a real server.
//
//	nats [bare|users]       starts a server with a bucket, without one, or with a
//	                        user node:right; $NATS is its URL, $HOSTPORT without nats://
//	nats-stop, nats-start   stop it, start it again with what it has stored
//	silent                  starts a listener that never answers; $SILENT is its URL
//	line                    makes a line to the server; $LINE is its URL
//	hold                    lets nothing through the line any more
//	put SCOPE ENTRIES       writes a document of these entries
//	raw SCOPE BODY          writes a body that need not be a document
//	new-id                  gives the bucket a new id, as a restore does
//	conf URL [LINE…]        writes the node's configuration, $BELLPULL_CONFIG
//	fact PATH JSON          compares a member of the last fact, /-separated; - = missing
//	short                   holds that the last stderr is one short line
//	timed D                 runs the program and holds that it ends within D
type lab struct {
	t      *testing.T
	server *natstest.Server
	bucket *natskv.Bucket
	line   *natstest.Line
}

func (l *lab) setup(env *testscript.Env) error {
	env.Setenv("BELLPULL_CONFIG", filepath.Join(env.WorkDir, "bellpull.yaml"))
	env.Setenv("STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("GORACE", "atexit_sleep_ms=0") // else the race detector makes every program a second longer
	return nil
}

func (l *lab) commands() map[string]func(*testscript.TestScript, bool, []string) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	add := func(name string, args int, f func(ts *testscript.TestScript, args []string) error) {
		commands[name] = func(ts *testscript.TestScript, neg bool, given []string) {
			if neg || len(given) < args {
				ts.Fatalf("usage: %s with %d arguments, not negated", name, args)
			}
			ts.Check(f(ts, given))
		}
	}
	add("nats", 0, l.nats)
	add("nats-stop", 0, func(*testscript.TestScript, []string) error { l.server.Stop(); return nil })
	add("nats-start", 0, func(*testscript.TestScript, []string) error {
		l.server.Restart()
		l.bucket = natstest.Dial(l.t, natskv.Config{Servers: []string{l.server.URL()}})
		return nil
	})
	add("silent", 0, func(ts *testscript.TestScript, _ []string) error {
		ts.Setenv("SILENT", natstest.Silent(l.t))
		return nil
	})
	add("line", 0, func(ts *testscript.TestScript, _ []string) error {
		l.line = natstest.NewLine(l.t, l.server)
		ts.Setenv("LINE", l.line.URL())
		return nil
	})
	add("hold", 0, func(*testscript.TestScript, []string) error { l.line.Silence(); return nil })
	add("put", 2, func(_ *testscript.TestScript, args []string) error {
		return l.write(args[0], `{"bellpull": 1, "entries": `+args[1]+`}`)
	})
	add("raw", 2, func(_ *testscript.TestScript, args []string) error { return l.write(args[0], args[1]) })
	add("new-id", 0, func(*testscript.TestScript, []string) error {
		_, err := l.bucket.Init(context.Background(), natskv.InitOptions{NewID: true})
		return err
	})
	add("conf", 1, func(ts *testscript.TestScript, args []string) error {
		text := fmt.Sprintf("nats: {servers: [%q]}\nnode: {certname: web1.example.com, hierarchy: [\"node/{certname}\", group/web, common]}\nstate: %s\n%s\n",
			args[0], ts.Getenv("STATE"), strings.Join(args[1:], "\n"))
		return os.WriteFile(ts.Getenv("BELLPULL_CONFIG"), []byte(text), 0o600)
	})
	add("fact", 2, fact)
	add("short", 0, func(ts *testscript.TestScript, _ []string) error {
		if text := ts.ReadFile("stderr"); len(text) > 400 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "bellpull-fact: ") {
			return fmt.Errorf("stderr is not one short line: %q", text)
		}
		return nil
	})
	add("timed", 1, func(ts *testscript.TestScript, args []string) error {
		limit, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		start := time.Now()
		if err := ts.Exec("bellpull-fact"); err != nil {
			return err
		}
		if took := time.Since(start); took > limit {
			return fmt.Errorf("the program took %v, at most %v are allowed", took, limit)
		}
		return nil
	})
	return commands
}

func (l *lab) nats(ts *testscript.TestScript, args []string) error {
	if len(args) > 0 && args[0] == "users" {
		l.server = natstest.Start(l.t, func(o *server.Options) { o.Users = []*server.User{{Username: "node", Password: "right"}} })
	} else {
		l.server = natstest.Start(l.t)
	}
	ts.Setenv("NATS", l.server.URL())
	ts.Setenv("HOSTPORT", strings.TrimPrefix(l.server.URL(), "nats://"))
	if len(args) == 0 {
		l.bucket = natstest.Bucket(l.t, l.server)
	}
	return nil
}

func (l *lab) write(scope, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reading, err := l.bucket.Read(ctx, []schemas.Scope{schemas.Scope(scope)})
	if err != nil {
		return err
	}
	_, err = l.bucket.Put(ctx, schemas.Scope(scope), []byte(body), reading.Scopes[0].Revision)
	return err
}

// fact compares a member of the JSON on the last program's standard output.
func fact(ts *testscript.TestScript, args []string) error {
	text := ts.ReadFile("stdout")
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		return fmt.Errorf("the output is not one line: %q", text)
	}
	var got, want any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return fmt.Errorf("the output is no JSON: %w: %q", err, text)
	}
	for _, name := range strings.Split(args[0], "/") {
		members, ok := got.(map[string]any)
		value, there := members[name]
		if !ok || !there {
			if args[1] == "-" {
				return nil
			}
			return fmt.Errorf("there is no %s in %s", args[0], text)
		}
		got = value
	}
	if err := json.Unmarshal([]byte(args[1]), &want); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s = %v, want %v", args[0], got, want)
	}
	return nil
}
