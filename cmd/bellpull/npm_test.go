package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// The bucket is an ordinary KV bucket: a client from npm that knows nothing of
// bellpull reads what bellpull wrote, and bellpull and the fact show what it wrote.
func TestPlainKVClient(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages from npm")
	}
	tools.Need(t, "npm", "node")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/npm")); err != nil {
		t.Fatal(err)
	}
	// npm keeps what it once fetched; only the first test on a machine asks the registry.
	command(t, dir, nil, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	fact := filepath.Join(dir, "bellpull-fact")
	command(t, ".", nil, "go", "build", "-o", fact, "../bellpull-fact")

	server := natstest.Start(t)
	natstest.Bucket(t, server)
	env := []string{
		"BELLPULL_NATS_SERVERS=[" + server.URL() + "]", "BELLPULL_STATE=" + filepath.Join(dir, "state"),
		"BELLPULL_CONFIG_YAML=node: {certname: web1.example.com, hierarchy: ['node/{certname}', common]}",
	}
	kv := func(args ...string) string {
		t.Helper()
		return command(t, dir, nil, "node", append([]string{"kv.mjs", server.URL(), "desired"}, args...)...)
	}
	bellpull := func(args ...string) string {
		t.Helper()
		return command(t, dir, env, "bellpull", args...)
	}

	// It reads what bellpull wrote.
	bellpull("put", "node/web1.example.com", "app::size", "40")
	var got struct {
		Key, Operation, Value string
		Revision              int
	}
	unmarshal(t, kv("get", "node.web1/example/com"), &got)
	if want := `"app::size":{"value":40,`; got.Revision != 2 || got.Operation != "PUT" || !strings.Contains(got.Value, want) {
		t.Errorf("the client reads %+v, want revision 2 with %s", got, want)
	}

	// bellpull, the fact and the history show what it wrote.
	if got := kv("put", "common", `{"bellpull": 1, "entries": {"motd": {"value": "hello"}}}`); got != "3" {
		t.Errorf("the client's put answers %q, want revision 3", got)
	}
	if got, want := bellpull("get", "common", "motd"), `"hello"`; got != want {
		t.Errorf("bellpull get: got %s, want %s", got, want)
	}
	var shown struct {
		Bellpull struct {
			Source string
			Scopes map[string]int
			State  map[string]any
		}
	}
	unmarshal(t, command(t, dir, env, fact), &shown)
	if b := shown.Bellpull; b.Source != "live" || b.Scopes["common"] != 3 || b.State["motd"] != "hello" || b.State["app::size"] != 40.0 {
		t.Errorf("the fact shows %+v, want both entries live and common at revision 3", b)
	}

	// It may delete, and bellpull goes on from there.
	kv("del", "common")
	if got, want := bellpull("ls", "common"), "[]"; got != want {
		t.Errorf("bellpull ls after the client's delete: got %s, want %s", got, want)
	}
	bellpull("put", "common", "motd", `"again"`)
	history := strings.Split(kv("history", "common"), "\n")
	if len(history) != 3 || !strings.Contains(history[1], `"operation":"DEL"`) || !strings.Contains(history[2], "again") {
		t.Errorf("the client's history of common: got %q, want put, delete, put", history)
	}
}

// A lock names versions and digests, and no registry: everybody has their own.
func TestLockNamesNoRegistry(t *testing.T) {
	for _, dir := range []string{"testdata/npm", "../../docs/examples/typescript"} {
		text, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "://") || strings.Contains(string(text), `"resolved"`) {
			t.Errorf("package-lock.json of %s names a registry; run npm install with omit-lockfile-registry-resolved=true", dir)
		}
	}
}

// command runs a program, which must succeed, and returns what it printed.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
