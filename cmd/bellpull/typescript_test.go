package main

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// The example publisher in TypeScript writes what every writer has to write.
func TestTypeScriptPublisher(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages from npm")
	}
	tools.Need(t, "npm", "node")
	dir := t.TempDir()
	example := os.DirFS("../../docs/examples/typescript")
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "src"} {
		copyInto(t, dir, example, name)
	}
	copyInto(t, dir, os.DirFS("testdata/typescript"), ".")
	command(t, dir, nil, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	command(t, dir, nil, "npm", "run", "build")

	t.Run("documents", func(t *testing.T) { typescriptDocuments(t, dir) })
	t.Run("apply", func(t *testing.T) { typescriptApply(t, dir) })
	t.Run("publish", func(t *testing.T) { typescriptPublish(t, dir) })
	t.Run("two writers", func(t *testing.T) { typescriptWriters(t, dir) })
	t.Run("rights", func(t *testing.T) { typescriptRights(t, dir) })
}

// It takes the documents that bellpull takes, and refuses what bellpull refuses.
func typescriptDocuments(t *testing.T, dir string) {
	for _, tt := range []struct {
		files string
		valid bool
	}{{"../../schemas/testdata/valid", true}, {"../../schemas/testdata/invalid", false}} {
		files, err := filepath.Abs(tt.files)
		if err != nil {
			t.Fatal(err)
		}
		var said map[string]string
		unmarshal(t, command(t, dir, nil, "node", "documents.mjs", files), &said)
		if len(said) == 0 {
			t.Errorf("no document in %s", tt.files)
		}
		for name, fault := range said {
			if valid := fault == ""; valid != tt.valid || !valid && !strings.HasPrefix(fault, "InvalidError: ") {
				t.Errorf("%s: got %q, want valid %v", name, fault, tt.valid)
			}
		}
	}
}

// It goes together with bellpull, and with what other clients leave.
func typescriptPublish(t *testing.T, dir string) {
	srv := natstest.Start(t)
	bucket := natstest.Bucket(t, srv)
	env := []string{"NATS_URL=" + srv.URL(), "BELLPULL_NATS_SERVERS=[" + srv.URL() + "]"}
	const scope, key = "node/web1.example.com:a", "node.web1/example/com=3Aa"
	bellpull := func(args ...string) string { t.Helper(); return command(t, dir, env, "bellpull", args...) }
	publish := func(outcome string, args ...string) {
		t.Helper()
		var got struct{ Outcome string }
		if unmarshal(t, command(t, dir, env, "node", append([]string{"dist/main.js", scope}, args...)...), &got); got.Outcome != outcome {
			t.Fatalf("publish %q: got %q, want %q", args, got.Outcome, outcome)
		}
	}
	refused := func(code int, word string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "node", append([]string{"dist/main.js"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), word) {
			t.Errorf("publish %q: got exit code %d and %s, want %d and %q", args, got, out, code, word)
		}
	}

	bellpull("put", scope, "app::big", "12345678901234567890")
	publish("changed", "app::port", `{"port": 8443, "ratio": 1.50}`, "--kind", "app", "--ttl", "3600", "--id", "1", "--source", "shop")
	got := standingDocument(t, bucket, scope)
	if e := got.Entries["app::big"]; e.Value != "12345678901234567890" {
		t.Errorf("the other entry became %+v", e)
	}
	e := got.Entries["app::port"]
	if e.Value != `{"port":8443,"ratio":1.50}` || e.Kind != "app" || e.Event != "1" || e.Source != "shop" || !e.Expires.Equal(e.Time.Add(time.Hour)) {
		t.Errorf("the entry is %+v", e)
	}
	at := e.Time.Format(time.RFC3339Nano)
	publish("unchanged", "app::port", `{"ratio": 1.50, "port": 8443}`, "--kind", "app", "--ttl", "3600", "--id", "1", "--source", "shop", "--time", at)
	refused(5, "other content", scope, "app::port", "1", "--id", "1", "--source", "shop", "--time", at)
	publish("superseded", "app::port", "1", "--time", e.Time.Add(-time.Second).Format(time.RFC3339Nano))

	// A removal is remembered, until a newer event sets the entry again.
	bellpull("rm", scope, "app::port")
	publish("superseded", "app::port", "2", "--time", at)
	later := time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
	publish("changed", "app::port", "3", "--time", later)
	got = standingDocument(t, bucket, scope)
	if _, removed := got.Removed["app::port"]; removed || got.Entries["app::port"].Value != "3" {
		t.Errorf("set again, the document is %+v", got)
	}
	bellpull("put", scope, "app::port", "4")
	if got, want := bellpull("get", scope, "app::port"), "4"; got != want {
		t.Errorf("bellpull put and get afterwards: got %s, want %s", got, want)
	}

	refused(5, "app::port", scope, "app::port[x]", "1")
	refused(4, "kind", scope, "x", "1", "--kind", "no kind")
	refused(4, "scope", "web/../x", "x", "1")
	refused(4, "no valid JSON", scope, "x", "{")
	refused(4, "ahead", scope, "x", "1", "--time", time.Now().Add(time.Hour).Format(time.RFC3339))
	refused(4, "is empty", scope, "", "1")
	refused(2, "usage", scope, "x")

	// Of a deletion its time counts.
	conn := natstest.Conn(t, srv)
	marker := &nats.Msg{Subject: "$KV.desired." + key, Header: nats.Header{"KV-Operation": {"PURGE"}}}
	if _, err := conn.RequestMsg(marker, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	publish("superseded", "app::port", "5", "--time", at)
	publish("changed", "app::port", "6")
	if got := standingDocument(t, bucket, scope); len(got.Entries) != 1 || got.SupersededBefore.IsZero() {
		t.Errorf("after a deletion the document is %+v, want one entry and superseded_before", got)
	}

	// What is no document is not replaced.
	if _, err := conn.Request("$KV.desired."+key, []byte(`{"bellpull": 1, "entries": {"x": 1}}`), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	refused(5, "/entries/x must be an object; take an earlier revision", scope, "x", "1")
}

// Two processes that write to one scope at the same time lose nothing.
func typescriptWriters(t *testing.T, dir string) {
	srv := natstest.Start(t)
	bucket := natstest.Bucket(t, srv)
	var writers sync.WaitGroup
	for _, prefix := range []string{"left", "right"} {
		writers.Go(func() {
			cmd := exec.CommandContext(t.Context(), "node", "many.mjs", srv.URL(), "group/web", prefix, "25")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", prefix, err, out)
			}
		})
	}
	writers.Wait()
	if got := standingDocument(t, bucket, "group/web"); len(got.Entries) != 50 {
		t.Errorf("got %d entries of 50 events", len(got.Entries))
	}
	env := []string{"BELLPULL_NATS_SERVERS=[" + srv.URL() + "]"}
	command(t, dir, env, "bellpull", "put", "group/web", "left::0", "100")
	if got := standingDocument(t, bucket, "group/web"); len(got.Entries) != 50 || got.Entries["left::0"].Value != "100" {
		t.Errorf("after bellpull put: got %d entries, left::0 = %s", len(got.Entries), got.Entries["left::0"].Value)
	}
}

// It needs no right but to read and to write the one key; without it, it says so at once.
func typescriptRights(t *testing.T, dir string) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "web", Password: "w", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.DIRECT.GET.KV_desired.$KV.desired.group.web", "$KV.desired.group.web"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	as := func(user string) string { return strings.Replace(srv.URL(), "nats://", "nats://"+user+"@", 1) }
	admin := natstest.Dial(t, natskv.Config{Servers: []string{as("admin:a")}})
	if _, err := admin.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	env := []string{"NATS_URL=" + as("web:w")}
	command(t, dir, env, "node", "dist/main.js", "group/web", "x", "1")

	begun := time.Now()
	cmd := exec.CommandContext(t.Context(), "node", "dist/main.js", "group/db", "x", "1")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 6 || !strings.Contains(string(out), "group.db") || time.Since(begun) > 4*time.Second {
		t.Errorf("another scope: got exit code %d after %v and %s, want 6 at once and the subject", code, time.Since(begun), out)
	}
}

func standingDocument(t *testing.T, bucket *natskv.Bucket, scope schemas.Scope) schemas.Document {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err == nil {
		err = reading.Scopes[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return reading.Scopes[0].Document
}

// copyInto copies a file or folder of from.
func copyInto(t *testing.T, dir string, from fs.FS, name string) {
	t.Helper()
	err := fs.WalkDir(from, name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
