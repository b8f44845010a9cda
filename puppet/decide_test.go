package puppet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// wanted is one scope as it was read.
func wanted(revision uint64, entries map[string]puppet.WantedEntry) puppet.Wanted {
	return puppet.Wanted{Bucket: "b1", Scopes: map[schemas.Scope]puppet.WantedScope{
		web: {Bucket: "b1", Revision: revision, Entries: entries},
	}}
}

func applied(revision uint64, entries map[string]string) puppet.Book {
	return puppet.Book{Applied: schemas.Applied{Bucket: "b1", Scopes: map[schemas.Scope]schemas.AppliedScope{
		web: {Revision: revision, Entries: entries},
	}}}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	type entries = map[string]puppet.WantedEntry
	type digests = map[string]string
	next := puppet.Policy{Next: true}
	tried := func(digest string, at time.Duration) *puppet.Retry {
		return &puppet.Retry{Attempt: 2, At: now.Add(at), Why: "1 resources failed: Exec[x]", Tried: map[schemas.Scope]map[string]string{web: {"a": digest}}}
	}
	const noticedLong = -time.Minute
	tests := []struct {
		name    string
		wanted  puppet.Wanted
		book    puppet.Book
		retry   *puppet.Retry
		noticed time.Duration // of the entry a with digest 2, from now
		change  func(*puppet.Situation)
		action  puppet.Action
		until   time.Duration // from now
		why     string
		tags    []string
		noop    bool
	}{
		{name: "equal", wanted: wanted(1, entries{"a": {Digest: "1"}}), book: applied(1, digests{"a": "1"}), action: puppet.Idle, why: "equal data"},
		{name: "equal at a new revision", wanted: wanted(9, entries{"a": {Digest: "1"}}), book: applied(1, digests{"a": "1"}), action: puppet.Idle, why: "equal data"},
		{name: "nothing known", wanted: puppet.Wanted{}, book: applied(1, digests{"a": "1"}), action: puppet.Idle, why: "group/web has never been read"},
		{name: "changed", wanted: wanted(2, entries{"a": {Digest: "2"}}), book: applied(1, digests{"a": "1"}), noticed: noticedLong,
			action: puppet.Go, why: "group/web: a changed"},
		{name: "just changed", wanted: wanted(2, entries{"a": {Digest: "2"}}), book: applied(1, digests{"a": "1"}),
			action: puppet.Wait, until: 250 * time.Millisecond, why: "more changes may come: group/web: a changed"},
		{name: "changing all the time", wanted: wanted(2, entries{"a": {Digest: "2"}}), book: applied(1, digests{"a": "1"}),
			change: func(s *puppet.Situation) { s.Since = now.Add(-1900 * time.Millisecond) },
			action: puppet.Wait, until: 100 * time.Millisecond, why: "more changes may come: group/web: a changed"},
		{name: "new", wanted: wanted(2, entries{"a": {Digest: "2"}}), noticed: noticedLong, action: puppet.Go, why: "group/web: a new"},
		{name: "removed", wanted: wanted(2, nil), book: applied(1, digests{"a": "1"}), action: puppet.Wait, until: 250 * time.Millisecond,
			why: "more changes may come: group/web: a removed"},
		{name: "expired", wanted: wanted(1, entries{"a": {Digest: "1", Expires: now.Add(-5 * time.Second)}}), book: applied(1, digests{"a": "1"}),
			action: puppet.Go, why: "group/web: a expired"},
		{name: "expired, not yet past the skew", wanted: wanted(1, entries{"a": {Digest: "1", Expires: now.Add(-4 * time.Second)}}),
			book: applied(1, digests{"a": "1"}), action: puppet.Idle, why: "equal data"},
		{name: "expired and dropped by a run, not yet past the skew", wanted: wanted(1, entries{"a": {Digest: "1", Expires: now.Add(-4 * time.Second)}}),
			book: applied(1, nil), action: puppet.Idle, why: "equal data"},
		{name: "older than what a run has used", wanted: wanted(1, entries{"a": {Digest: "1"}}), book: applied(2, digests{"a": "2"}),
			action: puppet.Idle, why: "equal data"},
		{name: "waits for the next run", wanted: wanted(2, entries{"a": {Digest: "2", Policy: next}}), action: puppet.Idle, why: "equal data"},
		{name: "retry", wanted: wanted(2, entries{"a": {Digest: "2"}}), retry: tried("2", time.Minute), noticed: noticedLong,
			action: puppet.Wait, until: time.Minute, why: "retry 2: 1 resources failed: Exec[x]"},
		{name: "retry is due", wanted: wanted(2, entries{"a": {Digest: "2"}}), retry: tried("2", 0), noticed: noticedLong,
			action: puppet.Go, why: "group/web: a new"},
		{name: "newer state does not wait for the retry", wanted: wanted(3, entries{"a": {Digest: "2"}}), retry: tried("1", time.Minute), noticed: noticedLong,
			action: puppet.Go, why: "group/web: a new"},
		{name: "unproven", wanted: wanted(1, entries{"a": {Digest: "1"}}), book: func() puppet.Book {
			b := applied(1, digests{"a": "1"})
			b.Unproven = map[schemas.Scope]string{web: "server behind"}
			return b
		}(), retry: tried("1", time.Second), action: puppet.Wait, until: time.Second, why: "retry 2: 1 resources failed: Exec[x]"},
		{name: "disabled", wanted: wanted(2, entries{"a": {Digest: "2"}}), noticed: noticedLong,
			change: func(s *puppet.Situation) {
				s.Blocked = func() puppet.Blocked { return puppet.Blocked{Disabled: true, Message: "CHG-1"} }
			},
			action: puppet.Wait, until: 15 * time.Second, why: "agent is disabled: CHG-1"},
		{name: "locked", wanted: wanted(2, entries{"a": {Digest: "2"}}), noticed: noticedLong,
			change: func(s *puppet.Situation) { s.Blocked = func() puppet.Blocked { return puppet.Blocked{PID: 7} } },
			action: puppet.Wait, until: 2 * time.Second, why: "run lock is held by pid 7"},
		{name: "too soon after the last run", wanted: wanted(2, entries{"a": {Digest: "2"}}), noticed: noticedLong,
			change: func(s *puppet.Situation) { s.Timing.MinInterval, s.Last = time.Hour, now.Add(-time.Minute) },
			action: puppet.Wait, until: 59 * time.Minute, why: "watch.min_interval: group/web: a new"},
		{name: "last run in the future: the clock was set back", wanted: wanted(2, entries{"a": {Digest: "2"}}), noticed: noticedLong,
			change: func(s *puppet.Situation) { s.Timing.MinInterval, s.Last = time.Hour, now.Add(time.Hour) },
			action: puppet.Go, why: "group/web: a new"},
		{name: "policies unite", wanted: wanted(2, entries{
			"a": {Digest: "2", Policy: puppet.Policy{Tags: []string{"y", "x"}, Noop: true}},
			"b": {Digest: "1", Policy: puppet.Policy{Tags: []string{"x"}, Noop: true}},
		}), change: atOnce, action: puppet.Go, why: "group/web: a new; group/web: b new", tags: []string{"x", "y"}, noop: true},
		{name: "no tags beats tags, and earnest a preview", wanted: wanted(2, entries{
			"a": {Digest: "2", Policy: puppet.Policy{Tags: []string{"x"}, Noop: true}}, "b": {Digest: "1"},
		}), change: atOnce, action: puppet.Go, why: "group/web: a new; group/web: b new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := puppet.Situation{
				Now: now, Node: "web1.example.com", Scopes: []schemas.Scope{web}, Wanted: tt.wanted, Book: tt.book, Retry: tt.retry,
				Timing:  puppet.Timing{Quiet: 250 * time.Millisecond, QuietMax: 2 * time.Second, Skew: 5 * time.Second},
				Blocked: func() puppet.Blocked { return puppet.Blocked{} },
			}
			if tt.change != nil {
				tt.change(&s)
			}
			if tt.noticed != 0 {
				first := s.Decide() // learns the keys
				s.Noticed = map[string]time.Time{}
				for _, due := range first.Dues {
					s.Noticed[due.Key()] = now.Add(tt.noticed)
				}
			}
			d := s.Decide()
			if d.Action != tt.action || d.Why != tt.why {
				t.Errorf("%q because %q, want %q because %q", d.Action, d.Why, tt.action, tt.why)
			}
			if tt.action == puppet.Wait && !d.Until.Equal(now.Add(tt.until)) {
				t.Errorf("until %v from now, want %v", d.Until.Sub(now), tt.until)
			}
			if !slices.Equal(d.Tags, tt.tags) || d.Action == puppet.Go && d.Noop != tt.noop {
				t.Errorf("tags %q, noop %v, want %q, %v", d.Tags, d.Noop, tt.tags, tt.noop)
			}
		})
	}
}

func atOnce(s *puppet.Situation) { s.AtOnce = true }

// A fleet spreads evenly over the splay.
func TestDecideSplaySpreads(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	const nodes, splay = 2000, 10 * time.Minute
	var tenths [10]int
	for i := range nodes {
		s := puppet.Situation{
			Now: now, Node: "web" + string(rune('a'+i%26)) + time.Duration(i).String(), Scopes: []schemas.Scope{web},
			Wanted: wanted(1, map[string]puppet.WantedEntry{"a": {Digest: "1", Event: "e1"}}), Timing: puppet.Timing{Splay: splay},
			Blocked: func() puppet.Blocked { return puppet.Blocked{} },
		}
		d := s.Decide()
		wait := d.Until.Sub(now)
		if d.Action != puppet.Wait || wait < 0 || wait >= splay {
			t.Fatalf("%q for %v", d.Action, wait)
		}
		tenths[wait*10/splay]++
	}
	for i, got := range tenths {
		if got < nodes/10*7/10 || got > nodes/10*13/10 {
			t.Errorf("%d of %d nodes in tenth %d", got, nodes, i)
		}
	}
}
