// Package webhook is the gateway's http.Handler: it finds out who sends, turns
// what was sent into events, checks them, and publishes them.
//
//	h, err := webhook.New(webhook.Config{Gateway: cfg.Gateway, Kinds: set, Publisher: p, ...})
//
// A request is answered with 202 only when JetStream has acknowledged its events.
// The handler holds nothing: a request that is repeated, whether it was answered
// or not, changes nothing that its first delivery has not changed.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// Publisher writes events; publish.Publisher is one.
type Publisher interface {
	Check(schemas.Event) (schemas.Event, error)
	Publish(context.Context, schemas.Event, publish.Options) (publish.Result, error)
}

// Config is what a Handler needs. All but Now must be set.
type Config struct {
	Gateway        config.Gateway
	Kinds          *kinds.Set
	Publisher      Publisher
	Bucket, Stream string           // their names, for the answers
	Ready          func() error     // why nothing can be published at the moment; nil = it can
	Notes          func() []string  // what the operator should know; nil = nothing
	Metrics        *Metrics         // shared with the handler before a reload
	Logger         hclog.Logger     // for the access log
	Now            func() time.Time // nil = [time.Now]
	Offline        bool             // secrets are only looked at for their form, where the handler is made to be checked
}

// Handler answers the gateway's requests. A reload makes a new one.
type Handler struct {
	cfg     Config
	senders []*sender
	routes  map[string]*route // by path
	bodies  budget
	access  accessLog
	now     func() time.Time
	window  time.Duration
}

// The gateway's own paths.
const (
	eventsPath  = "/v1/events"
	healthPath  = "/healthz"
	readyPath   = "/readyz"
	metricsPath = "/metrics"
)

// New compiles the routes and reads the secrets. An error is a
// *schemas.InvalidError with every fault and its place in the configuration.
func New(cfg Config) (*Handler, error) {
	h := &Handler{
		cfg: cfg, routes: map[string]*route{}, now: cfg.Now, window: cfg.Gateway.ReplayWindow,
		access: accessLog{log: cfg.Logger},
	}
	if h.now == nil {
		h.now = time.Now
	}
	var faults []schemas.Fault
	fault := func(key, message string) { faults = append(faults, schemas.Fault{Pointer: key, Message: message}) }
	at := func(what string, i int) func(key, message string) {
		return func(key, message string) { fault(fmt.Sprintf("gateway.%s[%d].%s", what, i, key), message) }
	}
	names := map[string]bool{}
	for i, c := range cfg.Gateway.Senders {
		if c.Name == "" || names[c.Name] {
			at("senders", i)("name", "must be there, and no other sender's")
		}
		names[c.Name] = true
		h.senders = append(h.senders, newSender(c, cfg.Offline, at("senders", i)))
	}
	for i, c := range cfg.Gateway.Routes {
		switch c.Path {
		case eventsPath, healthPath, readyPath, metricsPath:
			at("routes", i)("path", "is one of the gateway's own")
		}
		if h.routes[c.Path] != nil {
			at("routes", i)("path", "is another route's too")
		}
		h.routes[c.Path] = newRoute(c, cfg.Kinds, h.senders, at("routes", i))
	}
	if len(faults) > 0 {
		return nil, &schemas.InvalidError{What: "configuration", Faults: faults}
	}
	return h, nil
}

// ServeHTTP answers a request, and logs and counts it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &record{began: time.Now(), route: "other"}
	defer func() {
		h.cfg.Metrics.count(rec)
		h.access.write(r, rec)
	}()
	path := r.URL.Path
	route := h.routes[path]
	methods := []string{http.MethodGet, http.MethodHead}
	switch {
	case path == eventsPath:
		methods = []string{http.MethodPost}
	case route != nil:
		methods = route.Methods
	case path == healthPath, path == readyPath, path == metricsPath:
	default:
		h.problem(w, rec, http.StatusNotFound, problem{Detail: "there is no such path here"})
		return
	}
	rec.route = path
	if !slices.Contains(methods, r.Method) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		h.problem(w, rec, http.StatusMethodNotAllowed, problem{Detail: "the methods here are " + strings.Join(methods, ", ")})
		return
	}
	switch path {
	case healthPath, readyPath:
		h.health(w, rec, path == readyPath)
	case metricsPath:
		if !h.mayScrape(r) {
			h.fail(w, rec, errUnproven, nil)
			return
		}
		rec.status = http.StatusOK
		h.cfg.Metrics.handler().ServeHTTP(w, r)
	default:
		h.take(w, r, rec, route)
	}
}

// take receives events: those of /v1/events where route is nil.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, rec *record, route *route) {
	p, needsBody, err := h.unread(r.Header)
	if err != nil {
		h.fail(w, rec, err, nil)
		return
	}
	if p.sender != nil {
		rec.sender = p.sender.Name
	}
	contentType, err := media(r.Header, route == nil)
	if err != nil {
		h.fail(w, rec, err, nil)
		return
	}
	body, done, err := h.bodies.read(w, r, int64(h.cfg.Gateway.MaxBody))
	defer done()
	if err == nil && needsBody {
		p, err = h.signed(r.Header, body)
	}
	if p.sender != nil {
		rec.sender = p.sender.Name
	}
	if err != nil {
		h.fail(w, rec, err, nil)
		return
	}
	if p.github && r.Header.Get("X-GitHub-Event") == "ping" {
		rec.status = http.StatusOK
		write(w, rec.status, "application/json", map[string]string{"message": "pong; a ping changes nothing"})
		return
	}
	// A request counts as one event before anything is made of it.
	if err := p.sender.admit(1, h.now()); err != nil {
		rec.outcomes[refused]++
		h.fail(w, rec, err, nil)
		return
	}
	messages, err := h.messages(route, contentType, r, body, p)
	if err == nil {
		rec.about(messages)
		err = p.sender.fits(len(messages))
	}
	if err == nil { // the first was counted with the request
		err = p.sender.admit(len(messages)-1, h.now())
	}
	if err != nil {
		rec.outcomes[refused] += max(1, len(messages))
		h.fail(w, rec, err, nil)
		return
	}
	h.publish(w, rec, messages, p.sender, contentType == batchType, route)
}

// messages reads the events of a request, and checks all of them: those that the
// sender may not send are refused before those that are wrong.
func (h *Handler) messages(route *route, contentType string, r *http.Request, body []byte, p proof) ([]message, error) {
	var messages []message
	var err error
	if route == nil {
		messages, err = cloudEvents(contentType, r.Header, body)
	} else {
		if len(route.Senders) > 0 && !slices.Contains(route.Senders, p.sender.Name) {
			return nil, fmt.Errorf("%w: sender %s may not use %s", errForbidden, p.sender.Name, route.Path)
		}
		var m message
		m, err = route.message(r.Method, body, p)
		messages = []message{m}
	}
	if err != nil {
		return nil, err
	}
	var faults []schemas.Fault
	for i, m := range messages {
		if err := p.sender.may(m.event); err != nil {
			// What is no scope at all is wrong rather than forbidden.
			if invalid := m.event.Check(); invalid != nil {
				faults = append(faults, m.faults(invalid)...)
				continue
			}
			return nil, err
		}
		ev, err := h.cfg.Publisher.Check(m.event)
		if errors.Is(err, schemas.ErrUnavailable) { // the kind's file is bad since a reload, and there is no old one
			return nil, fmt.Errorf("%w: %w", errKind, err)
		}
		if err != nil {
			faults = append(faults, m.faults(err)...)
		}
		messages[i].event = limited(limited(ev, m.cap), p.sender.Cap)
	}
	if len(faults) > 0 {
		return nil, &schemas.InvalidError{What: "event", Faults: faults}
	}
	return messages, nil
}

// faults tells what is wrong with a message by places in the request.
func (m message) faults(err error) []schemas.Fault {
	invalid, ok := errors.AsType[*schemas.InvalidError](err)
	if !ok {
		return []schemas.Fault{{Pointer: m.place(false, ""), Message: err.Error()}}
	}
	faults := slices.Clone(invalid.Faults)
	for i, f := range faults {
		faults[i].Pointer = m.place(invalid.What != "event", f.Pointer)
	}
	return faults
}

var (
	errMedia = errors.New("media type")
	errKind  = errors.New("the event's kind cannot be used at the moment")
)

// media checks how the body is written, and returns its media type.
func media(header http.Header, events bool) (string, error) {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return "", fmt.Errorf("%w: Content-Encoding must be left out; a body is taken as it is", errMedia)
	}
	takes := []string{jsonType}
	if events {
		takes = []string{structuredType, batchType, jsonType}
	}
	contentType := header.Get("Content-Type")
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	if !slices.Contains(takes, name) || !isJSON(contentType) {
		return "", fmt.Errorf("%w: Content-Type must be %s, in UTF-8", errMedia, strings.Join(takes, " or "))
	}
	return name, nil
}

// mayScrape lets this machine read the figures, and who has a sender's token: they
// tell the senders' names. A proxy in front hands on requests of others.
func (h *Handler) mayScrape(r *http.Request) bool {
	host, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && host.Addr().Unmap().IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == "" {
		return true
	}
	p, _, err := h.unread(r.Header)
	return err == nil && p.sender != nil
}

// health answers whether the process works, or whether it can publish.
func (h *Handler) health(w http.ResponseWriter, rec *record, ready bool) {
	body := map[string]any{"status": "ok"}
	if notes := h.notes(); len(notes) > 0 {
		body["status"], body["notes"] = "degraded", notes
	}
	rec.status = http.StatusOK
	if err := h.cfg.Ready(); ready && err != nil {
		rec.status = http.StatusServiceUnavailable
		maps.Copy(body, map[string]any{"status": "unavailable", "reason": err.Error()})
		w.Header().Set("Retry-After", "2")
	}
	write(w, rec.status, "application/json", body)
}

func (h *Handler) notes() []string {
	if h.cfg.Notes == nil {
		return nil
	}
	return h.cfg.Notes()
}
