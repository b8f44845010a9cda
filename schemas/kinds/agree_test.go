package kinds_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// The readers check documents by hand, because linking a JSON Schema library would cost every start. These tests keep both
// equal. What JSON Schema cannot say, and the readers alone check, is this list and nothing else.
func beyondSchema(f schemas.Fault) bool {
	for _, only := range []string{
		fmt.Sprintf("bytes, at most %d are allowed", schemas.MaxEntryName), // maxLength counts characters
		fmt.Sprintf("bytes, at most %d are allowed", schemas.MaxScopeKey),  // of the key, where ":" takes three
		"a key has members or one value",                                   // x beside x[y]
		"must be at least 1s",                                              // JSON Schema does not compare durations
		"must be 1, the format",                                            // to JSON Schema 1 and 1.0 are the same
	} {
		if strings.Contains(f.Message, only) {
			return true
		}
	}
	return false
}

// places returns the pointers of an error's faults, and those of them that a JSON Schema must find too.
func places(t *testing.T, err error) (all, must []string) {
	t.Helper()
	if err == nil {
		return nil, nil
	}
	faults(t, err) // fails on an error of another kind
	invalid, _ := errors.AsType[*schemas.InvalidError](err)
	for _, f := range invalid.Faults {
		// The library tells a fault in a member whose name is empty at the object.
		place := strings.TrimSuffix(strings.ReplaceAll(f.Pointer, "//", "/"), "/")
		all = append(all, place)
		if !beyondSchema(f) {
			must = append(must, place)
		}
	}
	return all, must
}

// contains reports whether all of some are among those there.
func contains(there, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(there, s) })
}

func corpus(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files for %s, %v", len(paths), pattern, err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = text
	}
	return files
}

func TestDocumentSchemaAgreesWithReaders(t *testing.T) {
	set := mustLoad(t, nil)
	for name, body := range corpus(t, "valid/document-*.json") {
		if _, err := schemas.ParseDocument(body); err != nil {
			t.Errorf("%s: the readers refuse it: %v", name, err)
		}
		if err := set.ValidateDocument(body); err != nil && name != "document-numbers.json" { // its 1e999999 is a value, checked with its kind
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
	for name, body := range corpus(t, "invalid/document-*.json") {
		_, err := schemas.ParseDocument(body)
		if err == nil {
			t.Errorf("%s: the readers take it", name)
			continue
		}
		all, must := places(t, err)
		got, _ := places(t, set.ValidateDocument(body))
		if !contains(all, got) || !contains(got, must) {
			t.Errorf("%s: the schema finds faults at %q, the readers at %q, of which %q are for the schema", name, got, all, must)
		}
	}
}

func TestEventSchemaAgreesWithCheck(t *testing.T) {
	set := mustLoad(t, nil)
	for name, body := range corpus(t, "valid/event-*.json") {
		ev, err := parseEvent(body)
		if err == nil {
			err = ev.Check()
		}
		if err != nil {
			t.Errorf("%s: Check refuses it: %v", name, err)
		}
		if err := set.ValidateEvent(body); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
	for name, body := range corpus(t, "invalid/event-*.json") {
		err := set.ValidateEvent(body)
		ev, parseErr := parseEvent(body)
		if parseErr != nil { // Event cannot even hold it
			if err == nil {
				t.Errorf("%s: the schema takes it", name)
			}
			continue
		}
		all, must := places(t, ev.Check())
		if len(all) == 0 || err == nil && len(must) > 0 {
			t.Errorf("%s: got %v of the schema, %v of Check", name, err, ev.Check())
		}
	}
}

// parseEvent reads the JSON form of an event.
func parseEvent(body []byte) (schemas.Event, error) {
	in := struct {
		ID, Source, Entry, Kind, Owner string
		Time                           time.Time
		Scope                          schemas.Scope
		Action                         schemas.Action
		Value                          schemas.Value
		TTL                            *duration
		Sensitive                      bool
		Run                            struct {
			Trigger schemas.Trigger
			Splay   *duration
			Tags    []string
			Noop    bool
		}
	}{}
	lower := json.WithUnmarshalers(json.UnmarshalFunc(func(text []byte, d *duration) error {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		v, err := time.ParseDuration(s)
		if err == nil && v <= 0 {
			err = fmt.Errorf("%s is not above 0", v)
		}
		*d = duration(v)
		return err
	}))
	if err := json.Unmarshal(body, &in, lower, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true)); err != nil {
		return schemas.Event{}, err
	}
	ev := schemas.Event{
		ID: in.ID, Source: in.Source, Time: in.Time, Scope: in.Scope, Entry: in.Entry, Action: in.Action, Value: in.Value,
		Kind: in.Kind, Sensitive: in.Sensitive, Owner: in.Owner,
		Run: schemas.RunPolicy{Trigger: in.Run.Trigger, Tags: in.Run.Tags, Noop: in.Run.Noop},
	}
	if in.TTL != nil {
		ev.TTL = time.Duration(*in.TTL)
	}
	if in.Run.Splay != nil {
		ev.Run.Splay = time.Duration(*in.Run.Splay)
	}
	return ev, nil
}

type duration time.Duration

func FuzzDocumentSchemaAgreesWithReaders(f *testing.F) {
	for _, pattern := range []string{"valid/document-*.json", "invalid/document-*.json"} {
		for _, body := range corpus(f, pattern) {
			f.Add(body)
		}
	}
	set := mustLoad(f, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := schemas.ParseDocument(body)
		all, must := places(t, err)
		err = set.ValidateDocument(body)
		if err != nil && strings.Contains(err.Error(), "of this size") {
			return
		}
		if err != nil && len(all) == 0 || err == nil && len(must) > 0 {
			t.Errorf("the schema says %v, the readers find faults at %q, of which %q are for the schema", err, all, must)
		}
	})
}

func FuzzEventSchemaAgreesWithCheck(f *testing.F) {
	f.Add("1", "s", int64(1_764_583_200), "common", "a", "set", []byte(`{"a":1}`), "k", int64(time.Hour), true, "now", int64(time.Minute), "a,b", true, "o")
	f.Add("1", "", int64(0), "a/b.c", "x[y]", "remove", []byte(``), "", int64(0), false, "", int64(0), "", false, "")
	f.Add("", "\n", int64(-1), "a/../b", "x[]", "Set", []byte(`null`), "a b", int64(-1), false, "later", int64(-1), "a b,", true, "\x7f")
	f.Add("1", "", int64(0), ":::", "<<", "set", []byte(`""`), "", int64(1), false, "next", int64(1), "", false, "")
	f.Add("1", "", int64(0), "common", "a", "remove", []byte(`[]`), "", int64(0), false, "", int64(0), "", false, "")
	set := mustLoad(f, nil)
	f.Fuzz(func(t *testing.T, id, source string, seconds int64, scope, entry, action string, text []byte, kind string, ttl int64, sensitive bool,
		trigger string, splay int64, tags string, noop bool, owner string) {
		ev := schemas.Event{
			ID: id, Source: source, Scope: schemas.Scope(scope), Entry: entry, Action: schemas.Action(action), Kind: kind,
			TTL: time.Duration(ttl), Sensitive: sensitive, Owner: owner,
			Run: schemas.RunPolicy{Trigger: schemas.Trigger(trigger), Splay: time.Duration(splay), Noop: noop},
		}
		if tags != "" {
			ev.Run.Tags = strings.Split(tags, ",")
		}
		if seconds != 0 {
			ev.Time = time.Unix(seconds%(1<<37), 0)
		}
		if v, err := schemas.ParseValue(text); err == nil {
			ev.Value = v
		}
		body, err := json.Marshal(ev)
		if err != nil { // not UTF-8, or a year beyond 9999
			return
		}
		all, must := places(t, ev.Check())
		err = set.ValidateEvent(body)
		if err != nil && strings.Contains(err.Error(), "of this size") {
			return
		}
		if err != nil && len(all) == 0 || err == nil && len(must) > 0 {
			t.Errorf("%s: the schema says %v, Check finds faults at %q, of which %q are for the schema", body, err, all, must)
		}
	})
}
