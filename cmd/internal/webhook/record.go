package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// record is what the log and the figures hold of a request: no header and no body,
// so no secret.
type record struct {
	began    time.Time
	route    string // the path, if it is one of ours; else "other"
	status   int
	sender   string
	events   []string // ids
	scopes   []string
	outcomes [outcomes]int
	err      error
}

// logged is how many ids and scopes of a batch the log shows.
const logged = 5

func (r *record) about(messages []message) {
	for i, m := range messages {
		if i < logged {
			r.events, r.scopes = append(r.events, m.event.ID), append(r.scopes, string(m.event.Scope))
		}
	}
}

// accessLog writes a line for each request. Refusals of strangers are bounded, so
// that a flood of them does not fill a disk.
type accessLog struct {
	log hclog.Logger

	mu      sync.Mutex
	second  time.Time
	refused int
	dropped int
}

// refusalsLogged is how many refusals of strangers are logged in a second.
const refusalsLogged = 10

func (a *accessLog) write(r *http.Request, rec *record) {
	if rec.sender == "" && rec.status >= http.StatusBadRequest && !a.mayLog() {
		return
	}
	args := []any{
		"method", r.Method, "path", clip(r.URL.Path), "status", rec.status,
		"duration", time.Since(rec.began).Round(time.Microsecond).String(), "remote", r.RemoteAddr,
	}
	if rec.sender != "" {
		args = append(args, "sender", rec.sender)
	}
	if len(rec.events) > 0 {
		args = append(args, "events", strings.Join(rec.events, ","), "scopes", strings.Join(rec.scopes, ","))
	}
	if rec.err != nil {
		args = append(args, "error", rec.err)
	}
	switch {
	case rec.status >= http.StatusInternalServerError:
		a.log.Error("request", args...)
	case rec.sender == "" && rec.status < http.StatusBadRequest: // a check of health
		a.log.Debug("request", args...)
	default:
		a.log.Info("request", args...)
	}
}

func (a *accessLog) mayLog() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now().Truncate(time.Second)
	if !now.Equal(a.second) {
		if a.dropped > 0 {
			a.log.Warn("requests of strangers were refused and not logged one by one", "count", a.dropped)
		}
		a.second, a.refused, a.dropped = now, 0, 0
	}
	if a.refused++; a.refused > refusalsLogged {
		a.dropped++
		return false
	}
	return true
}

// clip keeps what a stranger wrote from filling the log, or steering a terminal.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsGraphic(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}
