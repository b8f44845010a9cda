package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// bellpull runs a command line against the server.
func bellpull(t *testing.T, srv *natstest.Server, args ...string) (stdout string, err error) {
	t.Helper()
	t.Setenv("BELLPULL_CONFIG_YAML", fmt.Sprintf("nats: {servers: [%q]}", srv.URL()))
	var out bytes.Buffer
	err = run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: new(bytes.Buffer)}, args)
	return out.String(), err
}

func scopesOf(t *testing.T, out string) (n int) {
	t.Helper()
	var v struct {
		Scopes  int   `json:"scopes"`
		Entries []any `json:"entries"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return v.Scopes + len(v.Entries)
}

// A control repository's data go into the bucket and come out as they were.
func TestApplyRoundTrip(t *testing.T) {
	const repo = "../internal/datadir/testdata/control-repo"
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	out := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{{"apply", repo}, {"export", out}} {
		if _, err := bellpull(t, srv, args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	want, got := data(t, repo), data(t, out)
	delete(want, "group/empty") // a scope without entries has no file
	if !reflect.DeepEqual(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
	for _, args := range [][]string{{"apply", out, "--prune", "--yes"}, {"apply", repo, "--prune", "--yes"}, {"apply", out, "--take"}} {
		stdout, err := bellpull(t, srv, args...)
		if err != nil || scopesOf(t, stdout) != 0 {
			t.Errorf("%v: %s, %v, want no change", args, stdout, err)
		}
	}
}

// data is what a directory says, without the places.
func data(t *testing.T, dir string) map[schemas.Scope]map[string]datadir.Entry {
	t.Helper()
	tree, err := datadir.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[schemas.Scope]map[string]datadir.Entry{}
	for _, f := range tree.Files {
		out[f.Scope] = map[string]datadir.Entry{}
		for _, e := range f.Entries {
			e.Place = ""
			out[f.Scope][e.Name] = e
		}
	}
	return out
}

// An apply that ends in the middle says how far it got, and its repetition goes on from there. Here the stream is full.
func TestApplyEndsEarly(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	dir := t.TempDir()
	const scopes = 1200
	for i := range scopes {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%04d.yaml", i)), []byte("x: "+strings.Repeat("x", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(natstest.Conn(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	maxBytes := func(n int64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), "KV_desired")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = n
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	maxBytes(1500 * 1000)
	_, err = bellpull(t, srv, "apply", dir)
	if !errors.Is(err, schemas.ErrUnavailable) || !strings.Contains(err.Error(), "1000 of 1200 scopes are done, a repeat goes on from there") || !strings.Contains(err.Error(), "maximum bytes") {
		t.Fatalf("full: %v", err)
	}
	maxBytes(-1)
	stdout, err := bellpull(t, srv, "apply", dir)
	if err != nil || scopesOf(t, stdout) != 200+200 {
		t.Errorf("repeated: %v, %s, want the 200 that were left", err, stdout)
	}
	infos, err := b.Scopes(context.Background(), "")
	if err != nil || len(infos) != scopes {
		t.Errorf("%d scopes stand, %v, want %d", len(infos), err, scopes)
	}
}
