package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

func TestJudge(t *testing.T) {
	many := make([]string, schemas.MaxStatusNames)
	for i := range many {
		many[i] = fmt.Sprintf("n%d", i)
	}
	web := target{bucket: "b1", scope: "group/web", revision: 7}
	entry := func(name string) target { t := web; t.entry = name; return t }
	tests := []struct {
		name   string
		status schemas.Status
		scope  schemas.StatusScope
		target target
		want   verdict
		why    string
	}{
		{"applied", schemas.Status{State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 7, Applied: 7}, web, converged, ""},
		{"applied more", schemas.Status{State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 9, Applied: 9}, web, converged, ""},
		{"applied, and more is pending", schemas.Status{State: schemas.NodeFailed}, schemas.StatusScope{Wanted: 9, Applied: 7, Pending: []string{"x"}}, web, converged, ""},
		{"not read", schemas.Status{State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 6, Applied: 6}, web, pending, "it has not read it yet, is at revision 6"},
		{"cannot read", schemas.Status{State: schemas.NodeConverged, Faults: map[string]string{"group/web": "is no document"}}, schemas.StatusScope{Wanted: 6, Applied: 6}, web, pending, "is no document, is at revision 6"},
		{"failed before the target", schemas.Status{State: schemas.NodeFailed, Why: "x"}, schemas.StatusScope{Wanted: 6, Applied: 5}, web, pending, "has not read it yet"},
		{"failed", schemas.Status{State: schemas.NodeFailed, Why: "retry 1: x"}, schemas.StatusScope{Wanted: 7, Applied: 5, Pending: []string{"a"}}, web, failed, "retry 1: x"},
		{"tries again", schemas.Status{State: schemas.NodeRunning, Why: "a changed"}, schemas.StatusScope{Wanted: 7, Applied: 5, Pending: []string{"a"}}, web, pending, "running: a changed"},
		{"disabled", schemas.Status{State: schemas.NodeDisabled, Why: "agent is disabled: CHG"}, schemas.StatusScope{Wanted: 7, Applied: 5, Pending: []string{"a"}}, web, disabled, "CHG"},
		{"next", schemas.Status{State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 7, Applied: 7, Next: []string{"a"}}, web, pending, "waits for the next run: a"},
		{"another bucket", schemas.Status{Bucket: "b0", State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 7, Applied: 7}, web, pending, "another bucket"},

		{"event applied by the whole", schemas.Status{}, schemas.StatusScope{Wanted: 7, Applied: 7}, entry("a"), converged, ""},
		{"event applied, others pending", schemas.Status{State: schemas.NodeRunning}, schemas.StatusScope{Wanted: 8, Applied: 5, Pending: []string{"b"}}, entry("a"), converged, ""},
		{"event pending", schemas.Status{State: schemas.NodeRunning}, schemas.StatusScope{Wanted: 8, Applied: 5, Pending: []string{"a"}}, entry("a"), pending, "running"},
		{"event waits for the next run", schemas.Status{State: schemas.NodeConverged}, schemas.StatusScope{Wanted: 7, Applied: 7, Next: []string{"a"}}, entry("a"), pending, "next run"},
		{"event may be one of many", schemas.Status{State: schemas.NodeRunning}, schemas.StatusScope{Wanted: 8, Applied: 5, Pending: many, More: 3}, entry("a"), pending, "running"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.status.Bucket == "" {
				tt.status.Bucket = "b1"
			}
			tt.status.Scopes = map[schemas.Scope]schemas.StatusScope{"group/web": tt.scope}
			got, ok := judge(natskv.NodeStatus{Node: "n", Status: tt.status}, tt.target)
			if !ok || got.verdict != tt.want || !strings.Contains(got.why, tt.why) || tt.want == converged && got.why != "" {
				t.Errorf("%q because %q, %v, want %q because %q", got.verdict, got.why, ok, tt.want, tt.why)
			}
		})
	}
	if _, ok := judge(natskv.NodeStatus{Status: schemas.Status{Bucket: "b1"}}, web); ok {
		t.Error("a node without the scope is judged")
	}
	if got, ok := judge(natskv.NodeStatus{Err: errors.New("is damaged")}, web); !ok || got.verdict != pending || got.why != "is damaged" {
		t.Errorf("%+v, %v for a status that cannot be read, want pending", got, ok)
	}
}

func TestHeard(t *testing.T) {
	now := time.Now()
	j := judgement{pending, "running: x"}
	if got := heard(natskv.NodeStatus{Time: now.Add(-time.Hour)}, j, now, 2*time.Hour); got != j {
		t.Errorf("%+v, want %+v", got, j)
	}
	got := heard(natskv.NodeStatus{Time: now.Add(-3 * time.Hour)}, j, now, 2*time.Hour)
	if got.verdict != silent || !strings.HasPrefix(got.why, "silent since ") || !strings.HasSuffix(got.why, "; running: x") {
		t.Errorf("%+v, want silent", got)
	}
}

func TestHerd(t *testing.T) {
	nodes := map[string]natskv.NodeStatus{}
	for i := range 300 {
		s := schemas.Status{Splay: i < 50, Scopes: map[schemas.Scope]schemas.StatusScope{"common": {}, schemas.Scope(fmt.Sprintf("node/n%d", i)): {}}}
		nodes[fmt.Sprint(i)] = natskv.NodeStatus{Status: s}
	}
	if scope, n := herd(nodes); scope != "common" || n != 250 {
		t.Errorf("%d nodes of %s, want 250 of common", n, scope)
	}
}
