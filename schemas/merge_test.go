package schemas_test

import (
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

// layer makes a layer from pairs of entry name and value.
func layer(scope string, revision uint64, pairs ...string) schemas.Layer {
	doc := schemas.Document{Entries: map[string]schemas.Entry{}}
	for i := 0; i < len(pairs); i += 2 {
		doc.Entries[pairs[i]] = schemas.Entry{Value: schemas.Value(pairs[i+1])}
	}
	return schemas.Layer{Scope: schemas.Scope(scope), Revision: revision, Document: doc}
}

func with(l schemas.Layer, name string, change func(*schemas.Entry)) schemas.Layer {
	e := l.Document.Entries[name]
	change(&e)
	l.Document.Entries[name] = e
	return l
}

func secret(e *schemas.Entry) { e.Sensitive = true }

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name   string
		layers []schemas.Layer
		values map[string]string // "!" before the value: sensitive
		clash  map[string]string
	}{
		{"most specific scope wins whole",
			[]schemas.Layer{layer("node/a", 1, "x", `{"p":1}`), layer("common", 2, "x", `{"q":2}`, "y", "3")},
			map[string]string{"x": `{"p":1}`, "y": "3"}, nil},
		{"null, false, empty and zero are values", // HIERA-01
			[]schemas.Layer{layer("node/a", 1, "n", "null", "f", "false", "e", `""`, "z", "0", "l", "[]", "h", "{}"),
				layer("common", 2, "n", "1", "f", "1", "e", "1", "z", "1", "l", "1", "h", "1")},
			map[string]string{"n": "null", "f": "false", "e": `""`, "z": "0", "l": "[]", "h": "{}"}, nil},
		{"members gather and merge by member",
			[]schemas.Layer{layer("node/a", 1, "r[b]", "1"), layer("common", 2, "r[b]", "2", "r[a]", "3")},
			map[string]string{"r": `{"a":3,"b":1}`}, nil},
		{"a plain hash counts as its members, on either side",
			[]schemas.Layer{layer("node/a", 1, "r", `{"a":1,"b":1}`), layer("group/g", 2, "r[b]", "2", "r[c]", "2"), layer("common", 3, "r", `{"c":3,"d":3}`)},
			map[string]string{"r": `{"a":1,"b":1,"c":2,"d":3}`}, nil},
		{"an empty hash beside members",
			[]schemas.Layer{layer("node/a", 1, "r", `{}`), layer("common", 2, "r[b]", "2")},
			map[string]string{"r": `{"b":2}`}, nil},
		{"a plain value that is no hash",
			[]schemas.Layer{layer("node/a", 1, "r", `[1]`), layer("common", 2, "r[b]", "2", "y", "1")},
			map[string]string{"y": "1"}, map[string]string{"r": "node/a holds a value that is no hash, while common holds members of it"}},
		{"a plain value below that is sensitive",
			[]schemas.Layer{layer("node/a", 1, "r[b]", "2"), with(layer("common", 2, "r", `{}`), "r", secret)},
			map[string]string{}, map[string]string{"r": "common holds a sensitive value, while node/a holds members of it"}},
		{"a sensitive member makes the hash sensitive",
			[]schemas.Layer{with(layer("node/a", 1, "r[b]", "2", "r[c]", "1"), "r[b]", secret)},
			map[string]string{"r": `!{"b":2,"c":1}`}, nil},
		{"a sensitive member that is not the winner does not",
			[]schemas.Layer{layer("node/a", 1, "r[b]", "1"), with(layer("common", 2, "r[b]", "2"), "r[b]", secret)},
			map[string]string{"r": `{"b":1}`}, nil},
		{"a sensitive winner hides, a sensitive loser does not",
			[]schemas.Layer{with(layer("node/a", 1, "x", "1", "y", "1"), "x", secret), with(layer("common", 2, "x", "2", "y", "2"), "y", secret)},
			map[string]string{"x": "!1", "y": "1"}, nil},
		{"an expired entry is not there",
			[]schemas.Layer{with(layer("node/a", 1, "x", "1"), "x", func(e *schemas.Entry) { e.Expires = noon }), layer("common", 2, "x", "2")},
			map[string]string{"x": "2"}, nil},
		{"odd member names",
			[]schemas.Layer{layer("node/a", 1, `r[a]b]`, "1", `r[[x]`, "2", `r["é"]`, "3", "s[", "4", "[t]", "5")},
			map[string]string{"r": `{"\"é\"":3,"[x":2,"a]b":1}`, "s[": "4", "[t]": "5"}, nil},
		{"nothing", nil, map[string]string{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := schemas.Merge(test.layers, noon)
			for key, v := range got.Values {
				text := string(v.Value)
				if v.Sensitive {
					text = "!" + text
				}
				if want, ok := test.values[key]; !ok || text != want {
					t.Errorf("%s = %s, want %s", key, text, want)
				}
			}
			for key, want := range test.values {
				if _, ok := got.Values[key]; !ok {
					t.Errorf("%s is missing, want %s", key, want)
				}
			}
			if len(got.Invalid) != len(test.clash) {
				t.Errorf("invalid = %v, want %v", got.Invalid, test.clash)
			}
			for key, want := range test.clash {
				if clash := got.Invalid[key]; clash.Error() != want {
					t.Errorf("clash of %s = %q, want %q", key, clash.Error(), want)
				}
			}
		})
	}
}

func TestMergeTellsOrigins(t *testing.T) {
	got := schemas.Merge([]schemas.Layer{layer("node/a", 7, "r[b]", "1"), layer("common", 9, "r", `{"a":2}`, "x", "1")}, noon)
	want := []schemas.Origin{
		{Scope: "common", Revision: 9, Entry: "r", Member: "a"},
		{Scope: "node/a", Revision: 7, Entry: "r[b]", Member: "b"},
	}
	if origin := got.Values["r"].Origin; len(origin) != 2 || origin[0] != want[0] || origin[1] != want[1] {
		t.Errorf("origin of r = %v, want %v", origin, want)
	}
	if origin := got.Values["x"].Origin; len(origin) != 1 || origin[0] != (schemas.Origin{Scope: "common", Revision: 9, Entry: "x"}) {
		t.Errorf("origin of x = %v", origin)
	}
}

func TestDigestsCountDataOnly(t *testing.T) {
	one, other := schemas.NewDigester([32]byte{1}), schemas.NewDigester([32]byte{2})
	base := schemas.Entry{Value: "1"}
	same := schemas.Entry{Value: "1", Kind: "k", Event: "e", Source: "s", Time: noon, Expires: noon, Owner: "o", Run: schemas.RunPolicy{Noop: true}}
	if one.Entry(base) != one.Entry(same) {
		t.Error("event, time or expiry change the digest")
	}
	for name, e := range map[string]schemas.Entry{"value": {Value: "1.0"}, "sensitive": {Value: "1", Sensitive: true}} {
		if one.Entry(base) == one.Entry(e) {
			t.Errorf("another %s has the same digest", name)
		}
	}
	if one.Entry(base) == other.Entry(base) {
		t.Error("another node's key gives the same digest")
	}
	doc := schemas.Document{Entries: map[string]schemas.Entry{"a": base, "gone": {Value: "1", Expires: noon}}}
	if got := one.Entries(doc, noon); len(got) != 1 || got["a"] != one.Entry(base) {
		t.Errorf("digests of a document = %v, want those of live entries", got)
	}
}

func TestRecords(t *testing.T) {
	shown := `{"bucket":"b","run":"r1","pid":7,"time":"2026-12-01T12:00:00Z","scopes":{"common":{"revision":4,"live":true,"entries":{"x":"h1:a"}}}}`
	record, err := schemas.ParseShown([]byte(shown))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := record.Marshal(); err != nil || string(body) != shown {
		t.Errorf("shown reads back as %s, %v", body, err)
	}
	applied := `{"bucket":"b","time":"2026-12-01T12:00:00Z","scopes":{"common":{"revision":4,"entries":{"x":"h1:a"},"previewed":{"y":"h1:b"}}}}`
	if record, err := schemas.ParseApplied([]byte(applied)); err != nil {
		t.Error(err)
	} else if body, err := record.Marshal(); err != nil || string(body) != applied {
		t.Errorf("applied reads back as %s, %v", body, err)
	}
	compiled, err := schemas.ParseCompiled([]byte(`{"common":{"bucket":"b","revision":4,"until":"2026-12-01T12:00:00Z"},"node/a":{"bucket":"b","revision":0,"until":null}}`))
	if err != nil || !compiled["common"].Until.Equal(noon) || !compiled["node/a"].Until.IsZero() {
		t.Errorf("compiled = %v, %v", compiled, err)
	}
	for _, body := range []string{"", "\x00\x00", `{"bucket":7}`, `[]`, shown[:50]} {
		if _, err := schemas.ParseShown([]byte(body)); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("ParseShown(%q): %v, want damaged", body, err)
		}
	}
}
