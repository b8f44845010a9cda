package datadir_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// psych reads YAML texts as Puppet does, and tells each as JSON, or "refused".
func psych(t *testing.T, texts []string) []string {
	t.Helper()
	tools.Need(t, "ruby")
	const script = `
require "yaml"; require "json"
$stdout.sync = true
def plain(x) # what JSON has no word for must not pass as something else
  case x
  when Hash then x.to_h { |k, v| raise "key" unless k.is_a?(String); [k, plain(v)] }
  when Array then x.map { |v| plain(v) }
  when Float then raise "float" unless x.finite?; x
  when String, Integer, true, false, nil then x
  else raise x.class.name
  end
end
JSON.parse($stdin.read).each do |text|
  begin
    puts JSON.generate(plain(YAML.safe_load(text, permitted_classes: [Symbol], aliases: true)), max_nesting: 200)
  rescue StandardError
    puts "refused"
  end
end`
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ruby", "-E", "UTF-8", "-e", script)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ruby: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("ruby told %d lines, want %d", len(lines), len(texts))
	}
	return lines
}

// equal compares JSON texts as Ruby sees them: numbers with a fraction are doubles.
func equal(t *testing.T, a, b string) bool {
	t.Helper()
	norm := func(text string) string {
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		out, err := json.Marshal(doubles(v))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return norm(a) == norm(b)
}

func doubles(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = doubles(v[k])
		}
	case []any:
		for i := range v {
			v[i] = doubles(v[i])
		}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, _ := v.Float64()
			return map[string]any{"double": f}
		}
		if v == "-0" {
			return json.Number("0")
		}
	}
	return v
}

// Each plain scalar is what Puppet takes it for, or refused with a word.
func TestScalarsAsPuppetReadsThem(t *testing.T) {
	scalars := strings.Fields(`~ null Null NULL nULL yes Yes YES yEs no NO true True on off Off y n Y N t f
		0 1 -1 +1 00 007 0644 -0644 +0644 08 09 0o17 0x1F 0X1f -0x1f 0b101 0B1 0b2 1_000 1,000 1__0 1_ _1 1,0,0 0x_ 0_ 0_7 -0 +0
		1.0 1. .5 -.5 +.5 . -. +. 1e3 1E3 1.0e3 1.0e+3 1.5E-3 .e+3 1.e+3 01.5 1_0.5 1,0.5 -1.5 +1.5 0.10 1.0.0 1.2.3.4 1-2 --1 +-1 -
		.inf -.inf +.inf .INF .nan .NaN 1:30 22:22 -1:30 1:30:00 1:60 1:30.5 12:30:45.5 1:2:3:4 24:00
		2026-12-01 2026-1-1 2026-13-01 2026-12-41 2026-12-01T10:00:00Z 2026-12-01T10:00 2026-02-30
		:a :"a" : :1 a: foo /etc ~x null1 yesno nullx NULLx falsey on-call 1a a1 é 日本 1日 -a +a .a @x $x *
		12345678901234567890123456789 0.1234567890123456789012345 1.7976931348623157e+308 = <
		007.5 -007 0.0 -0.0 0x 0b 1_000.5 1e 1e+ e3 1.e 9,9 9,,9 0,7 1_0_0 -1_000 +1,0`)
	var texts []string
	for _, s := range scalars {
		texts = append(texts, "x: "+s+"\n")
	}
	for i, want := range psych(t, texts) {
		text := texts[i]
		tree, err := datadir.Read(tree(t, map[string]string{"a.yaml": text}))
		if err != nil {
			// To refuse what Puppet reads otherwise than as it stands there is on purpose.
			if want != "refused" && !strings.Contains(err.Error(), "base 60") && !strings.Contains(err.Error(), "date") {
				t.Errorf("%q: %v; Puppet reads %s", text, err, want)
			}
			continue
		}
		got := `{"x":` + string(tree.Files[0].Entries[0].Value) + `}`
		if want == "refused" || !equal(t, got, want) {
			t.Errorf("%q: got %s, Puppet reads %s", text, got, want)
		}
	}
}

// A real control repository's data: read as Puppet reads it, and again after it was written.
func TestControlRepoAsPuppetReadsIt(t *testing.T) {
	const dir = "testdata/control-repo"
	for _, f := range read(t, dir).Files {
		original, err := os.ReadFile(filepath.Join(dir, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		written, err := datadir.Marshal(f.Entries)
		if err != nil {
			t.Fatal(err)
		}
		data := map[string]schemas.Value{}
		for _, e := range f.Entries {
			data[e.Name] = e.Value
		}
		want, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range psych(t, []string{string(original), string(written)}) {
			if got == "null" || got == "false" {
				got = "{}"
			}
			if !equal(t, withoutMeta(t, got), string(want)) {
				t.Errorf("%s: text %d: Puppet reads %s, we %s", f.Path, i, got, want)
			}
		}
	}
}

func withoutMeta(t *testing.T, text string) string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	delete(v, datadir.MetaKey)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Whatever a string or number is, Puppet reads back what was written.
func TestWrittenAsPuppetReadsIt(t *testing.T) {
	values := []string{`1e3`, `1E5`, `-0`, `1.0`, `0.10`, `1e-7`, `12345678901234567890`, `null`, `true`, `""`, `[]`, `{}`, `[[],[{}]]`, `{"":{"":[]}}`,
		`{"<<":{"a":1},"=":1,"on":2,"1":3,"~":4,":a":5,"- a":6,"# c":7,"a: b":8,"2026-12-01":9}`}
	for _, s := range []string{
		"yes", "no", "on", "NULL", "~", "1", "0644", "1.5", "1,000", "1e3", ":sym", ":", "22:30", "2026-12-01", "2026-12-01 10:00:00", ".inf", ".nan", "-", "- a", "# c",
		"a # b", "a: b", "a:", " lead", "trail ", "a\nb", "a\nb\n", "a\n\nb\n\n\n", "\n", "\na", "a\n b\n", " a\nb", "a \nb", "\ta\nb", "tab\there", "a\r\nb", "\u0000", "\u0007",
		"\u0085", "\u2028x", "a\u2029\nb", "\ufeffx", "é", "😀", "a\u00a0b", "'", `"`, `\`, `a\nb`, "%{x}", "{x}", "[x]", "&a", "*a", "!a", "|", ">", "@a", "`a", "%a", "?", "? a", "---", "...", "--- a",
		"<<", "=", "null ", strings.Repeat("long ", 200), strings.Repeat("x", 5000), "a\n---\nb", "#a\n#b\n",
	} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, string(text), `{`+string(text)+`:1}`, `[`+string(text)+`]`)
	}
	var texts, want []string
	for _, v := range values {
		value, err := schemas.ParseValue([]byte(v))
		if err != nil {
			t.Fatal(err)
		}
		text, err := datadir.Marshal([]datadir.Entry{{Name: "x", Value: value}})
		if err != nil {
			t.Errorf("%s: %v", v, err)
			continue
		}
		texts, want = append(texts, string(text)), append(want, `{"x":`+string(value)+`}`)
	}
	for i, got := range psych(t, texts) {
		if got == "refused" || !equal(t, got, want[i]) {
			t.Errorf("%s written as %q: Puppet reads %s", want[i], texts[i], got)
		}
	}
}
