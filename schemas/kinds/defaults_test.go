package kinds_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

const ban = `{"title": "Ban", "description": "An address to be banned.", "type": "string",
	"x-bellpull": {"ttl": "20m", "run": {"trigger": "next", "splay": "5m", "tags": ["firewall"], "noop": true},
		"sensitive": true, "scopes": ["common", "group/*", "node/**"]}}`

func banDefaults() kinds.Defaults {
	return kinds.Defaults{
		TTL: 20 * time.Minute, Sensitive: true, Scopes: []string{"common", "group/*", "node/**"},
		Run: schemas.RunPolicy{Trigger: schemas.TriggerNext, Splay: 5 * time.Minute, Tags: []string{"firewall"}, Noop: true},
	}
}

func TestKindCompletesEvents(t *testing.T) {
	set := mustLoad(t, map[string]string{
		"ban.schema.json": ban, "free.schema.json": `{"type": "string"}`, "heir.schema.json": `{"$ref": "ban.schema.json"}`,
		"open.schema.json": `{"x-bellpull": {}}`, "calm.schema.json": `{"x-bellpull": {"run": {"noop": true}}}`,
	})
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	full := banDefaults()
	for _, tt := range []struct {
		name     string
		in, want schemas.Event
	}{
		{"everything is filled in", schemas.Event{Kind: "ban", Scope: "common", Value: `"a"`},
			schemas.Event{Kind: "ban", Scope: "common", Value: `"a"`, TTL: full.TTL, Run: full.Run, Sensitive: true}},
		{"a ttl of its own", schemas.Event{Kind: "ban", Scope: "group/web", Value: `"a"`, TTL: time.Hour},
			schemas.Event{Kind: "ban", Scope: "group/web", Value: `"a"`, TTL: time.Hour, Run: full.Run, Sensitive: true}},
		{"a moment of expiry", schemas.Event{Kind: "ban", Scope: "node/a/b", Value: `"a"`, Expires: at},
			schemas.Event{Kind: "ban", Scope: "node/a/b", Value: `"a"`, Expires: at, Run: full.Run, Sensitive: true}},
		{"a run policy is taken whole", schemas.Event{Kind: "ban", Scope: "node/a", Value: `"a"`, Run: schemas.RunPolicy{Trigger: schemas.TriggerNow}},
			schemas.Event{Kind: "ban", Scope: "node/a", Value: `"a"`, TTL: full.TTL, Run: schemas.RunPolicy{Trigger: schemas.TriggerNow}, Sensitive: true}},
		{"nothing said", schemas.Event{Kind: "free", Scope: "any/where", Value: `"a"`, Sensitive: true},
			schemas.Event{Kind: "free", Scope: "any/where", Value: `"a"`, Sensitive: true}},
		{"nothing in it", schemas.Event{Kind: "open", Scope: "any/where", Value: `1`}, schemas.Event{Kind: "open", Scope: "any/where", Value: `1`}},
		{"a part of it", schemas.Event{Kind: "calm", Scope: "common", Value: `1`},
			schemas.Event{Kind: "calm", Scope: "common", Value: `1`, Run: schemas.RunPolicy{Noop: true}}},
		{"they are not inherited", schemas.Event{Kind: "heir", Scope: "any/where", Value: `"a"`}, schemas.Event{Kind: "heir", Scope: "any/where", Value: `"a"`}},
	} {
		got, err := set.Complete(tt.in)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}

	ev, err := set.Complete(schemas.Event{Kind: "ban", Scope: "common", Value: `"a"`})
	if err != nil {
		t.Fatal(err)
	}
	ev.Run.Tags[0] = "changed"
	if again, err := set.Complete(schemas.Event{Kind: "ban", Scope: "common", Value: `"a"`}); err != nil || again.Run.Tags[0] != "firewall" {
		t.Errorf("after a change of the answer: got %q, %v; the set must not change", again.Run.Tags, err)
	}

	for scope, want := range map[schemas.Scope][]string{
		"group/web/eu": {"/scope: group/web/eu is not allowed for kind ban; allowed are common, group/*, node/**"},
		"group":        {"/scope: group is not allowed for kind ban; allowed are common, group/*, node/**"},
		"common/a":     {"/scope: common/a is not allowed for kind ban; allowed are common, group/*, node/**"},
	} {
		got, err := set.Complete(schemas.Event{Kind: "ban", Scope: scope, Value: `"a"`})
		if !slices.Equal(faults(t, err), want) || got.Kind != "" {
			t.Errorf("scope %s: got %+v, %q; want %q", scope, got, faults(t, err), want)
		}
	}
	_, err = set.Complete(schemas.Event{Kind: "ban", Scope: "common", Value: `1`})
	if got, want := faults(t, err), []string{": must be a string, not a number"}; !slices.Equal(got, want) {
		t.Errorf("a bad value: got %q, want %q", got, want)
	}
	if _, err := set.Complete(schemas.Event{Kind: "nonsense", Scope: "common", Value: `1`}); !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("an unknown kind: got %v, want ErrInvalid", err)
	}
}

func TestBadDefaults(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"x-bellpull": 1}`, "/x-bellpull: must be an object, not a number"},
		{`{"x-bellpull": null}`, "/x-bellpull: must be an object, not null"},
		{`{"x-bellpull": {"TTL": "5m"}}`, `/x-bellpull/TTL: is not a known member here; it is spelt "ttl"`},
		{`{"x-bellpull": {"owner": "me"}}`, "/x-bellpull/owner: is not a known member here"},
		{`{"x-bellpull": {"ttl": 5}}`, "/x-bellpull/ttl: must be a string, not a number"},
		{`{"x-bellpull": {"ttl": "5 minutes"}}`, "/x-bellpull/ttl: must be a duration such as 90s, 20m or 1h30m"},
		{`{"x-bellpull": {"ttl": ""}}`, "/x-bellpull/ttl: must be a duration"},
		{`{"x-bellpull": {"ttl": "0s"}}`, "/x-bellpull/ttl: must be a duration"},
		{`{"x-bellpull": {"ttl": "-5m"}}`, "/x-bellpull/ttl: must be a duration"},
		{`{"x-bellpull": {"ttl": "999ms"}}`, "/x-bellpull/ttl: must be at least 1s"},
		{`{"x-bellpull": {"run": {"trigger": "later"}}}`, `/x-bellpull/run/trigger: must be one of "now", "next"`},
		{`{"x-bellpull": {"run": {"splay": "0s"}}}`, "/x-bellpull/run/splay: must be a duration"},
		{`{"x-bellpull": {"run": {"tags": ["a b"]}}}`, "/x-bellpull/run/tags/0: must match"},
		{`{"x-bellpull": {"run": {"tags": [` + strings.Repeat(`"a", `, 32) + `"a"]}}}`, "/x-bellpull/run/tags: must hold at most 32 items"},
		{`{"x-bellpull": {"run": {"noop": "yes"}}}`, "/x-bellpull/run/noop: must be true or false, not a string"},
		{`{"x-bellpull": {"run": {"command": "rm"}}}`, "/x-bellpull/run/command: is not a known member here"},
		{`{"x-bellpull": {"sensitive": false}}`, "/x-bellpull/sensitive: must be true"},
		{`{"x-bellpull": {"sensitive": "true"}}`, "/x-bellpull/sensitive: must be true"},
		{`{"x-bellpull": {"scopes": "group/*"}}`, "/x-bellpull/scopes: must be an array, not a string"},
		{`{"x-bellpull": {"scopes": []}}`, "/x-bellpull/scopes: must hold at least 1 items"},
		{`{"x-bellpull": {"scopes": [1]}}`, "/x-bellpull/scopes/0: must be a string, not a number"},
		{`{"x-bellpull": {"scopes": ["common", "group/[a"]}}`, `/x-bellpull/scopes/1: "group/[a" is no pattern`},
		{`{"x-bellpull": {"scopes": ["group/{a,b"]}}`, `/x-bellpull/scopes/0: "group/{a,b" is no pattern`},
		{`{"x-bellpull": {"scopes": [""]}}`, `/x-bellpull/scopes/0: "" matches no scope`},
		{`{"x-bellpull": {"scopes": ["/group/*"]}}`, `/x-bellpull/scopes/0: "/group/*" matches no scope`},
		{`{"x-bellpull": {"scopes": ["group/"]}}`, `/x-bellpull/scopes/0: "group/" matches no scope`},
		{`{"properties": {"a": {"x-bellpull": {"ttl": "5m"}}}}`, "/properties/a/x-bellpull: belongs at the root of the schema"},
		{`{"$defs": {"a": {"items": {"x-bellpull": {}}}}}`, "/$defs/a/items/x-bellpull: belongs at the root"},
		{`{"allOf": [{"x-bellpull": {}}]}`, "/allOf/0/x-bellpull: belongs at the root"},
		{`{"x": {"y": {"x-bellpull": {}}}, "$ref": "#/x/y"}`, "/x/y/x-bellpull: belongs at the root"},
	} {
		_, err := load(t, map[string]string{"bad.schema.json": tt.schema})
		if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "/bad.schema.json: "+tt.want) {
			t.Errorf("%s: got %v, want bad.schema.json: %s", tt.schema, err, tt.want)
		}
	}
	// A value may have a member of that name: it is no keyword there.
	mustLoad(t, map[string]string{"good.schema.json": `{"properties": {"x-bellpull": {"const": {"x-bellpull": 1}}}, "default": {"x-bellpull": 2}}`})
	// Every fault of every file is told at once.
	_, err := load(t, map[string]string{"a.schema.json": `{"x-bellpull": {"ttl": 1, "sensitive": 2}}`, "b.schema.json": `{"type": 3}`})
	for _, want := range []string{"/a.schema.json: /x-bellpull/sensitive: ", "/x-bellpull/ttl: ", "/b.schema.json: /type: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestKindsAreListed(t *testing.T) {
	set := mustLoad(t, map[string]string{"ban.schema.json": ban, "old.schema.json": `{"$schema": "http://json-schema.org/draft-04/schema#"}`})
	got := set.Kinds()
	if len(got) != 5 || got[0].Name != "app_pool" || got[4].Name != "old" {
		t.Fatalf("got %+v, want 5 kinds by name", got)
	}
	if k := got[0]; k.Title != "Application pool" || k.File != "embedded" || k.Draft != "2020-12" || !k.Defaults.IsZero() || k.Err != nil {
		t.Errorf("app_pool: got %+v", k)
	}
	k := got[1]
	if !strings.HasSuffix(k.File, "/ban.schema.json") || k.Title != "Ban" || k.Description != "An address to be banned." || !reflect.DeepEqual(k.Defaults, banDefaults()) {
		t.Errorf("ban: got %+v, want its file, title, description and %+v", k, banDefaults())
	}
	if got[4].Draft != "4" {
		t.Errorf("old: got draft %q, want 4", got[4].Draft)
	}
	k.Defaults.Scopes[0], k.Defaults.Run.Tags[0] = "changed", "changed"
	if again := set.Kinds()[1].Defaults; !reflect.DeepEqual(again, banDefaults()) {
		t.Errorf("after a change of the answer: got %+v, the set must not change", again)
	}
}

// The example of the manual is one that works.
func TestDocumentedKind(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(manual), "\n## Kinds\n")
	_, schema, _ := strings.Cut(chapter, "```json\n")
	schema, _, _ = strings.Cut(schema, "```")
	set := mustLoad(t, map[string]string{"ban.schema.json": schema})
	got, err := set.Complete(schemas.Event{Kind: "ban", Scope: "group/web", Value: `{"address":"192.0.2.7"}`})
	if err != nil || got.TTL != 20*time.Minute || got.Run.Splay != time.Minute || !got.Sensitive {
		t.Errorf("got %+v, %v; want it completed", got, err)
	}
}
