package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// planView is what an apply does, as it is shown. It holds no secret.
type planView struct {
	Source  string         `json:"source"`
	Owner   string         `json:"owner"`
	Event   string         `json:"event"`
	DryRun  bool           `json:"dry_run,omitzero"`
	Scopes  int            `json:"scopes"` // that are written
	Entries []plannedEntry `json:"entries"`
}

type plannedEntry struct {
	Action action        `json:"action"`
	Scope  schemas.Scope `json:"scope"`
	Entry  string        `json:"entry"`
	Old    *entryView    `json:"old,omitempty"`
	New    *entryView    `json:"new,omitempty"`
	Why    string        `json:"why,omitzero"`
}

func (r *applyRun) view(scopes int, dryRun bool) planView {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := planView{Source: r.source, Owner: r.owner, Event: r.id, DryRun: dryRun, Scopes: scopes, Entries: []plannedEntry{}}
	for _, scope := range slices.Sorted(maps.Keys(r.decided)) {
		for _, d := range r.decided[scope] {
			v.Entries = append(v.Entries, plannedEntry{
				Action: d.action, Scope: d.scope, Entry: d.name, Old: shown(d.old), New: shown(d.new), Why: d.why,
			})
		}
	}
	return v
}

func (r *applyRun) count(a action) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, decisions := range r.decided {
		for _, d := range decisions {
			if d.action == a {
				n++
			}
		}
	}
	return n
}

// shown is an entry without its value if that is a secret.
func shown(e *schemas.Entry) *entryView {
	if e == nil {
		return nil
	}
	v := view(*e)
	if e.Sensitive {
		v.Value = ""
	}
	return &v
}

// signs are the actions in a diff.
func (a action) sign() string {
	switch a {
	case actionAdd:
		return "+"
	case actionChange, actionTake:
		return "~"
	case actionPrune, actionRemove:
		return "-"
	}
	return "!"
}

func (a *app) printPlan(v planView) error {
	return a.print(v, func(row func(...any)) {
		counts := map[action]int{}
		for _, e := range v.Entries {
			counts[e.Action]++
			row(e.Action.sign(), e.Scope, e.Entry, e.words())
		}
		var words []string
		for _, c := range []struct {
			action action
			word   string
		}{{actionAdd, "added"}, {actionChange, "changed"}, {actionTake, "taken"}, {actionPrune, "pruned"}, {actionKeep, "kept"}, {actionLeft, "left"}} {
			if counts[c.action] > 0 {
				words = append(words, fmt.Sprintf("%d %s", counts[c.action], c.word))
			}
		}
		switch {
		case len(words) == 0:
			row("nothing to do")
		case v.DryRun:
			row(fmt.Sprintf("%s, in %d scopes; nothing was written", strings.Join(words, ", "), v.Scopes))
		default:
			row(fmt.Sprintf("%s, in %d scopes", strings.Join(words, ", "), v.Scopes))
		}
	})
}

// words tells what becomes of an entry.
func (e plannedEntry) words() string {
	switch e.Action {
	case actionAdd:
		return e.New.text() + e.New.rest()
	case actionPrune, actionRemove:
		return e.Old.text()
	case actionTake:
		return "taken from " + who(e.Old.Source, e.Old.Event)
	case actionChange:
		if changes := e.changes(); len(changes) > 0 {
			return strings.Join(changes, ", ")
		}
		return "a secret's value"
	case actionKeep:
		return "kept: " + strings.TrimPrefix(e.Why, "kept ")
	}
	return e.Why
}

// changes lists what differs, old -> new.
func (e plannedEntry) changes() (out []string) {
	add := func(name, before, after string) {
		if before != after {
			out = append(out, name+before+" -> "+after)
		}
	}
	add("", e.Old.text(), e.New.text())
	add("kind ", orNone(e.Old.Kind), orNone(e.New.Kind))
	add("expires ", e.Old.until(), e.New.until())
	add("run ", e.Old.policy(), e.New.policy())
	return out
}

const shownValue = 160 // bytes of a value in a line

func (v *entryView) text() string {
	switch text := string(v.Value); {
	case v.Sensitive:
		return masked
	case len(text) > shownValue:
		return strings.ToValidUTF8(text[:shownValue], "") + "…"
	default:
		return text
	}
}

func (v *entryView) rest() string {
	var words []string
	if v.Kind != "" {
		words = append(words, "kind "+v.Kind)
	}
	if !v.Expires.IsZero() {
		words = append(words, "expires "+v.until())
	}
	if v.Run != nil {
		words = append(words, "run "+v.policy())
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func (v *entryView) until() string {
	if v.Expires.IsZero() {
		return "never"
	}
	return stamp(v.Expires)
}

func (v *entryView) policy() string {
	if v.Run == nil {
		return "default"
	}
	var words []string
	if v.Run.Trigger != "" {
		words = append(words, string(v.Run.Trigger))
	}
	if v.Run.Splay != "" {
		words = append(words, "splay "+v.Run.Splay)
	}
	if len(v.Run.Tags) > 0 {
		words = append(words, "tags "+strings.Join(v.Run.Tags, ","))
	}
	if v.Run.Noop {
		words = append(words, "noop")
	}
	return strings.Join(words, " ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
