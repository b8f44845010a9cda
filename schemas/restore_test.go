package schemas_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

func TestRestore(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	before := now.Add(-time.Hour)
	entry := func(value schemas.Value) schemas.Entry {
		return schemas.Entry{Value: value, Event: "old", Source: "s", Time: before}
	}
	kept := schemas.Entry{
		Value: `"secret"`, Kind: "k", Event: "old", Source: "s", Time: before, Expires: now.Add(time.Hour), Sensitive: true,
		Run: schemas.RunPolicy{Trigger: "next"}, Owner: "apply:x",
	}
	gone := entry("1")
	gone.Expires = now
	for _, test := range []struct {
		name                  string
		standing, old         map[string]schemas.Entry
		set, removed, expired string
	}{
		{"nothing differs", map[string]schemas.Entry{"a": entry("1")}, map[string]schemas.Entry{"a": entry("1")}, "[]", "[]", "[]"},
		{"value", map[string]schemas.Entry{"a": entry("2")}, map[string]schemas.Entry{"a": entry("1")}, "[a]", "[]", "[]"},
		{"all that belongs to an entry", nil, map[string]schemas.Entry{"a": kept}, "[a]", "[]", "[]"},
		{"newer ones go", map[string]schemas.Entry{"a": entry("1"), "b": entry("1")}, map[string]schemas.Entry{"a": entry("1")}, "[]", "[b]", "[]"},
		{"expired ones stay gone", nil, map[string]schemas.Entry{"a": gone, "b": entry("1")}, "[b]", "[]", "[a]"},
		{"expired then, set anew since", map[string]schemas.Entry{"a": entry("5")}, map[string]schemas.Entry{"a": gone}, "[]", "[a]", "[a]"},
		{"members become a value", map[string]schemas.Entry{"x[y]": entry("1")}, map[string]schemas.Entry{"x": entry("1")}, "[x]", "[x[y]]", "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := schemas.Document{Entries: test.standing, SupersededBefore: now.Add(time.Second)}
			next, r, err := d.Restore(schemas.Document{Entries: test.old}, "new", "cli", now)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.Set, r.Removed, r.Expired); got != fmt.Sprint(test.set, " ", test.removed, " ", test.expired) {
				t.Errorf("set, removed, expired = %s, want %s %s %s", got, test.set, test.removed, test.expired)
			}
			if r.Changed() != (len(r.Set)+len(r.Removed) > 0) {
				t.Error("Changed lies")
			}
			live := 0
			for name, e := range next.Live(now) {
				live++
				want := test.old[name]
				if !e.SameContent(want) {
					t.Errorf("%s = %+v, want the content of %+v", name, e, want)
				}
				if _, stood := test.standing[name]; !stood && (e.Event != "new" || e.Source != "cli" || !e.Time.After(d.SupersededBefore)) {
					t.Errorf("%s is of event %q at %v", name, e.Event, e.Time)
				}
			}
			if want := len(test.old) - len(r.Expired); live != want {
				t.Errorf("%d entries, want %d", live, want)
			}
			for _, name := range r.Removed {
				if next.Removed[name].Event != "new" {
					t.Errorf("no record of the removal of %s", name)
				}
			}
		})
	}
}
