package webhook

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// route maps a sender's own body to an event.
type route struct {
	config.Route
	body       *kinds.Body // nil = any JSON
	scope      template
	entry      template
	value      *valueTemplate
	removeWhen map[string]schemas.Value // by path
	id         template
	source     template
	time       template
	ttl        template
	trigger    template
	splay      template
	tags       []template
	answer     map[string]template
}

// standIn is what templates are tried with when they are read.
const standIn = "x"

// newRoute compiles a route. What is wrong with it is told to fault.
func newRoute(c config.Route, set *kinds.Set, senders []*sender, fault func(key, message string)) *route {
	r := &route{Route: c, removeWhen: map[string]schemas.Value{}, answer: map[string]template{}}
	if !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?#{} ") {
		fault("path", "must be a path such as /api/trigger-firewall-update")
	}
	if len(c.Methods) == 0 {
		r.Methods = []string{http.MethodPost}
	}
	for i, method := range c.Methods {
		if method != http.MethodPost && method != http.MethodDelete {
			fault(fmt.Sprintf("methods[%d]", i), "must be POST or DELETE")
		}
	}
	for i, name := range c.Senders {
		if !slices.ContainsFunc(senders, func(s *sender) bool { return s.Name == name }) {
			fault(fmt.Sprintf("senders[%d]", i), fmt.Sprintf("there is no sender %q", name))
		}
	}
	if c.Kind != "" && !slices.Contains(set.Names(), c.Kind) {
		fault("kind", fmt.Sprintf("there is no kind %q; the kinds are %s", c.Kind, strings.Join(set.Names(), ", ")))
	}
	r.compileBody(set, fault)
	r.compileTemplates(fault)
	checkCap(c.Cap, fault)
	return r
}

func (r *route) compileBody(set *kinds.Set, fault func(key, message string)) {
	var err error
	switch schema := r.Body.(type) {
	case nil:
	case string:
		r.body, err = set.BodyFile(schema)
	default:
		var text schemas.Value
		if text, err = toValue(schema); err == nil {
			r.body, err = set.Body("schema", []byte(text))
		}
	}
	if err != nil {
		fault("body", err.Error())
	}
}

func (r *route) compileTemplates(fault func(key, message string)) {
	compile := func(key, text string, into *template) {
		t, err := parseTemplate(text)
		if err != nil {
			fault(key, err.Error())
		}
		*into = t
	}
	compile("scope", r.Route.Scope, &r.scope)
	if _, err := schemas.ParseScope(r.scope.with(standIn)); err != nil {
		fault("scope", err.Error())
	}
	compile("entry", r.Route.Entry, &r.entry)
	if err := schemas.CheckName(r.entry.with(standIn)); err != nil {
		fault("entry", err.Error())
	}
	compile("id", r.Route.ID, &r.id)
	compile("source", r.Route.Source, &r.source)
	compile("time", r.Route.Time, &r.time)
	compile("ttl", r.Route.TTL, &r.ttl)
	compile("run.trigger", r.Run.Trigger, &r.trigger)
	compile("run.splay", r.Run.Splay, &r.splay)
	r.tags = make([]template, len(r.Run.Tags))
	for i, tag := range r.Run.Tags {
		compile(fmt.Sprintf("run.tags[%d]", i), tag, &r.tags[i])
	}
	for name, text := range r.Answer {
		if slices.Contains(answerNames(), name) {
			fault("answer."+name, "is a member that each answer has")
		}
		t := template{}
		compile("answer."+name, text, &t)
		r.answer[name] = t
	}
	var err error
	if r.value, err = parseValueTemplate(r.Value); err != nil {
		fault("value", err.Error())
	}
	for path, v := range r.RemoveWhen {
		value, err := toValue(v)
		if err != nil {
			fault("remove_when."+path, err.Error())
		}
		r.removeWhen[path] = value
	}
}

// message is one event of a request, on its way into the bucket.
type message struct {
	event schemas.Event
	// place turns a place in the event, or in its value, into one in the request.
	place  func(inValue bool, at string) string
	answer map[string]schemas.Value
	cap    config.Cap
	// ifRevision is the revision that the scope has to stand at; nil = any.
	ifRevision *uint64
}

// message makes the event of a request to the route. The error has every fault.
func (r *route) message(method string, body []byte, p proof) (message, error) {
	v, err := schemas.ParseValue(body)
	if err != nil {
		return message{}, err
	}
	if r.body != nil {
		if v, err = r.body.Check(v); err != nil {
			return message{}, err
		}
	}
	f := filling{body: v}
	remove := method == http.MethodDelete || r.removes(v)
	ev := schemas.Event{
		ID: p.id, Source: p.sender.Name, Action: schemas.ActionSet,
		Scope: schemas.Scope(f.text(r.scope, oneSegment)),
		Entry: f.text(r.entry, plainName),
		Time:  f.time(r.time),
	}
	if ev.ID == "" {
		ev.ID = digest(body)
	}
	if method == http.MethodDelete {
		ev.ID += ":delete" // the same body sets, by POST
	}
	if len(r.id) > 0 {
		ev.ID = f.text(r.id, anything)
	}
	if len(r.source) > 0 {
		ev.Source = f.text(r.source, anything)
	}
	where := map[string]string{}
	if remove {
		ev.Action = schemas.ActionRemove
	} else {
		value, faults := r.value.fill(v, "", where)
		f.faults = append(f.faults, faults...)
		if len(faults) == 0 {
			ev.Value, err = schemas.ParseValue([]byte(value))
		}
		ev.Kind, ev.TTL, ev.Sensitive = r.Kind, f.duration(r.ttl), r.Sensitive
		ev.Run = schemas.RunPolicy{Trigger: schemas.Trigger(f.text(r.trigger, anything)), Splay: f.duration(r.splay), Noop: r.Run.Noop}
		for _, tag := range r.tags {
			ev.Run.Tags = append(ev.Run.Tags, f.text(tag, anything))
		}
	}
	answer := map[string]schemas.Value{}
	for name, t := range r.answer {
		value, faults := t.value(v)
		f.faults = append(f.faults, faults...)
		answer[name] = value
	}
	switch {
	case len(f.faults) > 0:
		return message{}, &schemas.InvalidError{What: "request body", Faults: f.distinct()}
	case err != nil:
		return message{}, err
	}
	return message{event: ev, place: r.place(where), answer: answer, cap: r.Route.Cap}, nil
}

func (r *route) removes(body schemas.Value) bool {
	for path, want := range r.removeWhen {
		if got, ok := find(body, strings.Split(path, ".")); !ok || got != want {
			return false
		}
	}
	return len(r.removeWhen) > 0
}

// place tells where in the body something comes from; what comes from nowhere in
// particular is told by its place in the event.
func (r *route) place(where map[string]string) func(bool, string) string {
	return func(inValue bool, at string) string {
		if inValue {
			for from := at; from != ""; from = from[:strings.LastIndexByte(from, '/')] {
				if place, ok := where[from]; ok {
					return place + at[len(from):]
				}
			}
			return "/value" + at
		}
		t := map[string]template{
			"/scope": r.scope, "/entry": r.entry, "/id": r.id, "/source": r.source, "/time": r.time, "/ttl": r.ttl,
			"/run/trigger": r.trigger, "/run/splay": r.splay,
		}[at]
		if place := t.place(); place != "" {
			return place
		}
		return at
	}
}

// filling fills a route's templates in and gathers what is wrong.
type filling struct {
	body   schemas.Value
	faults []schemas.Fault
}

func (f *filling) text(t template, refuse func(string) string) string {
	text, faults := t.text(f.body, refuse)
	f.faults = append(f.faults, faults...)
	return text
}

func (f *filling) time(t template) time.Time {
	text := f.text(t, anything)
	if text == "" {
		return time.Time{}
	}
	at, err := schemas.ParseTime(text)
	if err != nil || at.IsZero() {
		f.faults = append(f.faults, schemas.Fault{Pointer: t.place(), Message: "must be an RFC 3339 time such as 2026-12-01T10:00:00Z"})
	}
	return at
}

func (f *filling) duration(t template) time.Duration {
	text := f.text(t, anything)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		f.faults = append(f.faults, schemas.Fault{Pointer: t.place(), Message: durationRule})
	}
	return d
}

// distinct returns the faults, each once, in the order of their places.
func (f *filling) distinct() []schemas.Fault {
	set := map[schemas.Fault]bool{}
	for _, fault := range f.faults {
		set[fault] = true
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b schemas.Fault) int { return strings.Compare(a.Pointer+a.Message, b.Pointer+b.Message) })
}

// oneSegment keeps a sender from reaching into another level of the scopes.
func oneSegment(text string) string {
	if text == "" || strings.Contains(text, "/") {
		return "must be one segment of a scope: not empty, and without a /"
	}
	return ""
}

// plainName keeps a sender from making a member where the route has none.
func plainName(text string) string {
	if text == "" || strings.ContainsAny(text, "[]") {
		return "must be a part of an entry's name: not empty, and without [ and ]"
	}
	return ""
}
