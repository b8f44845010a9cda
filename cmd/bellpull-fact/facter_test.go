package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// facter runs the real facter with the program as its only external fact.
func (n *node) facter() (fact map[string]any, stderr string) {
	n.t.Helper()
	dir := filepath.Join(n.dir, "facts d") // Facter quotes a path with a blank
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Link(n.program, filepath.Join(dir, "bellpull-fact")); err != nil && !os.IsExist(err) {
		n.t.Fatal(err)
	}
	cmd := exec.Command("facter", "--external-dir", dir, "-j", "bellpull")
	cmd.Env = n.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		n.t.Logf("facter: %v: %s", err, errs.String()) // facter has troubles of its own in a sandbox
	}
	var got map[string]any
	dec := json.NewDecoder(strings.NewReader(string(out)))
	dec.UseNumber()
	if err := dec.Decode(&got); err != nil {
		n.t.Fatalf("facter's output: %v: %s%s", err, out, errs.String())
	}
	fact, ok := got["bellpull"].(map[string]any)
	if !ok {
		n.t.Fatalf("facter has no fact bellpull: %s%s", out, errs.String())
	}
	return fact, errs.String()
}

// Every value arrives in Facter as it was stored; floats as the nearest double.
func TestFacterReadsWhatWasStored(t *testing.T) {
	tools.Need(t, "facter")
	srv := natstest.Start(t)
	bucket := natstest.Bucket(t, srv)
	n := newNode(t, srv.URL())

	values := []string{
		`null`, `true`, `false`, `""`, `0`, `-0`, `{}`, `[]`, `[[], {}]`, `123456789012345678901234567890`, `-9007199254740993`,
		`0.1`, `1e3`, `-1.5E-7`, `1e21`, `1.7976931348623157e308`, `5e-324`, `1.0`, `12.50`,
		`"2026-12-01"`, `"2026-12-01 10:00:00"`, `"1:30"`, `"0x10"`, `"010"`, `"1e3"`, `"~"`, `"null"`, `"yes"`, `"off"`, `":symbol"`, `"<<"`, `"=x"`, `"---"`,
		`"%{lookup('x')}"`, `" leading and trailing "`, `"a: b # c"`, `"line\nbreak\r\n\ttab"`, `"quote \" backslash \\ slash \/"`,
		`"\u0001\u001f\u007f\u0080\u0085\u009f\u00a0\u2028\u2029\ufeff\ufffe\uffff\ufdd0"`, `"😀\ud83d\ude00\ud83f\udffeé"`,
		`{"": "", "a b": 1, "yes": 2, "1": 3, "2026-12-01": 4, ":s": 5, "\u0085\u2028": 6, "UPPER": 7, "a.b": 8, "😀": 9, "null": 10, "~": 11}`,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		values = append(values, quoted(t, randomText(random)))
	}
	var entries []string
	for i, value := range values {
		entries = append(entries, fmt.Sprintf(`"v%03d": {"value": %s}`, i, value))
	}
	// Facter 4.10 and later give a whole fact up for one null character in it.
	entries = append(entries, `"null_character": {"value": {"a": ["x\u0000y"]}}`)
	put(t, bucket, 0, "{"+strings.Join(entries, ",")+"}")
	fact, stderr := n.facter()
	if strings.Contains(stderr, "WARN") {
		t.Errorf("facter warns: %s", stderr)
	}
	state := fact["state"].(map[string]any)
	if len(state) != len(values) || fact["source"] != "live" {
		t.Errorf("source %v with %d keys of %d; truncated: %v", fact["source"], len(state), len(values), fact["truncated"])
	}
	if got := fmt.Sprint(fact["truncated"]); got != "[null_character]" {
		t.Errorf("truncated: got %s, want what no fact can hold", got)
	}
	for i, value := range values {
		var want any
		dec := json.NewDecoder(strings.NewReader(value))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if got := state[fmt.Sprintf("v%03d", i)]; !reflect.DeepEqual(doubles(got), doubles(want)) {
			t.Errorf("%s arrives as %#v", value, got)
		}
	}
}

// randomText is made of what readers stumble over.
func randomText(random *rand.Rand) string {
	ranges := [][2]rune{{1, 0x20}, {0x20, 0x7e}, {0x7f, 0xa0}, {0x2020, 0x2030}, {0xd7f0, 0xd7ff}, {0xe000, 0xe00f}, {0xfdd0, 0xfdef}, {0xfef8, 0xfeff}, {0xfff0, 0xffff}, {0x10000, 0x1000f}, {0x1fff0, 0x1ffff}, {0x10fff0, 0x10ffff}}
	var b strings.Builder
	for range random.IntN(20) {
		r := ranges[random.IntN(len(ranges))]
		b.WriteRune(r[0] + random.Int32N(r[1]-r[0]+1))
	}
	return b.String()
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// doubles turns numbers that are no integers into float64, as Facter does.
func doubles(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			f, _ := v.Float64()
			return f
		}
		if v == "-0" {
			return json.Number("0")
		}
	case map[string]any:
		for k, member := range v {
			v[k] = doubles(member)
		}
	case []any:
		for i, element := range v {
			v[i] = doubles(element)
		}
	}
	return v
}

// FACT-01 and FACT-04 through Facter: no warning when healthy, one when NATS is
// away, and the fact's name is there in any case.
func TestFacterHasTheFactInAnyCase(t *testing.T) {
	tools.Need(t, "facter")
	srv := natstest.Start(t)
	put(t, natstest.Bucket(t, srv), 0, `{"x": {"value": 1}}`)
	n := newNode(t, srv.URL())

	fact, stderr := n.facter()
	if fact["source"] != "live" || strings.Contains(stderr, "WARN") {
		t.Errorf("healthy: %v, %s", fact, stderr)
	}
	srv.Stop()
	fact, stderr = n.facter()
	if fact["source"] != "last-good" || strings.Count(stderr, "WARN") != 1 {
		t.Errorf("NATS is away: %v, %s", fact, stderr)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "state")); err != nil {
		t.Fatal(err)
	}
	fact, stderr = n.facter()
	if _, there := fact["state"]; fact["source"] != "none" || there || fact["reason"] == "" || strings.Count(stderr, "WARN") != 1 {
		t.Errorf("nothing known: %v, %s", fact, stderr)
	}
}
