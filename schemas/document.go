package schemas

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is the JSON object stored under one scope's key. The zero Document
// has no entries.
type Document struct {
	Entries map[string]Entry
	// Removed remembers removals, so that an older event that comes late does not
	// bring an entry back.
	Removed map[string]Removal
	// SupersededBefore stands for removals that are no longer remembered one by
	// one: an event of this time or before finds its entry removed. Zero = none.
	SupersededBefore time.Time
}

// Entry is one named piece of desired state.
type Entry struct {
	Value     Value
	Kind      string    // the JSON Schema that the value keeps; "" = none named
	Event     string    // id of the event that set it; "" = another client's
	Source    string    // the event's source
	Time      time.Time // the event's time; zero = its message's time ([Document.Dated])
	Expires   time.Time // the entry is gone from this time on; zero = never
	Sensitive bool      // the value is a secret
	Run       RunPolicy
	Owner     string // who keeps the entry, such as "apply:PREFIX"; "" = nobody
	Seen      []Seen
}

// Removal remembers that an entry was removed, or that it expired.
type Removal struct {
	Event, Source string
	Time          time.Time
	Expired       bool // the event set an entry that has expired since
	Seen          []Seen
}

// Seen remembers a timeless event, so that its repetition changes nothing.
type Seen struct {
	Event  string    `json:"event"`
	Source string    `json:"source,omitzero"`
	Time   time.Time `json:"time"`
}

// Expired reports whether the entry is gone at now.
func (e Entry) Expired(now time.Time) bool {
	return !e.Expires.IsZero() && !now.Before(e.Expires)
}

// Live yields the entries that have not expired at now, sorted by name.
func (d Document) Live(now time.Time) iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		for _, name := range slices.Sorted(maps.Keys(d.Entries)) {
			if e := d.Entries[name]; !e.Expired(now) && !yield(name, e) {
				return
			}
		}
	}
}

// Dated returns the document with the time of its message for every entry and
// removal that has none because another client wrote it.
func (d Document) Dated(message time.Time) Document {
	d = d.clone()
	for name, e := range d.Entries {
		if e.Time.IsZero() {
			e.Time = message.UTC()
			d.Entries[name] = e
		}
	}
	for name, r := range d.Removed {
		if r.Time.IsZero() {
			r.Time = message.UTC()
			d.Removed[name] = r
		}
	}
	return d
}

// Emptied is what a deletion marker of the given time leaves: no entries, and
// events up to that time are superseded.
func Emptied(marker time.Time) Document {
	return Document{SupersededBefore: marker.UTC()}
}

func (d Document) clone() Document {
	d.Entries, d.Removed = maps.Clone(d.Entries), maps.Clone(d.Removed)
	if d.Entries == nil {
		d.Entries = map[string]Entry{}
	}
	if d.Removed == nil {
		d.Removed = map[string]Removal{}
	}
	return d
}

// The documents' JSON, as DESIGN describes it. Only value is required of an entry.
type (
	documentJSON struct {
		Version          int                    `json:"bellpull"`
		Entries          map[string]entryJSON   `json:"entries"`
		Removed          map[string]removalJSON `json:"removed,omitempty"`
		SupersededBefore time.Time              `json:"superseded_before,omitzero"`
	}
	entryJSON struct {
		Value     jsontext.Value `json:"value"`
		Kind      string         `json:"kind,omitzero"`
		Event     string         `json:"event,omitzero"`
		Source    string         `json:"source,omitzero"`
		Time      time.Time      `json:"time,omitzero"`
		Expires   time.Time      `json:"expires,omitzero"`
		Sensitive bool           `json:"sensitive,omitzero"`
		Run       *runJSON       `json:"run,omitzero"`
		Owner     string         `json:"owner,omitzero"`
		Seen      []Seen         `json:"seen,omitempty"`
	}
	removalJSON struct {
		Event   string    `json:"event,omitzero"`
		Source  string    `json:"source,omitzero"`
		Time    time.Time `json:"time,omitzero"`
		Expired bool      `json:"expired,omitzero"`
		Seen    []Seen    `json:"seen,omitempty"`
	}
	runJSON struct {
		Trigger Trigger  `json:"trigger,omitzero"`
		Splay   string   `json:"splay,omitzero"`
		Tags    []string `json:"tags,omitempty"`
		Noop    bool     `json:"noop,omitzero"`
	}
)

// Marshal returns the document's JSON: always the same bytes for the same
// document. One over [MaxDocument] is an [*InvalidError] that names the largest
// entries.
func (d Document) Marshal() ([]byte, error) {
	out := documentJSON{Version: 1, Entries: map[string]entryJSON{}, SupersededBefore: d.SupersededBefore}
	for name, e := range d.Entries {
		out.Entries[name] = entryJSON{
			Value: jsontext.Value(e.Value), Kind: e.Kind, Event: e.Event, Source: e.Source, Time: e.Time,
			Expires: e.Expires, Sensitive: e.Sensitive, Run: e.Run.wire(), Owner: e.Owner, Seen: e.Seen,
		}
	}
	if len(d.Removed) > 0 {
		out.Removed = map[string]removalJSON{}
	}
	for name, r := range d.Removed {
		out.Removed[name] = removalJSON(r)
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	if len(body) > MaxDocument {
		return nil, invalid("document", "", fmt.Sprintf("would have %d bytes, at most %d are allowed; the largest entries are %s",
			len(body), MaxDocument, d.largest()))
	}
	return body, nil
}

// SizeWarning is the line with which writers warn of a document of body's size; "" under [WarnDocument].
func (d Document) SizeWarning(body []byte) string {
	if len(body) < WarnDocument {
		return ""
	}
	return fmt.Sprintf("the document has %d of at most %d bytes; the largest entries are %s", len(body), MaxDocument, d.largest())
}

func (d Document) largest() string {
	names := slices.SortedFunc(maps.Keys(d.Entries), func(a, b string) int {
		return cmp.Or(-cmp.Compare(len(d.Entries[a].Value), len(d.Entries[b].Value)), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names[:min(3, len(names))] {
		words = append(words, fmt.Sprintf("%q (%d bytes)", clip(name), len(d.Entries[name].Value)))
	}
	return strings.Join(words, ", ")
}

func (p RunPolicy) wire() *runJSON {
	if p.IsZero() {
		return nil
	}
	out := &runJSON{Trigger: p.Trigger, Tags: p.Tags, Noop: p.Noop}
	if p.Splay != 0 {
		out.Splay = p.Splay.String()
	}
	return out
}

// BucketInfo is what [BucketKey] holds: the id that revisions are comparable within.
type BucketInfo struct {
	ID      string    // random, made by init and by restore
	Created time.Time // when the id was made
}

// ParseBucketInfo reads the body of [BucketKey]; anything else is [ErrInvalid].
func ParseBucketInfo(body []byte) (BucketInfo, error) {
	const what = "key " + BucketKey + ", which `bellpull init --new-id` mends"
	raw, err := parseJSON(what, body)
	if err != nil {
		return BucketInfo{}, err
	}
	var p parser
	var info BucketInfo
	p.object("", raw, []string{"bellpull", "bucket"}, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		switch name {
		case "bellpull":
			p.version(at, raw)
		case "bucket":
			p.object(at, raw, []string{"id", "created"}, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
				switch name {
				case "id":
					if info.ID = p.id(at, raw); raw.Kind() == '"' && info.ID == "" {
						p.fault(at, "is empty")
					}
				case "created":
					info.Created = p.time(at, raw)
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	if len(p.faults) > 0 {
		return BucketInfo{}, &InvalidError{What: what, Faults: p.faults}
	}
	return info, nil
}

// Marshal returns the body that [ParseBucketInfo] reads.
func (b BucketInfo) Marshal() ([]byte, error) {
	return json.Marshal(map[string]any{
		"bellpull": 1,
		"bucket":   map[string]any{"id": b.ID, "created": b.Created},
	}, json.Deterministic(true))
}
