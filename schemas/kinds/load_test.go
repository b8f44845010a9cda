package kinds_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

func TestDirectoryOfKinds(t *testing.T) {
	set := mustLoad(t, map[string]string{
		"size.schema.json":          `{"$ref": "common.schema.json#/$defs/small"}`,
		"common.schema.json":        `{"$id": "https://example.com/common", "$defs": {"small": {"maximum": 5}}}`,
		"byid.schema.json":          `{"$ref": "https://example.com/common#/$defs/small"}`,
		"seven.schema.json":         `{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"const": 7}}, "$ref": "#/definitions/a"}`,
		"embedded.schema.json":      `{"$ref": "app_pool.schema.json"}`,
		"firewall_rule.schema.json": `{"type": "string"}`,
		"README.md":                 "no schema",
		".hidden.schema.json":       "no schema",
	})
	want := []string{"app_pool", "blocked_address", "byid", "common", "embedded", "firewall_rule", "seven", "size"}
	if got := set.Names(); !slices.Equal(got, want) {
		t.Errorf("names: got %q, want %q", got, want)
	}
	for _, tt := range []struct {
		kind, value string
		want        []string
	}{
		{"size", `5`, nil},
		{"size", `6`, []string{": must be at most 5"}},
		{"byid", `6`, []string{": must be at most 5"}},
		{"seven", `8`, []string{": must be 7"}},
		{"embedded", `{"name": "a"}`, []string{"/size: is missing"}},
		{"firewall_rule", `"replaced"`, nil},
	} {
		if got := faults(t, set.Validate(tt.kind, value(t, tt.value))); !slices.Equal(got, tt.want) {
			t.Errorf("%s of %s: got %q, want %q", tt.kind, tt.value, got, tt.want)
		}
	}
	if set.Warnings() != nil {
		t.Errorf("warnings: got %q, want none", set.Warnings())
	}
}

// SCHEMA-05 and its like: what cannot be used is refused when it is loaded, with file and place, and nothing panics.
func TestBadSchemas(t *testing.T) {
	const lookahead = `^(?!aws:.*)[a-zA-Z0-9_.-]+$`
	for _, tt := range []struct {
		name, schema string
		want         []string // in the error's text
	}{
		{"look-ahead", `{"properties": {"name": {"type": "string", "pattern": "` + lookahead + `"}}}`,
			[]string{"/properties/name/pattern: pattern \"" + lookahead + "\" cannot be used", "(?!"}},
		{"broken escape", `{"type": "string", "pattern": "\\u"}`, []string{`/pattern: pattern "\\u" cannot be used`, "invalid escape"}},
		{"pattern as a name", `{"patternProperties": {"(?=a)": true}}`, []string{"/patternProperties/(?=a): ", `pattern "(?=a)" cannot be used`}},
		{"pattern in draft 7", `{"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(?!a)"}`, []string{"/pattern: pattern"}},
		{"pattern where no schema is expected", `{"$ref": "#/x/y", "x": {"y": {"pattern": "(?!a)"}}}`, []string{"(?!a)"}},
		{"immense number", `{"enum": [1, 1e999999999]}`, []string{"/enum/1: a number of this size"}},
		{"unknown type", `{"properties": {"a": {"type": "strng"}}}`, []string{"/properties/a/type: "}},
		{"a number for a schema", `{"properties": {"a": 1}}`, []string{"/properties/a: "}},
		{"no object", `[]`, []string{"must be an object"}},
		{"no JSON", `{`, []string{"ends in the middle"}},
		{"empty", ``, []string{"is empty"}},
		{"twice", `{"type": "string", "type": "object"}`, []string{"/type: stands twice"}},
		{"unknown draft", `{"$schema": "https://example.com/draft"}`, []string{"/$schema: is no draft"}},
		{"empty draft", `{"$schema": ""}`, []string{"/$schema: is no draft"}},
		{"draft of another type", `{"$schema": 4}`, []string{"/$schema: is no draft"}},
		{"http", `{"properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}}`,
			[]string{"/properties/a/$ref: ", `refers to "http://127.0.0.1:1/x.json", which is neither embedded nor in the directory`}},
		{"file", `{"$ref": "file:///etc/hostname"}`, []string{"/$ref: ", "neither embedded nor"}},
		{"parent", `{"$ref": "../x.schema.json"}`, []string{"/$ref: ", "neither embedded nor"}},
		{"absolute", `{"$ref": "/etc/hostname"}`, []string{"/$ref: ", "neither embedded nor"}},
		{"no such definition", `{"items": {"$ref": "#/$defs/nope"}}`, []string{`/items/$ref: refers to "#/$defs/nope", which is not there`}},
		{"no such anchor", `{"items": {"$ref": "#nope"}}`, []string{"#nope"}},
		{"below a nested id", `{"items": {"$id": "https://example.com/a", "$ref": "b"}}`, []string{"https://example.com/b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, map[string]string{"bad.schema.json": tt.schema, "good.schema.json": `{"$ref": "bad.schema.json"}`})
			if !errors.Is(err, schemas.ErrInvalid) {
				t.Fatalf("got %v, want an error that is ErrInvalid", err)
			}
			for _, want := range append(tt.want, string(filepath.Separator)+"bad.schema.json: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := kinds.Load(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: got %v, want fs.ErrNotExist", err)
	}
	for _, name := range []string{"document.schema.json", "event.schema.json"} {
		if _, err := load(t, map[string]string{name: `{}`}); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// Whatever stands in a file of a directory, loading it ends with kinds or with an error.
func FuzzLoad(f *testing.F) {
	for _, schema := range []string{
		`{"$ref": "#/x/y", "x": {"y": {"pattern": "(?!a)"}}}`, `{"$id": "urn:a", "$ref": "b"}`, `{"$ref": "#/properties/a", "properties": {"a": 1}}`,
		`{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}`, `{"$schema": "http://json-schema.org/draft-04/schema", "id": "x#"}`,
		`{"$ref": "bad.schema.json"}`, `{"minimum": 1e999999999, "enum": [1]}`, `{"$anchor": "a", "$ref": "#a"}`, `{"enum": [1e999999999]}`,
	} {
		f.Add(schema)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		set, err := load(t, map[string]string{"bad.schema.json": schema})
		if err != nil {
			faults(t, err) // fails unless it is ErrInvalid
			return
		}
		for _, v := range []schemas.Value{`null`, `1`, `"a"`, `[1]`, `{"a": 1}`} {
			if err := set.Validate("bad", v); err != nil {
				faults(t, err)
			}
		}
	})
}
