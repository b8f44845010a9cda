package webhook

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Media types of CloudEvents 1.0 (JSON event format and HTTP binding).
const (
	structuredType = "application/cloudevents+json"
	batchType      = "application/cloudevents-batch+json"
	jsonType       = "application/json"
	headerPrefix   = "Ce-" // as net/http writes it
)

// maxBatch is how many events one request may hold.
const maxBatch = 1000

// The types of event.
const (
	setType    = "bellpull.set"
	removeType = "bellpull.remove"
)

// cloudEvent is an event's attributes, and its data.
type cloudEvent struct {
	attributes map[string]string
	data       schemas.Value // "" = none
	faults     []schemas.Fault
}

// cloudEvents reads a request to /v1/events. The content type is one that
// [eventTypes] takes. An error has all faults, with pointers into the body; those
// of a header point to the attribute.
func cloudEvents(contentType string, header http.Header, body []byte) ([]message, error) {
	if contentType == jsonType {
		return gather("event", []cloudEvent{binaryEvent(header, body)}, false)
	}
	v, err := schemas.ParseValue(body)
	if err != nil {
		return nil, err
	}
	if contentType == structuredType {
		return gather("event", []cloudEvent{structuredEvent(v)}, false)
	}
	items := slices.Collect(v.Elements())
	if v.Kind() != '[' {
		return nil, &schemas.InvalidError{What: "batch", Faults: []schemas.Fault{{Message: "must be an array of events"}}}
	}
	if len(items) == 0 || len(items) > maxBatch {
		return nil, &schemas.InvalidError{What: "batch", Faults: []schemas.Fault{{
			Message: fmt.Sprintf("holds %d events, must be 1 to %d", len(items), maxBatch),
		}}}
	}
	events := make([]cloudEvent, len(items))
	for i, item := range items {
		events[i] = structuredEvent(item)
	}
	return gather("batch", events, true)
}

// gather turns all into messages, or tells the faults of all.
func gather(what string, events []cloudEvent, batch bool) ([]message, error) {
	var messages []message
	var faults []schemas.Fault
	for i, e := range events {
		prefix := ""
		if batch {
			prefix = fmt.Sprintf("/%d", i)
		}
		ev, ifRevision := e.event(), e.revision("ifrevision")
		for _, f := range e.faults {
			faults = append(faults, schemas.Fault{Pointer: prefix + f.Pointer, Message: f.Message})
		}
		messages = append(messages, message{event: ev, ifRevision: ifRevision, place: func(inValue bool, at string) string {
			return prefix + attributePlace(inValue, at)
		}})
	}
	if len(faults) > 0 {
		return nil, &schemas.InvalidError{What: what, Faults: faults}
	}
	return messages, nil
}

// attributePlace turns a place in the event's own form into one in the CloudEvent.
func attributePlace(inValue bool, at string) string {
	if inValue {
		return "/data" + at
	}
	for from, to := range map[string]string{"/scope": "/subject", "/value": "/data", "/action": "/type"} {
		if at == from {
			return to
		}
	}
	if rest, ok := strings.CutPrefix(at, "/run"); ok {
		return rest
	}
	return at
}

func (e *cloudEvent) fault(at, text string) {
	e.faults = append(e.faults, schemas.Fault{Pointer: at, Message: text})
}

// structuredEvent reads an event in the JSON format.
func structuredEvent(v schemas.Value) cloudEvent {
	e := cloudEvent{attributes: map[string]string{}}
	if v.Kind() != '{' {
		e.fault("", "must be an object")
		return e
	}
	for name, item := range v.Members() {
		at := "/" + escape(name)
		switch {
		case name == "data":
			if e.data != "" {
				e.fault(at, "stands beside data_base64")
			}
			e.data = item
		case name == "data_base64":
			e.decode(at, item)
		case !attributeName(name):
			e.fault(at, "is no attribute's name: these are of a-z and 0-9")
		case item.Kind() == '"':
			e.attributes[name] = item.Text()
		case item.Kind() == 't', item.Kind() == 'f', item.Kind() == '0':
			e.attributes[name] = string(item)
		case item.Kind() == 'n': // as if it were not there, says the specification
		default:
			e.fault(at, "must be a string")
		}
	}
	return e
}

func (e *cloudEvent) decode(at string, item schemas.Value) {
	if e.data != "" {
		e.fault(at, "stands beside data")
		return
	}
	body, err := base64.StdEncoding.DecodeString(item.Text())
	if item.Kind() != '"' || err != nil {
		e.fault(at, "must be base64")
		return
	}
	if e.data, err = schemas.ParseValue(body); err != nil {
		e.fault(at, "holds no valid JSON: "+err.Error())
	}
}

// binaryEvent reads an event whose attributes are headers and whose data is the
// body.
func binaryEvent(header http.Header, body []byte) cloudEvent {
	e := cloudEvent{attributes: map[string]string{}}
	for key, values := range header {
		if !strings.HasPrefix(key, headerPrefix) {
			continue
		}
		name := strings.ToLower(key[len(headerPrefix):])
		text, err := url.PathUnescape(values[0])
		switch {
		case !attributeName(name):
			e.fault("/"+escape(name), "is no attribute's name: these are of a-z and 0-9")
		case len(values) > 1:
			e.fault("/"+name, "stands in several headers")
		case err != nil:
			e.fault("/"+name, "is not percent-encoded as a header of CloudEvents must be")
		default:
			e.attributes[name] = text
		}
	}
	if len(body) > 0 {
		v, err := schemas.ParseValue(body)
		if err != nil {
			e.fault("/data", err.Error())
		}
		e.data = v
	}
	return e
}

func attributeName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// event makes the event, and notes what is wrong with the attributes. What the
// event's own rules say is checked later.
func (e *cloudEvent) event() schemas.Event {
	a := e.attributes
	for _, name := range []string{"specversion", "type", "id", "source", "subject", "entry", "time"} {
		if a[name] == "" {
			e.fault("/"+name, "is missing")
		}
	}
	if v := a["specversion"]; v != "" && v != "1.0" {
		e.fault("/specversion", "must be 1.0")
	}
	if t := a["datacontenttype"]; t != "" && !isJSON(t) {
		e.fault("/datacontenttype", "must be application/json")
	}
	ev := schemas.Event{
		ID: a["id"], Source: a["source"], Scope: schemas.Scope(a["subject"]), Entry: a["entry"],
		Time: e.time("time"),
	}
	switch a["type"] {
	case setType:
		ev.Action = schemas.ActionSet
		if ev.Value = e.data; e.data == "" && len(e.faults) == 0 {
			e.fault("/data", "is missing; a null is written as null")
		}
		ev.Kind, ev.TTL, ev.Sensitive = a["kind"], e.duration("ttl"), e.bool("sensitive")
		ev.Run = schemas.RunPolicy{Trigger: schemas.Trigger(a["trigger"]), Splay: e.duration("splay"), Noop: e.bool("noop")}
		if tags := a["tags"]; tags != "" {
			ev.Run.Tags = strings.Split(tags, ",")
		}
	case removeType:
		ev.Action = schemas.ActionRemove
		if e.data != "" {
			e.fault("/data", "must not stand in a removal")
		}
		for _, name := range []string{"kind", "ttl", "sensitive", "trigger", "splay", "noop", "tags"} {
			if a[name] != "" {
				e.fault("/"+name, "must not stand in a removal")
			}
		}
	case "":
	default:
		e.fault("/type", "must be "+setType+" or "+removeType)
	}
	return ev
}

func (e *cloudEvent) time(name string) time.Time {
	text := e.attributes[name]
	if text == "" {
		return time.Time{}
	}
	t, err := schemas.ParseTime(text)
	if err != nil || t.IsZero() {
		e.fault("/"+name, "must be an RFC 3339 time such as 2026-12-01T10:00:00Z")
	}
	return t
}

func (e *cloudEvent) duration(name string) time.Duration {
	text := e.attributes[name]
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		e.fault("/"+name, durationRule)
	}
	return d
}

// revision is a compare-and-set: the revision that the sender has seen.
func (e *cloudEvent) revision(name string) *uint64 {
	text := e.attributes[name]
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		e.fault("/"+name, "must be the revision that the scope stands at, or 0 for a scope without a document")
	}
	return &n
}

const durationRule = "must be a duration above 0 such as 90s, 5m or 1h30m"

func (e *cloudEvent) bool(name string) bool {
	switch e.attributes[name] {
	case "true":
		return true
	case "", "false":
		return false
	}
	e.fault("/"+name, "must be true or false")
	return false
}

// isJSON reports whether a media type is JSON in UTF-8.
func isJSON(text string) bool {
	media, parameters, err := mime.ParseMediaType(text)
	charset, given := parameters["charset"]
	return err == nil && (media == jsonType || strings.HasSuffix(media, "+json")) && (!given || strings.EqualFold(charset, "utf-8"))
}
