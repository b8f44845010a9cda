package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

func TestValueKeepsWhatWasMeant(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`null`, `null`},
		{` false `, `false`},
		{`""`, `""`},
		{`0`, `0`},
		{`[]`, `[]`},
		{`{}`, `{}`},
		{`1.10`, `1.10`},
		{`1e21`, `1e21`},
		{`12345678901234567890.5000`, `12345678901234567890.5000`},
		{`-0`, `-0`},
		{`{"b": 1, "a": [ 1 , 2 ]}`, `{"a":[1,2],"b":1}`},
		{`"\u00e9\u000a\ud83d\ude00\/"`, `"é\n😀/"`},
	} {
		got, err := schemas.ParseValue([]byte(test.text))
		if err != nil || string(got) != test.want {
			t.Errorf("ParseValue(%s) = %s, %v; want %s", test.text, got, err, test.want)
		}
	}
}

// SCHEMA-02: duplicate members cannot slip past validation.
func TestSCHEMA02_OddTextIsRefusedWithItsPlace(t *testing.T) {
	for _, test := range []struct{ name, text, pointer, want string }{
		{"duplicate, last one good", `{"replicas": 500, "replicas": 3}`, "/replicas", "stands twice"},
		{"duplicate, last one bad", `{"replicas": 3, "replicas": 500}`, "/replicas", "stands twice"},
		{"duplicate by escape", `{"a":{"b":1,"\u0062":2}}`, "/a/b", "stands twice"},
		{"trailing value", `{} {}`, "", "after top-level value"},
		{"trailing garbage", `1 x`, "", "after top-level value"},
		{"invalid UTF-8", "[\"\xff\"]", "/0", "UTF-8"},
		{"lone surrogate", `"\ud800"`, "", "surrogate"},
		{"NaN", `NaN`, "", "invalid character"},
		{"comment", `{/* */}`, "", "invalid character"},
		{"empty", ` `, "", "is empty"},
		{"cut off", `{"a":[1,`, "/a", "ends in the middle"},
		{"deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("/0", 64), "deeper than 64"},
		{"brackets in a string are no depth, a broken text is still broken", `["` + strings.Repeat("[", 100) + `\"[[`, "/0", "ends in the middle"},
		{"very deep", strings.Repeat("[", 200_000), strings.Repeat("/0", 64), "deeper than 64"},
		{"large", `"` + strings.Repeat("x", schemas.MaxDocument) + `"`, "", "more than 921600 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := schemas.ParseValue([]byte(test.text))
			wantFault(t, err, test.pointer, test.want)
			if got != "" {
				t.Errorf("got value %.50s with the error", got)
			}
		})
	}
	if _, err := schemas.ParseValue([]byte(strings.Repeat("[", 64) + strings.Repeat("]", 64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
}

// wantFault checks that err is one fault at pointer whose message contains text.
func wantFault(t *testing.T, err error, pointer, text string) {
	t.Helper()
	var invalid *schemas.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, schemas.ErrInvalid) {
		t.Fatalf("got error %v, want an InvalidError", err)
	}
	for _, fault := range invalid.Faults {
		if fault.Pointer == pointer && strings.Contains(fault.Message, text) {
			return
		}
	}
	t.Errorf("got %v, want a fault at %q with %q", err, pointer, text)
}

func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[1.0e5,"é",null]`, "\"\xff\"", `{"b":{"c":[]},"a":-0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := schemas.ParseValue(text)
		if err != nil {
			if !errors.Is(err, schemas.ErrInvalid) {
				t.Fatalf("ParseValue(%q): %v, want ErrInvalid", text, err)
			}
			return
		}
		checkMembers(t, v)
		if again, err := schemas.ParseValue([]byte(v)); err != nil || again != v {
			t.Fatalf("ParseValue(%q) = %q, which reads back as %q, %v", text, v, again, err)
		}
	})
}

// checkMembers compares the members of v with those that the JSON library finds.
func checkMembers(t *testing.T, v schemas.Value) {
	t.Helper()
	got := map[string]schemas.Value{}
	for name, member := range v.Members() {
		got[name] = member
	}
	want := map[string]jsontext.Value{}
	if v.Kind() == '{' {
		if err := json.Unmarshal([]byte(v), &want); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s has the members %v, want %v", v, got, want)
	}
	for name, member := range want {
		if string(got[name]) != string(member) {
			t.Fatalf("member %q of %s = %s, want %s", name, v, got[name], member)
		}
		checkMembers(t, got[name])
	}
}
