package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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

type typescriptCase struct {
	Document string            `json:"document"`
	Message  time.Time         `json:"message"` // time of the document's message
	Now      time.Time         `json:"now"`
	Events   []typescriptEvent `json:"events"`

	want     schemas.Document
	outcomes []string
}

type typescriptEvent struct {
	ID        string    `json:"id"`
	Source    string    `json:"source"`
	Time      time.Time `json:"time"`
	Entry     string    `json:"entry"`
	ValueText string    `json:"valueText"`
	Kind      string    `json:"kind,omitempty"`
	TTL       int       `json:"ttl,omitempty"`
	Sensitive bool      `json:"sensitive,omitempty"`
}

func (ev typescriptEvent) event(t *testing.T) schemas.Event {
	t.Helper()
	value, err := schemas.ParseValue([]byte(ev.ValueText))
	if err != nil {
		t.Fatal(err)
	}
	return schemas.Event{
		ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: "common", Entry: ev.Entry, Action: schemas.ActionSet,
		Value: value, Kind: ev.Kind, TTL: time.Duration(ev.TTL) * time.Second, Sensitive: ev.Sensitive,
	}
}

// It makes of random events in random order what bellpull makes of them.
func typescriptApply(t *testing.T, dir string) {
	random := rand.New(rand.NewPCG(1, 2))
	cases := make([]typescriptCase, 300)
	for i := range cases {
		cases[i] = randomCase(t, random)
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "apply.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(string(input)), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []struct {
		Document string
		Outcomes []string
	}
	unmarshal(t, string(output), &results)
	seen := map[string]int{}
	for i, c := range cases {
		for _, outcome := range c.outcomes {
			seen[outcome]++
		}
		if got, want := fmt.Sprint(results[i].Outcomes), fmt.Sprint(c.outcomes); got != want {
			t.Fatalf("case %d: outcomes %s, want %s\n%s", i, got, want, show(t, c))
		}
		got, err := schemas.ParseDocument([]byte(results[i].Document))
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if got, want := marshal(t, got), marshal(t, c.want); got != want {
			t.Fatalf("case %d: got %s\nwant %s\n%s", i, got, want, show(t, c))
		}
	}
	for _, outcome := range []string{"changed", "unchanged", "superseded", "ConflictError", "InvalidError"} {
		if seen[outcome] == 0 {
			t.Errorf("no event was %s", outcome)
		}
	}
}

// randomCase makes a document by bellpull's own hand, and says what becomes of
// further events.
func randomCase(t *testing.T, random *rand.Rand) typescriptCase {
	t.Helper()
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	c := typescriptCase{Now: time.Date(2026, 12, 1, 10, 0, 0, 123456789, time.UTC)}
	c.Message = c.Now.Add(-time.Hour)
	when := func() time.Time {
		return c.Now.Add([]time.Duration{
			-8 * 24 * time.Hour, -time.Hour - 1, -time.Hour, -time.Minute - 1, -time.Minute, 0, 1, time.Minute, time.Hour,
		}[random.IntN(9)])
	}
	next := func() typescriptEvent {
		return typescriptEvent{
			ID: pick("1", "2", "3", "\U00010400", "\uff01"), Source: pick("", "a", "b"), Time: when(),
			Entry: pick("a", "b", "a[b]", "a[c]", "__proto__"), ValueText: pick("1", "1.0", "12345678901234567890", `{"b":1e3,"a":[null]}`, `{"a":[null],"b":1e3}`),
			Kind: pick("", "", "k"), TTL: random.IntN(3) * 45, Sensitive: random.IntN(8) == 0,
		}
	}
	doc := schemas.Document{Entries: map[string]schemas.Entry{"theirs": {Value: `"without a time"`}}}
	for range random.IntN(5) {
		ev := next().event(t)
		switch random.IntN(4) {
		case 0:
			ev = schemas.Event{ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: ev.Scope, Entry: ev.Entry, Action: schemas.ActionRemove}
		case 1:
			ev.Time = time.Time{} // timeless: remembered in seen
		}
		if after, _, err := doc.Dated(c.Message).Apply(ev, c.Now.Add(-2*time.Minute)); err == nil {
			doc = after
		}
	}
	if random.IntN(4) == 0 {
		doc.SupersededBefore = when()
	}
	c.Document = marshal(t, doc)
	doc = doc.Dated(c.Message)
	for range 1 + random.IntN(4) {
		ev := next()
		c.Events = append(c.Events, ev)
		after, outcome, err := doc.Apply(ev.event(t), c.Now)
		switch {
		case errors.Is(err, schemas.ErrConflict):
			c.outcomes = append(c.outcomes, "ConflictError")
		case errors.Is(err, schemas.ErrInvalid):
			c.outcomes = append(c.outcomes, "InvalidError")
		case err != nil:
			t.Fatal(err)
		case outcome.Superseded:
			c.outcomes = append(c.outcomes, "superseded")
		case outcome.Changed:
			c.outcomes = append(c.outcomes, "changed")
		default:
			c.outcomes = append(c.outcomes, "unchanged")
		}
		if err == nil {
			doc = after
		}
	}
	c.want = doc
	return c
}

func show(t *testing.T, c typescriptCase) string {
	t.Helper()
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func marshal(t *testing.T, doc schemas.Document) string {
	t.Helper()
	text, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
