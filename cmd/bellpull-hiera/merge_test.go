package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// mergeScopes is the hierarchy of a site's node.
func mergeScopes() []schemas.Scope {
	return []schemas.Scope{"node/web1.example.com", "group/web", "common"}
}

// Puppet's Hiera and schemas.Merge give the same answer to every key of generated
// documents: keys with members, plain values, hashes, secrets, what has expired,
// and what cannot be merged.
func TestPuppetMergesAsSchemasDo(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	layers, bodies := generate(t, rand.New(rand.NewPCG(seed, 0)))
	for i, scope := range mergeScopes() {
		s.set(t, string(scope), bodies[i])
	}
	s.sync(t)

	merged := schemas.Merge(layers, time.Now())
	options := map[string]any{}
	var keys []string
	for n := range mergeKeys {
		keys = append(keys, keyName(n))
	}
	for _, layer := range layers {
		for name := range layer.Document.Live(time.Now()) {
			key, _, isMember := schemas.SplitName(name)
			if !isMember {
				continue
			}
			// What the operator has to set: hash, or deep where members are secret, since
			// Puppet's hash merge takes no Sensitive.
			options[key] = map[string]string{"merge": "hash"}
			if secretMembers(key) {
				options[key] = map[string]string{"merge": "deep"}
			}
		}
	}
	data, err := json.Marshal(map[string]any{"lookup_options": options})
	if err != nil {
		t.Fatal(err)
	}
	s.write("code/environments/production/data/common.yaml", string(data)) // JSON is YAML
	answers, _ := s.answers(keys...)

	kinds := map[string]int{}
	for _, key := range keys {
		got := answers[key]
		if clash, ok := merged.Invalid[key]; ok {
			kinds["clash"]++
			if got.Error == "" {
				t.Errorf("%s: got %s, want an error, as %v", key, got.text(), clash)
			}
			continue
		}
		want, ok := merged.Values[key]
		switch {
		case !ok:
			kinds["missing"]++
			if got.text() != "not found" {
				t.Errorf("%s: got %s, want nothing", key, got.text())
			}
			continue
		case want.Sensitive:
			kinds["sensitive"]++
		default:
			kinds["value"]++
		}
		if got.Error != "" || got.Value == nil {
			t.Errorf("%s: got %s, want %s", key, got.text(), want.Value)
			continue
		}
		plain, secret := unwrap(parse(t, string(got.Value)))
		if !reflect.DeepEqual(plain, parse(t, string(want.Value))) {
			t.Errorf("%s: got %s, want %s", key, got.text(), want.Value)
		}
		if secret != want.Sensitive {
			t.Errorf("%s: got sensitive %v in %s, want %v", key, secret, got.text(), want.Sensitive)
		}
	}
	for _, kind := range []string{"clash", "missing", "sensitive", "value"} {
		if kinds[kind] == 0 {
			t.Errorf("the documents hold no key of the kind %s: %v", kind, kinds)
		}
	}
}

const mergeKeys = 200

func keyName(n int) string { return fmt.Sprintf("app%d::key", n) }

// secretMembers tells the keys of which members may be secret: every fourth.
func secretMembers(key string) bool {
	var n int
	_, err := fmt.Sscanf(key, "app%d::key", &n)
	return err == nil && n%4 == 0
}

// generate makes a document for each of the scopes.
func generate(t *testing.T, r *rand.Rand) (layers []schemas.Layer, bodies []string) {
	t.Helper()
	scalars := []string{`false`, `""`, `0`, `1`, `"text"`, `"%{x}"`}
	values := append(slices.Clone(scalars), `null`, `[]`, `[1,{"a":2}]`, `{}`, `{"a":1}`, `{"a":{"x":1},"b":[2]}`, `{"%{y}":"%{z}","c":null}`)
	entry := func(values []string, secret bool) string {
		text := `{"value":` + values[r.IntN(len(values))]
		if secret && r.IntN(4) == 0 {
			text += `,"sensitive":true`
		}
		switch r.IntN(8) {
		case 0:
			text += `,"expires":"2001-01-01T00:00:00Z"`
		case 1:
			text += `,"expires":"2999-01-01T00:00:00Z"`
		}
		return text + "}"
	}
	for _, scope := range mergeScopes() {
		var entries []string
		for n := range mergeKeys {
			name := keyName(n)
			of, kind := values, r.IntN(4)
			if secretMembers(name) {
				of, kind = scalars, 2+r.IntN(2) // deep merges inside values, lets null lose and a plain value win
			}
			switch {
			case kind == 1:
				entries = append(entries, fmt.Sprintf("%q:%s", name, entry(values, true)))
			case kind == 2:
				for _, member := range []string{"a", "b", "%{y}", "d[e]"} {
					if r.IntN(2) == 0 {
						entries = append(entries, fmt.Sprintf("%q:%s", schemas.JoinName(name, member), entry(of, secretMembers(name))))
					}
				}
			}
		}
		body := "{" + strings.Join(entries, ",") + "}"
		document, err := schemas.ParseDocument([]byte(`{"bellpull":1,"entries":` + body + `}`))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, schemas.Layer{Scope: scope, Document: document})
		bodies = append(bodies, body)
	}
	return layers, bodies
}

func parse(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return v
}

// unwrap takes the wrapping off a value's secrets, and tells whether there are any.
func unwrap(v any) (plain any, secret bool) {
	switch v := v.(type) {
	case map[string]any:
		if inner, ok := v["Sensitive"]; ok && len(v) == 1 {
			return inner, true
		}
		out := map[string]any{}
		for name, member := range v {
			p, s := unwrap(member)
			out[name], secret = p, secret || s
		}
		return out, secret
	case []any:
		out := slices.Clone(v)
		for i := range out {
			p, s := unwrap(out[i])
			out[i], secret = p, secret || s
		}
		return out, secret
	}
	return v, false
}
