package kinds_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// write replaces files of a directory; an empty text removes one.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name+".schema.json")
		var err error
		if text == "" {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// SCHEMA-05: a schema that cannot be used does not replace one that works, and no value passes unchecked.
func TestReload(t *testing.T) {
	const lookahead = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": {"name": {"type": "string", "pattern": "^(?!aws:.*)[a-zA-Z0-9_.-]+$"}}}`
	const escape = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "pattern": "\\u"}`
	type verdict struct{ kind, value, want string } // want: "" = good, else what the error holds
	first := map[string]string{
		"app":    `{"maximum": 1, "x-bellpull": {"ttl": "5m"}}`,
		"limit":  `{"$defs": {"small": {"maximum": 1}}}`,
		"size":   `{"$ref": "limit.schema.json#/$defs/small"}`,
		"gone":   `{"type": "string"}`,
		"chain":  `{"$ref": "size.schema.json"}`,
		"lonely": `{"type": "boolean"}`,
	}
	for _, tt := range []struct {
		name     string
		change   map[string]string
		want     []string // of the error, each in a line of its own; none = no error
		names    string
		verdicts []verdict
	}{
		{"nothing", nil, nil, "app app_pool blocked_address chain firewall_rule gone limit lonely size",
			[]verdict{{"app", "2", "at most 1"}, {"size", "1", ""}}},
		{"good ones are taken, removed ones go", map[string]string{"app": `{"maximum": 2}`, "gone": "", "new": `{"const": 7}`}, nil,
			"app app_pool blocked_address chain firewall_rule limit lonely new size",
			[]verdict{{"app", "2", ""}, {"gone", `"a"`, "is not known"}, {"new", "8", "must be 7"}}},
		{"a look-ahead", map[string]string{"app": lookahead, "lonely": `{"const": 7}`},
			[]string{"/app.schema.json: /properties/name/pattern: pattern \"^(?!aws:.*)[a-zA-Z0-9_.-]+$\" cannot be used: .*; the old one stays in force"},
			"", []verdict{{"app", "1", ""}, {"app", "2", "at most 1"}, {"lonely", "7", ""}, {"lonely", "true", "must be 7"}}},
		{"a broken escape", map[string]string{"app": escape}, []string{`/app.schema.json: /pattern: pattern "\\u" cannot be used: .*; the old one stays in force`},
			"", []verdict{{"app", "2", "at most 1"}}},
		{"bad defaults", map[string]string{"app": `{"maximum": 9, "x-bellpull": {"ttl": "0s"}}`},
			[]string{"/app.schema.json: /x-bellpull/ttl: must be a duration .*; the old one stays in force"}, "", []verdict{{"app", "2", "at most 1"}}},
		{"no JSON", map[string]string{"app": `{`}, []string{"/app.schema.json: ends in the middle .*; the old one stays in force"}, "", []verdict{{"app", "2", "at most 1"}}},
		{"what it refers to is bad", map[string]string{"limit": `{"type": 1}`, "size": `{"$ref": "limit.schema.json", "maximum": 0}`},
			[]string{
				`/chain.schema.json: /$ref: refers to "size.schema.json", which cannot be used; the old one stays in force`,
				"/limit.schema.json: /type: .*; the old one stays in force",
				`/size.schema.json: /$ref: refers to "limit.schema.json", which cannot be used; the old one stays in force`,
			}, "", []verdict{{"size", "1", ""}, {"size", "2", "at most 1"}, {"chain", "1", ""}, {"chain", "2", "at most 1"}, {"limit", "9", ""}}},
		{"what it refers to is gone", map[string]string{"limit": ""},
			[]string{"/chain.schema.json: .*; the old one stays in force", "/size.schema.json: /$ref: .*, which is neither embedded nor in the directory of kinds; the old one stays in force"},
			"app app_pool blocked_address chain firewall_rule gone lonely size", []verdict{{"size", "2", "at most 1"}, {"limit", "9", "is not known"}}},
		{"what the library alone finds", map[string]string{"limit": `{"x": {"y": {"pattern": "(?!a)"}}, "$ref": "#/x/y"}`, "size": `{"$ref": "limit.schema.json"}`},
			[]string{"/chain.schema.json: .*", "/limit.schema.json: .*(?!a).*; the old one stays in force", "/size.schema.json: .*refers to \"limit.schema.json\", which cannot be used; .*"},
			"", []verdict{{"size", "1", ""}, {"size", "2", "at most 1"}, {"limit", "9", ""}}},
		{"a new one is bad", map[string]string{"new": lookahead},
			[]string{"/new.schema.json: /properties/name/pattern: .*; there is no old one, so its values are refused"},
			"app app_pool blocked_address chain firewall_rule gone limit lonely new size",
			[]verdict{{"new", `{"name": "a"}`, `kind "new" cannot be used: `}, {"app", "1", ""}}},
		{"one that replaces an embedded kind is bad", map[string]string{"app_pool": escape, "uses": `{"$ref": "app_pool.schema.json"}`},
			[]string{"/app_pool.schema.json: /pattern: .*; the old one stays in force", "/uses.schema.json: .*which cannot be used; there is no old one, so its values are refused"},
			"", []verdict{{"app_pool", `{"name": "a", "size": 1}`, ""}, {"app_pool", `"a"`, "must be an object"}, {"uses", `{"name": "a", "size": 1}`, "cannot be used"}}},
		{"a name that is none", map[string]string{"event": `{}`}, []string{`/event.schema.json: "event" cannot be the name of a kind; the file is left out`},
			"app app_pool blocked_address chain firewall_rule gone limit lonely size", []verdict{{"app", "2", "at most 1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, first)
			old, err := kinds.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, tt.change)
			set, err := old.Reload(dir)
			if set == nil {
				t.Fatalf("got no set, %v", err)
			}
			checkLines(t, err, tt.want)
			if got := strings.Join(set.Names(), " "); tt.names != "" && got != tt.names {
				t.Errorf("names: got %s, want %s", got, tt.names)
			}
			for _, v := range tt.verdicts {
				err := set.Validate(v.kind, value(t, v.value))
				if (err == nil) != (v.want == "") || err != nil && !strings.Contains(err.Error(), v.want) {
					t.Errorf("%s of %s: got %v, want %q", v.kind, v.value, err, v.want)
				}
			}
			if err := old.Validate("app", "2"); !errors.Is(err, schemas.ErrInvalid) {
				t.Errorf("the old set: got %v, want it as it was", err)
			}
			if _, err := set.Body("route", []byte(`{"$ref": "firewall_rule.schema.json"}`)); err != nil {
				t.Errorf("a body: got %v", err)
			}

			// What is mended is taken.
			write(t, dir, map[string]string{"app": `{"const": 9}`, "limit": first["limit"], "size": first["size"], "new": `{"const": 9}`, "app_pool": `{}`, "event": `{}`})
			write(t, dir, map[string]string{"app_pool": "", "event": ""})
			again, err := set.Reload(dir)
			if err != nil {
				t.Errorf("mended: got %v", err)
			}
			for _, kind := range []string{"app", "new"} {
				if err := again.Validate(kind, "9"); err != nil || again.Validate(kind, "1") == nil {
					t.Errorf("mended %s: got %v for 9, and for 1 %v", kind, err, again.Validate(kind, "1"))
				}
			}
		})
	}
}

// checkLines compares an error's lines with patterns in which .* stands for anything.
func checkLines(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if len(got) != len(want) {
		t.Fatalf("got the error %v, want %d lines: %q", err, len(want), want)
	}
	for i, pattern := range want {
		rest, ok := got[i], true
		for part := range strings.SplitSeq(pattern, ".*") {
			if _, rest, ok = strings.Cut(rest, part); !ok {
				t.Errorf("got %q, want %q", got[i], pattern)
				break
			}
		}
	}
}

func TestReloadKeepsDefaults(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"app": `{"x-bellpull": {"ttl": "5m"}}`})
	set, err := kinds.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"app": `{"x-bellpull": {"ttl": 5}}`, "new": `{"type": "strng"}`})
	set, err = set.Reload(dir)
	if !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if ev, err := set.Complete(schemas.Event{Kind: "app", Scope: "common", Value: "1"}); err != nil || ev.TTL != 5*time.Minute {
		t.Errorf("got a ttl of %v, %v; want that of the old one", ev.TTL, err)
	}
	// Nobody can tell whether its value is good: it is to be sent again.
	if _, err := set.Complete(schemas.Event{Kind: "new", Scope: "common", Value: "1"}); !errors.Is(err, schemas.ErrUnavailable) || errors.Is(err, schemas.ErrInvalid) ||
		!strings.Contains(err.Error(), "/new.schema.json: /type: ") {
		t.Errorf("got %v, want ErrUnavailable with file and place", err)
	}
	if _, err := set.BodyFile("new.schema.json"); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "/new.schema.json: /type: ") {
		t.Errorf("as a body: got %v, want ErrInvalid with file and place", err)
	}
	if _, err := set.Body("route", []byte(`{"$ref": "new.schema.json"}`)); !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("a body that refers to it: got %v, want ErrInvalid", err)
	}
	all := set.Kinds()
	last := all[len(all)-1]
	if last.Name != "new" || last.Err == nil || last.File != filepath.Join(dir, "new.schema.json") {
		t.Errorf("listed: got %+v, want new with its fault", last)
	}
	// It is still bad at the next one, and the directory may be away altogether.
	again, err := set.Reload(dir)
	if err == nil || !strings.Contains(err.Error(), "there is no old one") || again.Validate("new", "1") == nil {
		t.Errorf("again: got %v, want it bad still, with no old one", err)
	}
	again, err = set.Reload(filepath.Join(dir, "nowhere"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "stay in force") || !slices.Equal(again.Names(), set.Names()) {
		t.Errorf("no directory: got %q, %v; want the old set and fs.ErrNotExist", again.Names(), err)
	}
}
