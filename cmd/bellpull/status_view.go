package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// countView is how many nodes are how far.
type countView struct {
	Nodes     int `json:"nodes"`
	Converged int `json:"converged"`
	Pending   int `json:"pending"`
	Disabled  int `json:"disabled"`
	Failed    int `json:"failed"`
	Silent    int `json:"silent"`
}

func (c *countView) add(v verdict) {
	c.Nodes++
	*map[verdict]*int{converged: &c.Converged, pending: &c.Pending, disabled: &c.Disabled, failed: &c.Failed, silent: &c.Silent}[v]++
}

type fleetView struct {
	Bucket string       `json:"bucket"`
	Fleet  countView    `json:"fleet"`
	Scopes []targetView `json:"scopes"`
	// Events are those that some node has yet to apply.
	Events []targetView `json:"events"`
	// Nodes are those that have not converged.
	Nodes []nodeView `json:"nodes"`
}

// targetView is how far the nodes of a scope are with it, or with one event.
type targetView struct {
	Event    string        `json:"event,omitzero"`
	Scope    schemas.Scope `json:"scope"`
	Entry    string        `json:"entry,omitzero"`
	Revision uint64        `json:"revision"`
	countView
}

// nodeView is how far one node is.
type nodeView struct {
	Node     string            `json:"node"`
	Verdict  verdict           `json:"verdict"`
	Why      string            `json:"why,omitzero"`
	State    schemas.NodeState `json:"state"`
	Since    time.Time         `json:"since"`             // in this state
	Heard    time.Time         `json:"heard"`             // when it reported last
	Wanted   uint64            `json:"wanted,omitzero"`   // revision that it has read, of the scope asked for
	Applied  uint64            `json:"applied,omitzero"`  // revision that it has applied, of the scope asked for
	Outcome  string            `json:"outcome,omitzero"`  // of its last run
	Seconds  float64           `json:"seconds,omitzero"`  // that its last run took
	Failures []string          `json:"failures,omitzero"` // resources that failed in its last run
	Version  string            `json:"version,omitzero"`
	Agent    string            `json:"agent,omitzero"`
}

// view is a node's line, for the targets of the fleet.
func (f *fleet) view(node string, o statusOptions) nodeView {
	s := f.nodes[node]
	j := heard(s, f.judge(s), time.Now(), o.silent)
	v := nodeView{
		Node: node, Verdict: j.verdict, Why: j.why, State: s.Status.State, Since: s.Status.Time, Heard: s.Time,
		Version: s.Status.Version, Agent: s.Status.Agent,
	}
	if run := s.Status.Run; run != nil {
		v.Outcome, v.Seconds, v.Failures = run.Outcome, run.Seconds, run.Failed
	}
	if len(f.targets) == 1 {
		for scope := range f.targets {
			v.Wanted, v.Applied = s.Status.Scopes[scope].Wanted, s.Status.Scopes[scope].Applied
		}
	}
	return v
}

func (f *fleet) views(o statusOptions) []nodeView {
	views := []nodeView{}
	for _, node := range slices.Sorted(maps.Keys(f.nodes)) {
		views = append(views, f.view(node, o))
	}
	return views
}

// count counts the nodes of one target.
func (f *fleet) count(t target, o statusOptions) countView {
	var c countView
	for _, s := range f.nodes {
		if j, ok := judge(s, t); ok {
			c.add(heard(s, j, time.Now(), o.silent).verdict)
		}
	}
	return c
}

// printFleet shows the summary: scopes, events that are not everywhere, and the
// nodes that need a look.
func (a *app) printFleet(f *fleet, o statusOptions) error {
	out := fleetView{Bucket: f.bucket, Scopes: []targetView{}, Events: []targetView{}, Nodes: []nodeView{}}
	for _, v := range f.views(o) {
		out.Fleet.add(v.Verdict)
		if v.Verdict != converged {
			out.Nodes = append(out.Nodes, v)
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(f.targets)) {
		t := f.targets[scope]
		out.Scopes = append(out.Scopes, targetView{Scope: scope, Revision: t.revision, countView: f.count(t, o)})
	}
	for _, event := range slices.Sorted(maps.Keys(f.events)) {
		t := f.events[event]
		if c := f.count(t, o); c.Converged < c.Nodes {
			out.Events = append(out.Events, targetView{Event: event, Scope: t.scope, Entry: t.entry, Revision: t.revision, countView: c})
		}
	}
	return a.print(out, func(row func(...any)) {
		row("SCOPE", "REVISION", "NODES", "CONVERGED", "PENDING", "DISABLED", "FAILED", "SILENT")
		counts := func(name string, revision any, c countView) {
			row(name, revision, c.Nodes, c.Converged, c.Pending, c.Disabled, c.Failed, c.Silent)
		}
		for _, s := range out.Scopes {
			counts(string(s.Scope), s.Revision, s.countView)
		}
		counts("(all nodes)", "", out.Fleet)
		for _, e := range out.Events {
			counts(fmt.Sprintf("event %s: %s %s", e.Event, e.Scope, e.Entry), e.Revision, e.countView)
		}
		const most = 20 // a table is for people; JSON has all
		for i, v := range out.Nodes {
			if i == most {
				row(fmt.Sprintf("%d more nodes: -o json has all", len(out.Nodes)-most))
				break
			}
			row(fmt.Sprintf("%s is %s: %s", v.Node, v.Verdict, cmp.Or(v.Why, "no reason is known")))
		}
	})
}

// printNodes shows each node of a scope, or of an event's scope.
func (a *app) printNodes(f *fleet, o statusOptions) error {
	views := f.views(o)
	return a.print(views, func(row func(...any)) {
		row("NODE", "VERDICT", "WANTED", "APPLIED", "LAST RUN", "SECONDS", "WHY")
		for _, v := range views {
			row(v.Node, v.Verdict, v.Wanted, v.Applied, v.Outcome, v.Seconds, strings.Join(append([]string{v.Why}, v.Failures...), " "))
		}
	})
}

// printNode shows all that a node reported.
func (a *app) printNode(f *fleet, o statusOptions) error {
	s := f.nodes[o.node]
	if s.Err != nil {
		return fmt.Errorf("status of %s: %w", o.node, s.Err)
	}
	view := f.view(o.node, o)
	full := struct {
		schemas.Status
		Heard   time.Time `json:"heard"`
		Verdict verdict   `json:"verdict"`
		Reason  string    `json:"reason,omitzero"` // of the verdict
	}{s.Status, s.Time, view.Verdict, view.Why}
	return a.print(full, func(row func(...any)) {
		row("NODE", s.Node)
		row("VERDICT", strings.TrimSuffix(fmt.Sprintf("%s: %s", view.Verdict, view.Why), ": "))
		row("STATE", strings.TrimSuffix(fmt.Sprintf("%s since %s: %s", s.Status.State, stamp(s.Status.Time), s.Status.Why), ": "))
		row("HEARD", stamp(s.Time))
		row("VERSION", fmt.Sprintf("bellpull-watch %s, agent %s, proof %s", s.Status.Version, cmp.Or(s.Status.Agent, "unknown"), s.Status.Proof))
		if run := s.Status.Run; run != nil {
			row("LAST RUN", fmt.Sprintf("%s at %s, %.1f s", run.Outcome, stamp(run.Started), run.Seconds))
			for _, line := range append([]string{run.Reason}, run.Failed...) {
				row("", line)
			}
		}
		for _, scope := range slices.Sorted(maps.Keys(s.Status.Scopes)) {
			p := s.Status.Scopes[scope]
			row("SCOPE", fmt.Sprintf("%s: wanted %d, applied %d %s", scope, p.Wanted, p.Applied, strings.Join(append(p.Pending, p.Next...), ", ")))
		}
		for _, subject := range slices.Sorted(maps.Keys(s.Status.Faults)) {
			row("FAULT", subject+": "+s.Status.Faults[subject])
		}
	})
}
