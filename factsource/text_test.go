package factsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

// factOf makes the fact of a node with one entry v of this JSON value; nil if it
// is no value.
func factOf(t testing.TB, value string) []byte {
	t.Helper()
	v, err := schemas.ParseValue([]byte(value))
	if err != nil {
		return nil
	}
	s := newStore()
	s.scopes[common] = schemas.ScopeReading{Revision: 1, Document: schemas.Document{Entries: map[string]schemas.Entry{"v": {Value: v}}}}
	cfg := factsource.Config{Store: s, Scopes: []schemas.Scope{common}, State: []string{"*"}}
	return factsource.New(cfg).Collect(context.Background()).Fact
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"0", "0"}, {"-7", "-7"}, {"1.50", "1.50"}, {"0.1", "0.1"}, {"123456789012345678901234567890", "123456789012345678901234567890"},
		{"1e3", "1000.0"}, {"1E+3", "1000.0"}, {"1.5e3", "1500.0"}, {"1.2345e2", "123.45"}, {"12e-1", "1.2"}, {"-1e-7", "-0.0000001"},
		{"1e21", "1" + strings.Repeat("0", 21) + ".0"}, {"0e999999999999", "0.0"}, {"-0.00e5", "-0.0"}, {"0.00012e4", "1.2"}, {"10e-1", "1.0"},
		{"1e308", "1" + strings.Repeat("0", 308) + ".0"},
	} {
		got := string(factOf(t, tt.value))
		if !strings.Contains(got, `"state": {"v": `+tt.want+`}`) {
			t.Errorf("%s: fact = %s, want the number %s", tt.value, got, tt.want)
		}
	}
}

func TestStringsAreEscapedForYAML(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{`"plain"`, `"plain"`}, {`"\"\\\/"`, `"\"\\/"`}, {`"\b\f\n\r\t"`, `"\u0008\u000c\n\r\t"`}, {`"\u0001\u001f\u007f\u0085\u009f"`, `"\u0001\u001f\u007f\u0085\u009f"`},
		{`"\u2028\u2029"`, `"\u2028\u2029"`}, {`"\ufeff\ufffe\uffff\ufdd0\ufdef"`, `"\ufeff\ufffe\uffff\ufdd0\ufdef"`},
		{`"\u00a0\u2027\u202a\ufffd\ud83d\ude00"`, "\"\u00a0\u2027\u202a\ufffd\U0001F600\""},
	} {
		if got := string(factOf(t, tt.value)); !strings.Contains(got, `"state": {"v": `+tt.want+`}`) {
			t.Errorf("%s: fact = %s, want the string %s", tt.value, got, tt.want)
		}
	}
}

func TestWhatFacterCannotReadIsLeftOut(t *testing.T) {
	for name, value := range map[string]string{
		"merge key":        `{"a": {"<<": {"b": 1}}}`,
		"long key":         `{"` + strings.Repeat("k", 1001) + `": 1}`,
		"long escaped key": `{"` + strings.Repeat(`\u0085`, 200) + `": 1}`,
		"long string":      `["` + strings.Repeat("x", 4097) + `"]`,
		"huge number":      `1e309`,
		"huge exponent":    `1e999999999999`,
		"null character":   `["a\u0000"]`,
		"null in a key":    `{"\u0000": 1}`,
		"tiny exponent":    `1e-999999999999`,
		"huge fraction":    "1" + strings.Repeat("0", 400) + ".5",
	} {
		fact := decode(t, factOf(t, value))
		t.Log(name)
		want(t, fact, map[string]string{"state": "{}", "truncated": `["v"]`, "source": `"live"`})
	}
	for name, value := range map[string]string{
		"key":    `{"` + strings.Repeat("k", 998) + `": 1}`,
		"string": `["` + strings.Repeat("x", 4096) + `"]`,
	} {
		t.Log(name)
		want(t, decode(t, factOf(t, value)), map[string]string{"truncated": ""})
	}
}

// FuzzFact holds that a YAML reader and a JSON reader get what was stored.
func FuzzFact(f *testing.F) {
	for _, seed := range []string{
		`{"a": [1, 2.5, -3e-2, true, null, "x"], "b": {}}`, `"\u0000\u001f\u007f\u0080\u0085\u009f\u00a0\u2028\u2029\ufeff\ufffe\uffff\ufdd0"`,
		`"😀\ud83d\ude00 é # : - , [ ] { } & * ! | > ' \" % @ \\ \/ ~ <<"`, `{"": "", "yes": "no", "2026-12-01": "2026-12-01", "0x10": "010"}`,
		`" leading and trailing "`, `"line\nbreak\r\n\ttab"`, `{"%{x}": "%{lookup('y')}", ":sym": ":sym", "1": "1:30"}`, `[[[]], {"a": {"b": []}}]`,
		`"--- \n...\n"`, `1e5`, `-0`, `-0.0`, `"\ud7ff\ue000\U0010ffff"`, `"𐀀🿾"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text := factOf(t, value)
		if text == nil {
			return
		}
		if !utf8.Valid(text) || len(text) > factsource.MaxFact {
			t.Fatalf("the output is no text of %d bytes: %q", factsource.MaxFact, text)
		}
		fact := decode(t, text)
		if fact["truncated"] != nil {
			return
		}
		var stored any
		dec := json.NewDecoder(strings.NewReader(value))
		dec.UseNumber()
		if err := dec.Decode(&stored); err != nil {
			t.Fatalf("decode %q: %v", value, err)
		}
		if err := equal(stored, fact["state"].(map[string]any)["v"]); err != nil {
			t.Errorf("%s as JSON: %v", text, err)
		}
		var doc yaml.Node
		if err := yaml.Load(text, &doc); err != nil {
			t.Fatalf("%s is no YAML: %v", text, err)
		}
		read, err := plain(doc.Content[0])
		if err != nil {
			t.Fatalf("%s as YAML: %v", text, err)
		}
		state := read.(map[string]any)["bellpull"].(map[string]any)["state"].(map[string]any)
		if err := equal(stored, state["v"]); err != nil {
			t.Errorf("%s as YAML: %v", text, err)
		}
	})
}

// plain turns a YAML tree into what encoding/json makes of the same text. Quoted
// scalars are strings; others must be what YAML 1.1 reads as number, boolean or null.
func plain(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			key, err := plain(n.Content[i])
			name, ok := key.(string)
			if err != nil || !ok {
				return nil, fmt.Errorf("key %v is no string: %v", key, err)
			}
			if out[name], err = plain(n.Content[i+1]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			v, err := plain(item)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.ScalarNode:
		switch {
		case n.Style&yaml.DoubleQuotedStyle != 0:
			return n.Value, nil
		case n.Value == "null":
			return nil, nil
		case n.Value == "true", n.Value == "false":
			return n.Value == "true", nil
		case strings.ContainsAny(n.Value, "eE"):
			return nil, fmt.Errorf("%s is a string in YAML 1.1", n.Value)
		}
		return json.Number(n.Value), nil
	}
	return nil, fmt.Errorf("unexpected node %v", n.Kind)
}

// equal compares two trees; numbers by value.
func equal(a, b any) error {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return fmt.Errorf("%v is not %v", b, a)
		}
		for k, v := range a {
			if err := equal(v, m[k]); err != nil {
				return fmt.Errorf("%q: %w", k, err)
			}
		}
	case []any:
		l, ok := b.([]any)
		if !ok || len(a) != len(l) {
			return fmt.Errorf("%v is not %v", b, a)
		}
		for i := range a {
			if err := equal(a[i], l[i]); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case json.Number:
		n, ok := b.(json.Number)
		if !ok || exact(a).Cmp(exact(n)) != 0 {
			return fmt.Errorf("%v is not the number %v", b, a)
		}
	default:
		if a != b {
			return fmt.Errorf("%q is not %q", b, a)
		}
	}
	return nil
}

// exact is the number's value; one whose exponent big.Rat would not take is zero.
func exact(n json.Number) *big.Rat {
	if r, ok := new(big.Rat).SetString(string(n)); ok {
		return r
	}
	return new(big.Rat)
}
