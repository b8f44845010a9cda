package schemas

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseDocument reads a document strictly. The error is an [*InvalidError] that
// names every fault with its JSON pointer. An entry without a time stays without:
// see [Document.Dated].
func ParseDocument(body []byte) (Document, error) {
	raw, err := parseJSON("document", body)
	if err != nil {
		return Document{}, err
	}
	var p parser
	d := Document{Entries: map[string]Entry{}, Removed: map[string]Removal{}}
	p.object("", raw, []string{"bellpull", "entries"}, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		switch name {
		case "bellpull":
			p.version(at, raw)
		case "entries":
			p.names(at, raw, func(name string, at jsontext.Pointer, raw jsontext.Value) { d.Entries[name] = p.entry(at, raw) })
		case "removed":
			p.names(at, raw, func(name string, at jsontext.Pointer, raw jsontext.Value) { d.Removed[name] = p.removal(at, raw) })
		case "superseded_before":
			d.SupersededBefore = p.time(at, raw)
		default:
			return false
		}
		return true
	})
	for name := range d.Entries {
		if key, _, isMember := SplitName(name); isMember {
			if _, both := d.Entries[key]; both {
				p.fault(jsontext.Pointer("/entries").AppendToken(name), fmt.Sprintf("stands beside an entry %q; a key has members or one value", clip(key)))
			}
		}
	}
	if len(p.faults) > 0 {
		sortFaults(p.faults)
		return Document{}, &InvalidError{What: "document", Faults: p.faults}
	}
	return d, nil
}

// parser reads members of a text that parseJSON has accepted, and collects faults.
type parser struct{ faults []Fault }

func (p *parser) fault(at jsontext.Pointer, message string) {
	p.faults = append(p.faults, Fault{Pointer: string(at), Message: message})
}

func (p *parser) version(at jsontext.Pointer, raw jsontext.Value) {
	if string(raw) != "1" {
		p.fault(at, "must be 1, the format that this version of bellpull reads")
	}
}

// object hands each member to read, which returns false for a name it does not know.
func (p *parser) object(at jsontext.Pointer, raw jsontext.Value, required []string, read func(string, jsontext.Pointer, jsontext.Value) bool) {
	if raw.Kind() != '{' {
		p.fault(at, "must be an object")
		return
	}
	found := map[string]bool{}
	for name, value := range members(raw) {
		found[name] = true
		if place := at.AppendToken(name); !read(name, place, value) {
			p.fault(place, "is not a known member here")
		}
	}
	for _, name := range required {
		if !found[name] {
			p.fault(at.AppendToken(name), "is missing")
		}
	}
}

// names reads an object whose member names are entry names.
func (p *parser) names(at jsontext.Pointer, raw jsontext.Value, read func(string, jsontext.Pointer, jsontext.Value)) {
	p.object(at, raw, nil, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		if fault := nameFault(name); fault != "" {
			p.fault(at, "the entry's name "+fault)
		}
		read(name, at, raw)
		return true
	})
}

func (p *parser) entry(at jsontext.Pointer, raw jsontext.Value) (e Entry) {
	p.object(at, raw, []string{"value"}, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		switch name {
		case "value":
			e.Value = Value(raw)
		case "kind":
			if e.Kind = p.string(at, raw); raw.Kind() == '"' && !word(e.Kind) {
				p.fault(at, kindRule)
			}
		case "event":
			e.Event = p.id(at, raw)
		case "source":
			e.Source = p.id(at, raw)
		case "time":
			e.Time = p.time(at, raw)
		case "expires":
			e.Expires = p.time(at, raw)
		case "sensitive":
			e.Sensitive = p.bool(at, raw)
		case "run":
			e.Run = p.run(at, raw)
		case "owner":
			e.Owner = p.id(at, raw)
		case "seen":
			e.Seen = p.seen(at, raw)
		default:
			return false
		}
		return true
	})
	return e
}

func (p *parser) removal(at jsontext.Pointer, raw jsontext.Value) (r Removal) {
	p.object(at, raw, nil, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		switch name {
		case "event":
			r.Event = p.id(at, raw)
		case "source":
			r.Source = p.id(at, raw)
		case "time":
			r.Time = p.time(at, raw)
		case "expired":
			r.Expired = p.bool(at, raw)
		case "seen":
			r.Seen = p.seen(at, raw)
		default:
			return false
		}
		return true
	})
	return r
}

func (p *parser) run(at jsontext.Pointer, raw jsontext.Value) (run RunPolicy) {
	p.object(at, raw, nil, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
		switch name {
		case "trigger":
			run.Trigger = Trigger(p.string(at, raw))
			if raw.Kind() == '"' && run.Trigger != TriggerNow && run.Trigger != TriggerNext {
				p.fault(at, `must be "now" or "next"`)
			}
		case "splay":
			run.Splay = p.duration(at, raw)
		case "tags":
			for i, tag := range p.array(at, raw, MaxTags) {
				at := at.AppendToken(fmt.Sprint(i))
				text := p.string(at, tag)
				if tag.Kind() == '"' && !word(text) {
					p.fault(at, tagRule)
				}
				run.Tags = append(run.Tags, text)
			}
		case "noop":
			run.Noop = p.bool(at, raw)
		default:
			return false
		}
		return true
	})
	return run
}

func (p *parser) seen(at jsontext.Pointer, raw jsontext.Value) (out []Seen) {
	for i, item := range p.array(at, raw, MaxSeen) {
		var s Seen
		p.object(at.AppendToken(fmt.Sprint(i)), item, []string{"event", "time"}, func(name string, at jsontext.Pointer, raw jsontext.Value) bool {
			switch name {
			case "event":
				s.Event = p.id(at, raw)
			case "source":
				s.Source = p.id(at, raw)
			case "time":
				s.Time = p.time(at, raw)
			default:
				return false
			}
			return true
		})
		out = append(out, s)
	}
	return out
}

func (p *parser) array(at jsontext.Pointer, raw jsontext.Value, most int) []jsontext.Value {
	if raw.Kind() != '[' {
		p.fault(at, "must be an array")
		return nil
	}
	items := elements(raw)
	if len(items) > most {
		p.fault(at, fmt.Sprintf("has %d items, at most %d are allowed", len(items), most))
		return nil
	}
	return items
}

func (p *parser) string(at jsontext.Pointer, raw jsontext.Value) string {
	if raw.Kind() != '"' {
		p.fault(at, "must be a string")
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		p.fault(at, "is not a valid string")
	}
	return string(text)
}

func (p *parser) id(at jsontext.Pointer, raw jsontext.Value) string {
	text := p.string(at, raw)
	if fault := idFault(text); fault != "" {
		p.fault(at, fault)
	}
	return text
}

func (p *parser) bool(at jsontext.Pointer, raw jsontext.Value) bool {
	if k := raw.Kind(); k != 't' && k != 'f' {
		p.fault(at, "must be true or false")
	}
	return raw.Kind() == 't'
}

func (p *parser) time(at jsontext.Pointer, raw jsontext.Value) time.Time {
	t, err := ParseTime(p.string(at, raw))
	if raw.Kind() == '"' && err != nil {
		p.fault(at, timeRule)
	}
	return t
}

const timeRule = "must be an RFC 3339 time such as 2026-12-01T10:00:00Z"

// ParseTime reads an RFC 3339 time to the letter and returns it in UTC. Any
// other text is [ErrInvalid].
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	// time.Parse also takes a one-digit hour, a decimal comma, and a zone that is
	// no time of day (golang.org/issue/54580).
	if err != nil || text[len("2006-01-02T15")] != ':' || text[len("2006-01-02T15:04:05")] == ',' || !zone(text) {
		return time.Time{}, invalid(fmt.Sprintf("time %q", clip(text)), "", timeRule)
	}
	return t.UTC(), nil
}

// zone checks the hours and minutes of a time that time.Parse took.
func zone(text string) bool {
	if strings.HasSuffix(text, "Z") {
		return true
	}
	offset := text[len(text)-len("07:00"):]
	return offset[:2] < "24" && offset[3:] < "60"
}

func (p *parser) duration(at jsontext.Pointer, raw jsontext.Value) time.Duration {
	if raw.Kind() == '"' {
		if d, err := time.ParseDuration(p.string(at, raw)); err == nil && d > 0 {
			return d
		}
	}
	p.fault(at, "must be a duration above 0 such as 90s, 5m or 1h30m")
	return 0
}

const (
	kindRule = "must be 1 to 128 of A-Z a-z 0-9 . _ : - and begin with a letter, digit or _"
	tagRule  = "must be a Puppet tag: 1 to 128 of A-Z a-z 0-9 . _ : - beginning with a letter, digit or _"
)

func word(s string) bool {
	if s == "" || len(s) > 128 || strings.IndexByte(".:-", s[0]) >= 0 {
		return false
	}
	for i := range len(s) {
		if !scopeByte(s[i]) {
			return false
		}
	}
	return true
}

func idFault(s string) string {
	switch {
	case utf8.RuneCountInString(s) > MaxID:
		return fmt.Sprintf("has more than %d characters", MaxID)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}
