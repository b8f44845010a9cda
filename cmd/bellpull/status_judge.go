package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// verdict is how far a node is with a target.
type verdict string

// The verdicts, the worse the later.
const (
	converged verdict = "converged" // it has applied the target
	pending   verdict = "pending"
	disabled  verdict = "disabled" // pending, and the agent is disabled
	failed    verdict = "failed"   // its last run for the target failed; it tries again
	silent    verdict = "silent"   // nothing was heard of it for too long
)

// target is what nodes are to have applied: a revision of a scope, or one entry of it.
type target struct {
	bucket   string // the bucket's id
	scope    schemas.Scope
	revision uint64
	entry    string // "" = all entries
}

// judgement is a verdict and its reason.
type judgement struct {
	verdict verdict
	why     string // "" = converged
}

// judge tells how far a node is with the target; ok is false when the scope is
// not one of the node's.
func judge(s natskv.NodeStatus, t target) (j judgement, ok bool) {
	if s.Err != nil {
		return judgement{pending, s.Err.Error()}, true
	}
	p, known := s.Status.Scopes[t.scope]
	switch {
	case !known:
		return judgement{}, false
	case s.Status.Bucket != t.bucket:
		return judgement{pending, "it has read another bucket last: " + s.Status.Bucket}, true
	case p.Wanted < t.revision:
		fault := cmp.Or(s.Status.Faults[string(t.scope)], s.Status.Faults["bucket"], "it has not read it yet")
		return judgement{pending, fmt.Sprintf("%s, is at revision %d", fault, p.Wanted)}, true
	case applied(p, t):
		return judgement{verdict: converged}, true
	}
	why := cmp.Or(s.Status.Why, string(s.Status.State))
	switch s.Status.State {
	case schemas.NodeFailed:
		return judgement{failed, why}, true
	case schemas.NodeDisabled:
		return judgement{disabled, why}, true
	case schemas.NodeConverged:
		return judgement{pending, "waits for the next run: " + strings.Join(p.Next, ", ")}, true
	}
	return judgement{pending, string(s.Status.State) + ": " + why}, true
}

// applied reports whether a node that has read the target has applied it.
func applied(p schemas.StatusScope, t target) bool {
	if t.entry == "" {
		return p.Applied >= t.revision && len(p.Next) == 0
	}
	named := slices.Contains(p.Pending, t.entry) || slices.Contains(p.Next, t.entry)
	// Where not all names fit into the status, the entry may be one of the others.
	return p.Applied >= t.revision && !slices.Contains(p.Next, t.entry) || !named && p.More == 0 && len(p.Next) < schemas.MaxStatusNames
}

// heard makes the verdict silent where nothing was heard of a node for too long.
func heard(s natskv.NodeStatus, j judgement, now time.Time, limit time.Duration) judgement {
	if age := now.Sub(s.Time); age > limit {
		return judgement{silent, strings.TrimSuffix(fmt.Sprintf("silent since %s; %s", stamp(s.Time), j.why), "; ")}
	}
	return j
}

// rank orders verdicts from good to bad.
func rank(v verdict) int {
	return slices.Index([]verdict{converged, pending, disabled, failed, silent}, v)
}

// worst is the worse of two judgements.
func worst(a, b judgement) judgement {
	if rank(b.verdict) > rank(a.verdict) {
		return b
	}
	return a
}
