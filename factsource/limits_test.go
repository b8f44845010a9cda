package factsource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

func TestLargeFactKeepsTheSmallValues(t *testing.T) {
	s := newSite(t)
	var entries []string
	for i := range 30 {
		entries = append(entries, fmt.Sprintf(`"large%02d": {"value": %q}`, i, strings.Repeat("x", 3029-i)))
	}
	entries = append(entries, `"small": {"value": "still here"}`)
	s.store.set(t, common, 1, "{"+strings.Join(entries, ",")+"}")
	text := s.text()
	if len(text) > factsource.MaxFact {
		t.Errorf("the fact has %d bytes, at most %d are allowed", len(text), factsource.MaxFact)
	}
	fact := decode(t, []byte(text))
	state, truncated := fact["state"].(map[string]any), fact["truncated"].([]any)
	if state["small"] != "still here" || state["large29"] == nil {
		t.Error("small values are left out before large ones")
	}
	if len(state)+len(truncated) != 31 || len(truncated) == 0 || truncated[0] != "large00" {
		t.Errorf("%d shown and truncated = %v, want 31 together and the largest left out", len(state), truncated)
	}
	if len(text) < factsource.MaxFact/2 {
		t.Errorf("the fact has %d bytes, more would fit", len(text))
	}
	if again := s.text(); again != text {
		t.Error("the same state gives another fact")
	}
}

func TestLeavesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		elements int
		fits     bool
	}{{"fits", 1400, true}, {"too many", 1500, false}} {
		s := newSite(t)
		s.store.set(t, common, 1, `{"list": {"value": [`+strings.TrimSuffix(strings.Repeat("1,", tt.elements), ",")+`]}, "x": {"value": 1}}`)
		fact, _ := s.run()
		if _, shown := fact["state"].(map[string]any)["list"]; shown != tt.fits {
			t.Errorf("%s: shown = %v, want %v", tt.name, shown, tt.fits)
		}
		if fact["state"].(map[string]any)["x"] == nil {
			t.Errorf("%s: the other key is gone", tt.name)
		}
	}
}

// Lists of names are bounded too, whatever the names are.
func TestListsAreBounded(t *testing.T) {
	s := newSite(t)
	var entries []string
	for i := range 1000 {
		entries = append(entries, fmt.Sprintf(`"secret%04d%s": {"value": 1, "sensitive": true}`, i, strings.Repeat("\u2028", 100)))
		entries = append(entries, fmt.Sprintf(`"long%04d%s": {"value": [%q]}`, i, strings.Repeat("\u2028", 100), strings.Repeat("x", 5000)))
		entries = append(entries, fmt.Sprintf(`"k%04d": {"value": %q}`, i, strings.Repeat("x", 500)))
		entries = append(entries, fmt.Sprintf(`"bad%04d[m]": {"value": 1}`, i))
	}
	bad := []string{}
	for i := range 1000 {
		bad = append(bad, fmt.Sprintf(`"bad%04d": {"value": 1}`, i))
	}
	for i, part := range [][]string{entries, bad} {
		doc, err := schemas.ParseDocument([]byte(`{"bellpull": 1, "entries": {}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range part {
			name, value, _ := strings.Cut(e, ": {")
			sensitive := strings.Contains(value, "sensitive")
			value, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(value, `"value": `), "}"), `, "sens`)
			doc.Entries[strings.Trim(name, `"`)] = schemas.Entry{Value: schemas.Value(value), Sensitive: sensitive}
		}
		s.store.scopes[[]schemas.Scope{group, common}[i]] = schemas.ScopeReading{Revision: 1, Document: doc}
	}
	s.cfg.Dir = ""
	text := s.text()
	if len(text) > factsource.MaxFact {
		t.Errorf("the fact has %d bytes, at most %d are allowed", len(text), factsource.MaxFact)
	}
	fact := decode(t, []byte(text))
	unlisted, _ := fact["unlisted"].(map[string]any)
	for _, list := range []string{"hidden", "invalid", "truncated"} {
		if fact[list] == nil || unlisted[list] == nil {
			t.Errorf("%s: %v listed, %v unlisted, want some of each", list, fact[list] != nil, unlisted[list])
		}
	}
	if len(fact["state"].(map[string]any)) == 0 {
		t.Error("there is no room left for the state")
	}
}

func TestNone(t *testing.T) {
	got := string(factsource.None("", "configuration: "+strings.Repeat("é", 1000)+"\u2028"))
	fact := decode(t, []byte(got))
	want(t, fact, map[string]string{"source": `"none"`, "state": ""})
	if reason := fact["reason"].(string); len(reason) > 510 || !strings.HasSuffix(reason, "é…") {
		t.Errorf("reason = %q of %d bytes, want about 500 whole runes", reason, len(reason))
	}
}

func TestAListHasAHundredNames(t *testing.T) {
	s := newSite(t)
	var entries []string
	for i := range 150 {
		entries = append(entries, fmt.Sprintf(`"s%03d": {"value": 1, "sensitive": true}`, i))
	}
	s.store.set(t, common, 1, "{"+strings.Join(entries, ",")+"}")
	fact, _ := s.run()
	if n := len(fact["hidden"].([]any)); n != 100 {
		t.Errorf("%d hidden keys are named, want 100", n)
	}
	want(t, fact, map[string]string{"unlisted": `{"hidden":50}`})
}
