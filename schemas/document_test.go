package schemas_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

const fullDocument = `{"bellpull":1,"entries":{` +
	`"app::zero":{"value":0},` +
	`"my_firewall::rules[tcp-8443]":{"value":{"action":"allow","port":8443,"protocol":"tcp"},"kind":"firewall_rule","event":"4f0e","source":"shop/deploy",` +
	`"time":"2026-12-01T10:00:00Z","expires":"2026-12-01T11:00:00Z","sensitive":true,` +
	`"run":{"trigger":"next","splay":"5m0s","tags":["firewall"],"noop":true},"owner":"apply:prod","seen":[{"event":"a","source":"b","time":"2026-12-01T09:00:00Z"}]}},` +
	`"removed":{"my_firewall::rules[tcp-9000]":{"event":"77aa","source":"shop/deploy","time":"2026-12-01T09:00:00Z","expired":true}},` +
	`"superseded_before":"2026-11-30T00:00:00Z"}`

func TestDocumentRoundTrip(t *testing.T) {
	doc, err := schemas.ParseDocument([]byte(fullDocument))
	if err != nil {
		t.Fatal(err)
	}
	e := doc.Entries["my_firewall::rules[tcp-8443]"]
	if got, want := e.Run.Splay, 5*time.Minute; got != want {
		t.Errorf("splay = %v, want %v", got, want)
	}
	if got, want := e.Expires, time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("expires = %v, want %v", got, want)
	}
	body, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(body); got != fullDocument {
		t.Errorf("got\n%s\nwant\n%s", got, fullDocument)
	}
}

func TestDocumentFaultsAreAllNamed(t *testing.T) {
	for _, test := range []struct{ name, body, pointer, want string }{
		{"array", `[]`, "", "must be an object"},
		{"no version", `{"entries":{}}`, "/bellpull", "is missing"},
		{"other version", `{"bellpull":2,"entries":{}}`, "/bellpull", "must be 1"},
		{"no entries", `{"bellpull":1}`, "/entries", "is missing"},
		{"entries no object", `{"bellpull":1,"entries":[]}`, "/entries", "must be an object"},
		{"wrong case", `{"bellpull":1,"Entries":{},"entries":{}}`, "/Entries", "not a known member"},
		{"entry without value", `{"bellpull":1,"entries":{"a/b":{}}}`, "/entries/a~1b/value", "is missing"},
		{"unknown member", `{"bellpull":1,"entries":{"x":{"value":1,"ttl":5}}}`, "/entries/x/ttl", "not a known member"},
		{"bad name", `{"bellpull":1,"entries":{"<<":{"value":1}}}`, "/entries/<<", "YAML"},
		{"control character", `{"bellpull":1,"entries":{"a\nb":{"value":1}}}`, "/entries/a\nb", "control character"},
		{"long name", `{"bellpull":1,"entries":{"` + strings.Repeat("n", 513) + `":{"value":1}}}`, "/entries/" + strings.Repeat("n", 513), "at most 512"},
		{"reserved name", `{"bellpull":1,"entries":{"bellpull::compiled":{"value":1}}}`, "/entries/bellpull::compiled", "reserved"},
		{"empty member", `{"bellpull":1,"entries":{"x[]":{"value":1}}}`, "/entries/x[]", "empty member"},
		{"value beside member", `{"bellpull":1,"entries":{"x":{"value":{}},"x[y]":{"value":1}}}`, "/entries/x[y]", `beside an entry "x"`},
		{"time", `{"bellpull":1,"entries":{"x":{"value":1,"time":"yesterday"}}}`, "/entries/x/time", "RFC 3339"},
		{"one-digit hour", `{"bellpull":1,"entries":{"x":{"value":1,"time":"2026-12-01T9:00:00Z"}}}`, "/entries/x/time", "RFC 3339"},
		{"decimal comma", `{"bellpull":1,"entries":{"x":{"value":1,"time":"2026-12-01T09:00:00,5Z"}}}`, "/entries/x/time", "RFC 3339"},
		{"zone of 24 hours", `{"bellpull":1,"entries":{"x":{"value":1,"time":"2026-12-01T09:00:00+24:00"}}}`, "/entries/x/time", "RFC 3339"},
		{"zone of 60 minutes", `{"bellpull":1,"entries":{"x":{"value":1,"time":"2026-12-01T09:00:00-01:60"}}}`, "/entries/x/time", "RFC 3339"},
		{"leap second", `{"bellpull":1,"entries":{"x":{"value":1,"expires":"2016-12-31T23:59:60Z"}}}`, "/entries/x/expires", "RFC 3339"},
		{"empty kind", `{"bellpull":1,"entries":{"x":{"value":1,"kind":""}}}`, "/entries/x/kind", "must be 1 to 128"},
		{"sensitive", `{"bellpull":1,"entries":{"x":{"value":1,"sensitive":"yes"}}}`, "/entries/x/sensitive", "true or false"},
		{"trigger", `{"bellpull":1,"entries":{"x":{"value":1,"run":{"trigger":"later"}}}}`, "/entries/x/run/trigger", `"now" or "next"`},
		{"splay", `{"bellpull":1,"entries":{"x":{"value":1,"run":{"splay":"-5m"}}}}`, "/entries/x/run/splay", "duration above 0"},
		{"tag", `{"bellpull":1,"entries":{"x":{"value":1,"run":{"tags":["ok","not ok"]}}}}`, "/entries/x/run/tags/1", "Puppet tag"},
		{"removed", `{"bellpull":1,"entries":{},"removed":{"x":{"value":1}}}`, "/removed/x/value", "not a known member"},
		{"event id", `{"bellpull":1,"entries":{"x":{"value":1,"event":"` + strings.Repeat("i", 257) + `"}}}`, "/entries/x/event", "more than 256"},
		{"duplicate", `{"bellpull":1,"entries":{"x":{"value":1},"x":{"value":2}}}`, "/entries/x", "stands twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := schemas.ParseDocument([]byte(test.body))
			wantFault(t, err, test.pointer, test.want)
		})
	}

	_, err := schemas.ParseDocument([]byte(`{"bellpull":1,"entries":{"x":{"kind":7},"y":{"value":1,"time":3}},"z":0}`))
	for _, pointer := range []string{"/entries/x/kind", "/entries/x/value", "/entries/y/time", "/z"} {
		if err == nil || !strings.Contains(err.Error(), pointer) {
			t.Errorf("got %v, want a fault at %s among them", err, pointer)
		}
	}
}

func TestLargeDocumentNamesItsLargestEntries(t *testing.T) {
	doc := schemas.Document{Entries: map[string]schemas.Entry{}}
	for name, size := range map[string]int{"small": 10, "large": 500 << 10, "middle": 200 << 10} {
		doc.Entries[name] = schemas.Entry{Value: schemas.Value(`"` + strings.Repeat("x", size) + `"`)}
	}
	body, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.SizeWarning(body); !strings.Contains(got, `"large" (512002 bytes), "middle"`) {
		t.Errorf("warning = %q, want the largest entries first", got)
	}
	doc.Entries["more"] = schemas.Entry{Value: schemas.Value(`"` + strings.Repeat("x", 300<<10) + `"`)}
	if _, err := doc.Marshal(); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), `"large" (512002 bytes), "more"`) {
		t.Errorf("got %v, want ErrInvalid with the largest entries", err)
	}
	if got := (schemas.Document{}).SizeWarning(nil); got != "" {
		t.Errorf("warning of an empty document: %q", got)
	}
}

func TestDatedFillsOnlyWhatIsMissing(t *testing.T) {
	doc, err := schemas.ParseDocument([]byte(`{"bellpull":1,"entries":{"a":{"value":1},"b":{"value":1,"time":"2026-01-01T00:00:00Z"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	message := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	dated := doc.Dated(message)
	if got := dated.Entries["a"].Time; !got.Equal(message) {
		t.Errorf("time of a = %v, want the message's", got)
	}
	if got := dated.Entries["b"].Time.Month(); got != time.January {
		t.Errorf("time of b = %v, want its own", dated.Entries["b"].Time)
	}
	if !doc.Entries["a"].Time.IsZero() {
		t.Error("Dated changed the document it was called on")
	}
}

func TestLiveLeavesOutWhatExpired(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	doc := schemas.Document{Entries: map[string]schemas.Entry{
		"b": {Value: "1"}, "a": {Value: "1", Expires: now.Add(1)}, "c": {Value: "1", Expires: now},
	}}
	var names []string
	for name := range doc.Live(now) {
		names = append(names, name)
	}
	if got, want := fmt.Sprint(names), "[a b]"; got != want {
		t.Errorf("live entries = %s, want %s", got, want)
	}
}

func TestBucketInfo(t *testing.T) {
	info := schemas.BucketInfo{ID: "3f9c", Created: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
	body, err := info.Marshal()
	if err != nil || string(body) != `{"bellpull":1,"bucket":{"created":"2026-12-01T10:00:00Z","id":"3f9c"}}` {
		t.Fatalf("Marshal() = %s, %v", body, err)
	}
	if got, err := schemas.ParseBucketInfo(body); err != nil || got != info {
		t.Errorf("ParseBucketInfo = %v, %v; want %v", got, err, info)
	}
	for _, body := range []string{``, `{}`, `{"bellpull":1}`, `{"bellpull":2,"bucket":{"id":"x","created":"2026-12-01T10:00:00Z"}}`} {
		if _, err := schemas.ParseBucketInfo([]byte(body)); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "bellpull init --new-id") {
			t.Errorf("ParseBucketInfo(%q): %v, want ErrInvalid that says what to run", body, err)
		}
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add([]byte(fullDocument))
	f.Add([]byte(`{"bellpull":1,"entries":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := schemas.ParseDocument(body)
		if err != nil {
			if !errors.Is(err, schemas.ErrInvalid) {
				t.Fatalf("%v, want ErrInvalid", err)
			}
			return
		}
		first, err := doc.Marshal()
		if errors.Is(err, schemas.ErrInvalid) {
			return // grew over the limit by escapes
		} else if err != nil {
			t.Fatal(err)
		}
		again, err := schemas.ParseDocument(first)
		if err != nil {
			t.Fatalf("own output %s is refused: %v", first, err)
		}
		if second, err := again.Marshal(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s reads back as %s, %v", first, second, err)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2026-12-01T10:00:00Z", "2026-12-01T9:00:00Z", "2026-12-01T09:00:00,5Z", "2026-12-01T09:00:00.5+23:59", "2026-12-01T09:00:00+24:00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := schemas.ParseTime(text)
		quoted, quoteErr := jsontext.AppendQuote(nil, text)
		if quoteErr != nil {
			t.Skip("no text for JSON")
		}
		var want time.Time
		if wantErr := json.Unmarshal(quoted, &want); (err == nil) != (wantErr == nil) || err == nil && !got.Equal(want) {
			t.Errorf("ParseTime(%q) = %v, %v; the JSON library, which is strict, says %v, %v", text, got, err, want, wantErr)
		}
	})
}
