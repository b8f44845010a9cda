package kinds_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// Every draft is read by its own rules, and tells its faults without the value.
func TestDrafts(t *testing.T) {
	const secret = "hunter2"
	for _, tt := range []struct {
		draft, schema, value, want string
	}{
		{"http://json-schema.org/draft-04/schema#", `"id": "https://example.com/k", "definitions": {"n": {"id": "#port", "type": "integer", "minimum": 5, "exclusiveMinimum": true}}, "$ref": "#/definitions/n"`, `5`, ": must be more than 5"},
		{"http://json-schema.org/draft-04/schema#", `"maximum": 5, "exclusiveMaximum": true`, `5`, ": must be less than 5"},
		{"http://json-schema.org/draft-04/schema#", `"id": "https://example.com/k", "type": "integer"`, `"` + secret + `"`, ": must be an integer, not a string"},
		{"http://json-schema.org/draft-04/schema#", `"dependencies": {"a": ["b"]}`, `{"a": "` + secret + `"}`, `/b: is missing, and "a" needs it`},
		{"http://json-schema.org/draft-04/schema#", `"properties": {"a": {"format": "ipv4"}}`, `{"a": "` + secret + `"}`, "/a: must be an IPv4 address such as 192.0.2.10"},
		{"http://json-schema.org/draft-06/schema#", `"contains": {"const": 1}`, `["` + secret + `"]`, ": must hold at least 1 items of the wanted form"},
		{"http://json-schema.org/draft-06/schema#", `"exclusiveMinimum": 5`, `5`, ": must be more than 5"},
		{"http://json-schema.org/draft-06/schema#", `"propertyNames": {"maxLength": 1}`, `{"ab": 1}`, "/ab: the name must be at most 1 characters long"},
		{"http://json-schema.org/draft-07/schema#", `"$ref": "#/definitions/a", "type": "array", "$id": "sub/x", "definitions": {"a": {"type": "integer"}}`, `"` + secret + `"`, ": must be an integer, not a string"},
		{"http://json-schema.org/draft-07/schema#", `"if": {"type": "string"}, "then": {"const": "a"}, "else": {"const": 1}`, `"` + secret + `"`, `: must be "a"`},
		{"http://json-schema.org/draft-07/schema#", `"dependencies": {"a": {"required": ["b"]}}`, `{"a": 1}`, "/b: is missing"},
		{"https://json-schema.org/draft/2019-09/schema", `"$anchor": "top", "properties": {"below": {"$recursiveRef": "#"}, "n": {"maximum": 1}}`, `{"below": {"below": {"n": 2}}}`, "/below/below/n: must be at most 1"},
		{"https://json-schema.org/draft/2019-09/schema", `"dependentRequired": {"a": ["b"]}`, `{"a": 1}`, `/b: is missing, and "a" needs it`},
		{"https://json-schema.org/draft/2019-09/schema", `"items": [{"const": 1}], "additionalItems": {"const": 2}`, `[1, "` + secret + `"]`, "/1: must be 2"},
		{"https://json-schema.org/draft/2020-12/schema", `"prefixItems": [{"const": 1}], "items": {"const": 2}`, `[1, "` + secret + `"]`, "/1: must be 2"},
		{"https://json-schema.org/draft/2020-12/schema", `"$dynamicAnchor": "node", "properties": {"below": {"$dynamicRef": "#node"}, "n": {"maximum": 1}}`, `{"below": {"n": 2}}`, "/below/n: must be at most 1"},
		{"https://json-schema.org/draft/2020-12/schema", `"$id": "sub/x.schema.json", "type": "integer"`, `"` + secret + `"`, ": must be an integer, not a string"},
		{"https://json-schema.org/draft/2020-12/schema", `"$ref": "https://json-schema.org/draft/2020-12/schema"`, `{"pattern": "(` + secret + `"}`, "/pattern: does not satisfy https://json-schema.org/draft/2020-12/meta/validation#"},
		{"https://json-schema.org/draft/2020-12/schema", `"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/meta/validation#/$defs/simpleTypes"}}`, `{"a": "` + secret + `"}`, "/a: does not satisfy https://json-schema.org/draft/2020-12/meta/validation#/$defs/simpleTypes/enum"},
		{"https://json-schema.org/draft/2020-12/schema", `"$ref": "http://json-schema.org/draft-04/schema#"`, `{"exclusiveMinimum": true}`, ": does not satisfy "},
	} {
		set, err := load(t, map[string]string{"k.schema.json": `{"$schema": "` + tt.draft + `", ` + tt.schema + `}`})
		if err != nil {
			t.Errorf("%s of %s: %v", tt.schema, tt.draft, err)
			continue
		}
		err = set.Validate("k", value(t, tt.value))
		got := faults(t, err)
		if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s of %s: got %q, want %q alone, and not the value", tt.schema, tt.draft, got, tt.want)
		}
	}
}

// A $ref leads to files of the set alone, whatever the draft and wherever the schema says that it is.
func TestRefsStayInTheSet(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"http in draft 4", `{"$schema": "http://json-schema.org/draft-04/schema#", "items": {"$ref": "http://127.0.0.1:1/x"}}`, "/items/$ref: "},
		{"an id of draft 4", `{"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://127.0.0.1:1/a", "items": {"$ref": "b"}}`, `/items/$ref: refers to "b", which is neither`},
		{"an id of http", `{"$id": "http://127.0.0.1:1/a", "items": {"$ref": "b"}}`, `/items/$ref: refers to "b", which is neither`},
		{"an id of file", `{"$id": "file:///etc/a", "$ref": "hostname"}`, `/$ref: refers to "hostname", which is neither`},
		{"a relative id", `{"$id": "../../etc/a", "$ref": "b"}`, `/$ref: refers to "b", which is neither`},
		{"a part of another draft", `{"items": {"$ref": "http://json-schema.org/draft-07/schema#/definitions/simpleTypes"}}`, "/items/$ref: refers to"},
		{"escaped", `{"$ref": "%2e%2e/x.schema.json"}`, "/$ref: "},
		{"a dynamic ref", `{"properties": {"a": {"$dynamicRef": "http://127.0.0.1:1/x"}}}`, "/properties/a/$dynamicRef: refers to"},
		{"no URL", `{"$ref": "http://[::1"}`, "/$ref: "},
		{"a draft of its own", `{"$schema": "bellpull:///kinds/app_pool.schema.json"}`, "/$schema: is no draft"},
		{"a part of a draft", `{"$schema": "https://json-schema.org/draft/2020-12/meta/core"}`, "/$schema: is no draft"},
		{"a draft from a file", `{"$schema": "file:///etc/hostname"}`, "/$schema: is no draft"},
		{"the address of another file", `{"$id": "bellpull:///kinds/app_pool.schema.json"}`, `/$id: "bellpull:///kinds/app_pool.schema.json" is the address of embedded app_pool.schema.json already`},
		{"the same, relative", `{"$id": "app_pool.schema.json"}`, `/$id: "app_pool.schema.json" is the address of`},
		{"the same, in draft 4", `{"$schema": "http://json-schema.org/draft-04/schema#", "id": "app_pool.schema.json"}`, "/id: "},
		{"the address of a draft", `{"$id": "https://json-schema.org/draft/2020-12/schema"}`, `/$id: "https://json-schema.org/draft/2020-12/schema" belongs to JSON Schema itself`},
	} {
		_, err := load(t, map[string]string{"bad.schema.json": tt.schema})
		if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "/bad.schema.json: "+tt.want) {
			t.Errorf("%s: got %v, want bad.schema.json: %s", tt.name, err, tt.want)
		}
	}
	_, err := load(t, map[string]string{"a.schema.json": `{"$id": "https://example.com/x"}`, "b.schema.json": `{"$id": "https://example.com/x#"}`})
	if err == nil || !strings.Contains(err.Error(), `/b.schema.json: /$id: "https://example.com/x" is the address of `) {
		t.Errorf("two files at one address: got %v", err)
	}

	set := mustLoad(t, map[string]string{
		"a.schema.json": `{"$schema": "http://json-schema.org/draft-04/schema#", "id": "https://example.com/a", "definitions": {"n": {"maximum": 1}}}`,
		"b.schema.json": `{"$ref": "https://example.com/a#/definitions/n"}`,
		"c.schema.json": `{"$id": "sub/c", "$ref": "../b.schema.json"}`,
		"e.schema.json": `{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/silenced", "$ref": "b.schema.json"}`,
		"f.schema.json": `{"$ref": "#/$defs/a", "$defs": {"a": {"$id": "https://example.com/n/a", "$ref": "b"}, "b": {"$id": "https://example.com/n/b", "maximum": 1}}}`,
		"d.schema.json": `{"properties": {"$ref": {"type": "string"}, "const": {"$ref": "b.schema.json"}}}`,
	})
	for kind, v := range map[string]string{"b": "2", "c": "2", "e": "2", "f": "2", "d": `{"const": 2}`} {
		if got := faults(t, set.Validate(kind, value(t, v))); len(got) != 1 || !strings.HasSuffix(got[0], ": must be at most 1") {
			t.Errorf("%s: got %q, want the limit of a.schema.json", kind, got)
		}
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// Kubernetes puts the files of a ConfigMap into a hidden directory and replaces the link to it.
func TestLinksWithinTheDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		data := filepath.Join(dir, "..2026_12_0"+version)
		if err := os.Mkdir(data, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, data, map[string]string{"app": `{"const": ` + version + `}`})
	}
	link(t, "..2026_12_01", filepath.Join(dir, "..data"))
	link(t, "..data/app.schema.json", filepath.Join(dir, "app.schema.json"))
	outer := filepath.Join(t.TempDir(), "kinds")
	link(t, dir, outer) // the directory itself may be a link

	set, err := kinds.Load(outer)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Validate("app", "1"); err != nil {
		t.Errorf("got %v, want the value to pass", err)
	}
	link(t, "..2026_12_02", filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if set, err = set.Reload(outer); err != nil || set.Validate("app", "2") != nil {
		t.Errorf("after the link was replaced: got %v and %v", err, set.Validate("app", "2"))
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, map[string]string{"app": `{}`})
	for _, tt := range []struct {
		name string
		make func(path string)
		want string
	}{
		{"a link out", func(path string) { link(t, filepath.Join("..", filepath.Base(outside), "app.schema.json"), path) }, "is a symbolic link that leads out"},
		{"an absolute link", func(path string) { link(t, filepath.Join(outside, "app.schema.json"), path) }, "is a symbolic link that leads out"},
		{"a link to nothing", func(path string) { link(t, "nowhere", path) }, "cannot be read: "},
		{"a link to itself", func(path string) { link(t, filepath.Base(path), path) }, "cannot be read: "},
		{"a link to a directory", func(path string) { link(t, ".", path) }, "is no regular file"},
		{"a pipe", func(path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is no regular file"},
		{"a huge file", func(path string) {
			if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "has more than 921600 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(filepath.Dir(outside), "kinds-"+filepath.Base(outside))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			tt.make(filepath.Join(dir, "bad.schema.json"))
			_, err := kinds.Load(dir)
			if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "bad.schema.json: "+tt.want) {
				t.Errorf("got %v, want bad.schema.json: %s", err, tt.want)
			}
		})
	}
	// A kind that refers to what cannot be read does not get the embedded one in its stead.
	set := mustLoad(t, nil)
	replaced := t.TempDir()
	link(t, "nowhere", filepath.Join(replaced, "app_pool.schema.json"))
	write(t, replaced, map[string]string{"uses": `{"$ref": "app_pool.schema.json"}`})
	set, err := set.Reload(replaced)
	checkLines(t, err, []string{
		"/app_pool.schema.json: cannot be read: .*; the old one stays in force",
		`/uses.schema.json: /$ref: refers to "app_pool.schema.json", which cannot be used; there is no old one, so its values are refused`,
	})
	if set.Validate("app_pool", `{"name":"a","size":1}`) != nil || set.Validate("uses", `{"name":"a","size":1}`) == nil {
		t.Error("want app_pool as it was, and uses refused")
	}
	// A name that would be taken for something else, and what is left alone.
	for _, name := range []string{"x-bellpull", "=body", "=x"} {
		if _, err := load(t, map[string]string{name + ".schema.json": `{}`}); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.schema.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if set, err := kinds.Load(dir); err != nil || slices.Contains(set.Names(), "folder") {
		t.Errorf("a folder: got %v, want it left alone", err)
	}
}
