package datadir_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/schemas"
)

// tree writes files and returns the directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir string) datadir.Tree {
	t.Helper()
	got, err := datadir.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// entries of the only file of a directory.
func entries(t *testing.T, name, text string) map[string]datadir.Entry {
	t.Helper()
	got := read(t, tree(t, map[string]string{name: text}))
	out := map[string]datadir.Entry{}
	for _, e := range got.Files[0].Entries {
		out[e.Name] = e
	}
	return out
}

func TestLayout(t *testing.T) {
	got := read(t, tree(t, map[string]string{
		"common.yaml": "a: 1", "group/web.yml": "{}", "node/web1.example.com.json": `{"a": [1]}`, "node/empty.yaml": "", "deep/a/b.yaml": "---\n...\n",
		".git/config.yaml": "[", ".hidden.yaml": "[", "README.md": "[", "hiera.yaml": "[", "secret.eyaml": "[",
	}))
	var scopes []string
	for _, f := range got.Files {
		scopes = append(scopes, string(f.Scope))
	}
	if want := []string{"common", "deep/a/b", "group/web", "node/empty", "node/web1.example.com"}; !slices.Equal(scopes, want) {
		t.Errorf("scopes = %v, want %v", scopes, want)
	}
	if notes := strings.Join(got.Notes, "\n"); len(got.Notes) != 2 || !strings.Contains(notes, "hiera.yaml: left alone") || !strings.Contains(notes, "secret.eyaml: left alone") {
		t.Errorf("notes = %q", got.Notes)
	}
}

func TestMeta(t *testing.T) {
	got := entries(t, "common.yaml", `
a: 1
b: 2
c: 3
bellpull::meta:
  a: {kind: port, sensitive: true, ttl: 20m, owner: apply:x, run: {trigger: next, splay: 5m, tags: [x], noop: true}}
  b: {expires: "2026-12-01T10:00:00+01:00", owner: ''}
`)
	run := schemas.RunPolicy{Trigger: "next", Splay: 5 * time.Minute, Tags: []string{"x"}, Noop: true}
	if a := got["a"]; a.Kind != "port" || !a.Sensitive || a.TTL != 20*time.Minute || a.Owner != "apply:x" || !a.HasOwner || !a.Run.Equal(run) || a.Place != "common.yaml:2" {
		t.Errorf("a = %+v", a)
	}
	if b := got["b"]; !b.Expires.Equal(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)) || b.Owner != "" || !b.HasOwner {
		t.Errorf("b = %+v", b)
	}
	if c := got["c"]; c.HasOwner || c.Kind != "" {
		t.Errorf("c = %+v", c)
	}
	if got := entries(t, "x.json", `{"a": 1, "bellpull::meta": {"a": {"sensitive": true}}}`)["a"]; !got.Sensitive || got.Place != "x.json: /a" {
		t.Errorf("in JSON: %+v", got)
	}
}

// Every fault of every file is told, with its place.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"several files": {map[string]string{"a.yaml": "x: [1\n", "b.json": `{"x": 1,}`, "c.yaml": "x: 1\nx: 2\n<<: 3\n"},
			[]string{"a.yaml:2: ", "b.json: ", "c.yaml:2: /x: stands twice", "c.yaml:3: << takes"}},
		"two files of a scope": {map[string]string{"a.yaml": "", "a.json": ""}, []string{"a.yaml: scope a has the file a.json too"}},
		"no scope":             {map[string]string{"a b.yaml": ""}, []string{"a b.yaml: scope", `holds ' '`}},
		"no mapping":           {map[string]string{"a.yaml": "- 1\n", "b.yaml": "text\n", "c.json": "[]"}, []string{"a.yaml:1: ", "a list", "b.yaml:1: ", "c.json: "}},
		"several documents":    {map[string]string{"a.yaml": "x: 1\n---\ny: 1\n"}, []string{"a.yaml:2: a second document"}},
		"dates":                {map[string]string{"a.yaml": "x: 2026-12-01\ny: 2026-12-01 10:00:00\nz: 2026-12-01T10:00:00Z\n"}, []string{"a.yaml:1: /x:", "quotes", "a.yaml:2: /y:", "a.yaml:3: /z:"}},
		"symbols and base 60":  {map[string]string{"a.yaml": "x: :sym\ny: 22:30\nz: .inf\n"}, []string{"a.yaml:1: /x:", "a.yaml:2: /y:", "base 60", "a.yaml:3: /z:"}},
		"keys that are no text": {map[string]string{"a.yaml": "x:\n  80: web\n  on: 1\n  ? [a]\n  : 1\n  !!int 5: 1\n"},
			[]string{"a.yaml:2: /x: the key 80", "a.yaml:3: /x: the key on", "a.yaml:4: ", "a.yaml:6: "}},
		"tags":              {map[string]string{"a.yaml": "x: !ruby/object:Foo {}\ny: !!binary aGk=\nz: !!timestamp 2026-12-01\n"}, []string{"a.yaml:1: /x:", "a.yaml:2: /y:", "a.yaml:3: /z:"}},
		"names":             {map[string]string{"a.yaml": "'': 1\nbellpull::compiled: 1\nx: 1\nx[y]: 2\n"}, []string{"a.yaml:1: ", "a.yaml:2: ", "a.yaml:4: ", `"x[y]" stands beside "x" (a.yaml:3)`}},
		"a quoted merge":    {map[string]string{"a.yaml": "x:\n  \"<<\": {a: 1}\n"}, []string{"a.yaml:2: /x:", "!!str"}},
		"a late merge":      {map[string]string{"a.yaml": "b: &b {k: 1}\nx:\n  k: 2\n  <<: *b\n"}, []string{"a.yaml:1: /x: \"k\" stands before"}},
		"meta of nothing":   {map[string]string{"a.yaml": "bellpull::meta:\n  x: {sensitive: true}\n"}, []string{"a.yaml:2: /bellpull::meta/x: the file has no such entry"}},
		"meta, wrong":       {map[string]string{"a.yaml": "x: 1\nbellpull::meta:\n  x:\n    kind: 3\n    ttl: 20\n    secret: yes\n    run: {trigger: soon}\n"}, []string{"a.yaml:4: /bellpull::meta/x/kind", "a.yaml:5: /bellpull::meta/x/ttl", "a.yaml:6: /bellpull::meta/x/secret: is not known", "a.yaml:7: /bellpull::meta/x/run/trigger"}},
		"meta, both":        {map[string]string{"a.yaml": "x: 1\nbellpull::meta: {x: {ttl: 1h, expires: '2026-12-01T10:00:00Z'}}\n"}, []string{"stands beside expires"}},
		"meta, no mapping":  {map[string]string{"a.yaml": "x: 1\nbellpull::meta: {x: 1}\n", "b.yaml": "bellpull::meta: 1"}, []string{"a.yaml:2: ", "b.yaml:1: "}},
		"bad UTF-8":         {map[string]string{"a.yaml": "x: \xff\n"}, []string{"a.yaml"}},
		"nothing at all":    {map[string]string{"README": ""}, []string{"holds no data file"}},
		"too large":         {map[string]string{"a.yaml": "x: '" + strings.Repeat("x", datadir.MaxFile) + "'"}, []string{"a.yaml: has more than"}},
		"an alias to above": {map[string]string{"a.yaml": "x: &x [*x]\n"}, []string{"a.yaml:1: "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := datadir.Read(tree(t, test.files))
			if !errors.Is(err, schemas.ErrInvalid) {
				t.Fatalf("error = %v, want an invalid one", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %q, want it to say %q", err, want)
				}
			}
		})
	}
	if _, err := datadir.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// Nine levels of nine aliases are a billion values.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		one, two := string(rune('0'+i)), string(rune('1'+i))
		b.WriteString("a" + two + ": &a" + two + " [" + strings.Repeat("*a"+one+",", 8) + "*a" + one + "]\n")
	}
	for name, text := range map[string]string{
		"lists":  b.String(),
		"merges": "a0: &a0 {x: 1}\n" + strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(b.String(), "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"), "[", "{<<: ["), "]", "]}"),
	} {
		start := time.Now()
		_, err := datadir.Read(tree(t, map[string]string{"a.yaml": text}))
		if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "aliases make more") {
			t.Errorf("%s: error = %v, want one about aliases", name, err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestLinks(t *testing.T) {
	dir := tree(t, map[string]string{"a.yaml": "x: 1", "d/b.yaml": "x: 1"})
	outside := tree(t, map[string]string{"secret.yaml": "x: 1"})
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("a.yaml", "same.yaml")
	if got := read(t, dir); len(got.Files) != 3 {
		t.Errorf("%d files, want 3: a link within the directory is followed", len(got.Files))
	}
	link(filepath.Join(outside, "secret.yaml"), "out.yaml")
	link("nowhere", "dangling.yaml")
	link("d", "dirs")
	_, err := datadir.Read(dir)
	for _, want := range []string{"out.yaml: is a link", "dangling.yaml: is a link", "dirs: is a link to a directory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to say %q", err, want)
		}
	}
}

// What Hiera would interpolate is text in the bucket: somebody may be surprised.
func TestInterpolationIsNoted(t *testing.T) {
	got := read(t, tree(t, map[string]string{"a.yaml": "x: 1\ny: '%{facts.os.name}'\n"}))
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "a.yaml:2: /y: holds %{") {
		t.Errorf("notes = %q", got.Notes)
	}
}

func TestPath(t *testing.T) {
	for scope, want := range map[schemas.Scope]string{
		"common": "common.yaml", "node/web1.example.com": "node/web1.example.com.yaml", "a.yaml": "a.yaml.yaml", "x/hiera": "x/hiera.yaml",
		".a": "", "a/.b": "", "hiera": "",
	} {
		got, err := datadir.Path(scope)
		if got != want || (want == "") != errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("Path(%s) = %q, %v, want %q", scope, got, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, path := range []string{"common.yaml", "group/webservers-prod.yaml", "node/db1.example.com.json", "os/Debian.yml"} {
		text, err := os.ReadFile(filepath.Join("testdata/control-repo", path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"a.yaml", "a.json"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := datadir.Read(dir)
			_ = os.Remove(path)
			if err != nil {
				if !errors.Is(err, schemas.ErrInvalid) {
					t.Errorf("error = %v, want an invalid one", err)
				}
				continue
			}
			// What was read can be written, and is the same then.
			want := map[string]schemas.Value{}
			for _, e := range got.Files[0].Entries {
				want[e.Name] = e.Value
			}
			out, err := datadir.Marshal(got.Files[0].Entries)
			if err != nil {
				t.Fatalf("write: %v", err)
			}
			back := map[string]schemas.Value{}
			for _, e := range read(t, tree(t, map[string]string{"a.yaml": string(out)})).Files[0].Entries {
				back[e.Name] = e.Value
			}
			if !maps.Equal(back, want) {
				t.Errorf("read %v, wrote and read %v", want, back)
			}
		}
	})
}
