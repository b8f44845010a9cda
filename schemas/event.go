package schemas

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Action says what an event does to its entry.
type Action string

// The actions.
const (
	ActionSet    Action = "set"
	ActionRemove Action = "remove"
)

// Event is a request to set or remove one entry in one scope. It is identified
// by (Source, ID) and ordered by (Time, Source, ID).
type Event struct {
	ID     string // at most [MaxID] characters, no control characters
	Source string // as ID; may be empty
	// Time is the event's own time. Zero makes the event timeless: it then takes
	// the later of now and just after the standing time, so it always wins.
	Time   time.Time
	Scope  Scope
	Entry  string
	Action Action

	// The rest belongs to ActionSet alone.
	Value     Value
	Kind      string
	TTL       time.Duration // the entry expires this long after Time; 0 = never; at least 1 s
	Expires   time.Time     // the moment itself, instead of TTL, for who brings an entry back; not in the event's JSON
	Sensitive bool
	Run       RunPolicy
	Owner     string

	// Once says that the writer made up ID for this event alone. It cannot come
	// again, so a timeless one is not remembered in seen.
	Once bool
}

// Check returns every fault as an [*InvalidError]; pointers name the members of
// the event's JSON.
func (ev Event) Check() error {
	var p parser
	if ev.ID == "" {
		p.fault("/id", "is empty")
	}
	for _, text := range []struct{ at, value string }{{"/id", ev.ID}, {"/source", ev.Source}, {"/owner", ev.Owner}} {
		if fault := idFault(text.value); fault != "" {
			p.fault(jsontext.Pointer(text.at), fault)
		} else if !utf8.ValidString(text.value) {
			p.fault(jsontext.Pointer(text.at), "is not valid UTF-8")
		}
	}
	if fault := scopeFault(string(ev.Scope)); fault != "" {
		p.fault("/scope", fault)
	}
	if fault := nameFault(ev.Entry); fault != "" {
		p.fault("/entry", fault)
	}
	switch ev.Action {
	case ActionSet:
		ev.checkSet(&p)
	case ActionRemove:
		if ev.Value != "" || ev.Kind != "" || ev.TTL != 0 || !ev.Expires.IsZero() || ev.Sensitive || !ev.Run.IsZero() || ev.Owner != "" {
			p.fault("/action", `is "remove": no value, kind, ttl, sensitive, run or owner may stand with it`)
		}
	default:
		p.fault("/action", `must be "set" or "remove"`)
	}
	if len(p.faults) == 0 {
		return nil
	}
	sortFaults(p.faults)
	return &InvalidError{What: "event", Faults: p.faults}
}

func (ev Event) checkSet(p *parser) {
	if ev.Value == "" {
		p.fault("/value", "is missing")
	} else if len(ev.Value) > MaxDocument {
		p.fault("/value", fmt.Sprintf("has %d bytes, a whole document may have %d", len(ev.Value), MaxDocument))
	}
	if ev.Kind != "" && !word(ev.Kind) {
		p.fault("/kind", kindRule)
	}
	if ev.TTL != 0 && ev.TTL < time.Second {
		p.fault("/ttl", "must be at least 1s")
	}
	if ev.TTL != 0 && !ev.Expires.IsZero() {
		p.fault("/ttl", "stands beside a moment of expiry")
	}
	if t := ev.Run.Trigger; t != "" && t != TriggerNow && t != TriggerNext {
		p.fault("/run/trigger", `must be "now" or "next"`)
	}
	if ev.Run.Splay < 0 {
		p.fault("/run/splay", "must be a duration above 0 such as 90s, 5m or 1h30m")
	}
	if len(ev.Run.Tags) > MaxTags {
		p.fault("/run/tags", fmt.Sprintf("has %d items, at most %d are allowed", len(ev.Run.Tags), MaxTags))
	}
	for i, tag := range ev.Run.Tags {
		if !word(tag) {
			p.fault(jsontext.Pointer(fmt.Sprintf("/run/tags/%d", i)), tagRule)
		}
	}
}

type eventJSON struct {
	ID        string         `json:"id"`
	Source    string         `json:"source,omitzero"`
	Time      time.Time      `json:"time,omitzero"`
	Scope     Scope          `json:"scope"`
	Entry     string         `json:"entry"`
	Action    Action         `json:"action"`
	Value     jsontext.Value `json:"value,omitzero"`
	Kind      string         `json:"kind,omitzero"`
	TTL       string         `json:"ttl,omitzero"`
	Sensitive bool           `json:"sensitive,omitzero"`
	Run       *runJSON       `json:"run,omitzero"`
	Owner     string         `json:"owner,omitzero"`
}

// MarshalJSON returns the event as JSON, durations as Go writes them.
func (ev Event) MarshalJSON() ([]byte, error) {
	out := eventJSON{
		ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: ev.Scope, Entry: ev.Entry, Action: ev.Action,
		Kind: ev.Kind, Sensitive: ev.Sensitive, Run: ev.Run.wire(), Owner: ev.Owner,
	}
	if ev.Value != "" {
		out.Value = jsontext.Value(ev.Value)
	}
	if ev.TTL != 0 {
		out.TTL = ev.TTL.String()
	}
	return json.Marshal(out)
}

// order is the total order of events: time as an instant, source, id.
type order struct {
	time       time.Time
	source, id string
}

func (a order) compare(b order) int {
	return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.source, b.source), cmp.Compare(a.id, b.id))
}
