package puppet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Due is one difference between what is wanted and what is applied that owes a run.
type Due struct {
	Scope  schemas.Scope
	Entry  string // "" = the scope as a whole: what the node has of it is not known
	Digest string // what is wanted; "" = that the entry is gone
	Why    string // new, changed, removed, expired, or what an earlier run left unproven
	Event  string // of the entry; "" = none is known
	Policy Policy
}

const whyExpired = "expired"

// Key tells one due from another: the same key means that nothing new has come.
func (d Due) Key() string { return string(d.Scope) + "\x00" + d.Entry + "\x00" + d.Digest }

// dues lists what owes a run, by scope and entry. An entry that has expired owes
// one when skew has passed too, and nothing until then. Unknown scopes owe
// nothing, and neither do entries that wait for the next run or whose preview
// has been shown.
func dues(w Wanted, b Book, scopes []schemas.Scope, now time.Time, skew time.Duration) []Due {
	var out []Due
	for _, scope := range slices.Sorted(maps.Keys(w.Scopes)) {
		wanted, applied := w.Scopes[scope], b.Applied.Scopes[scope]
		if wanted.Bucket == b.Applied.Bucket && wanted.Revision < applied.Revision {
			continue // a run has used something newer than what was read
		}
		before := len(out)
		for _, name := range slices.Sorted(maps.Keys(wanted.Entries)) {
			e := wanted.Entries[name]
			digest, known := applied.Entries[name]
			switch {
			case known && !e.live(now.Add(-skew)):
				out = append(out, Due{Scope: scope, Entry: name, Why: whyExpired, Event: e.Event, Policy: Policy{Splay: e.Splay}})
			case !e.live(now), digest == e.Digest, e.Next, e.Noop && applied.Previewed[name] == e.Digest:
			case known:
				out = append(out, Due{scope, name, e.Digest, "changed", e.Event, e.Policy})
			default:
				out = append(out, Due{scope, name, e.Digest, "new", e.Event, e.Policy})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(applied.Entries)) {
			if _, wanted := wanted.Entries[name]; !wanted {
				out = append(out, Due{Scope: scope, Entry: name, Why: "removed"})
			}
		}
		if reason, unproven := b.Unproven[scope]; unproven && len(out) == before {
			out = append(out, Due{Scope: scope, Why: reason})
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(b.Applied.Scopes)) {
		if !slices.Contains(scopes, scope) && len(b.Applied.Scopes[scope].Entries) > 0 {
			out = append(out, Due{Scope: scope, Why: "left the node's hierarchy"})
		}
	}
	return out
}

// describe gives dues in a few words: "group/web: my_firewall::rules[tcp-8443] changed, …".
func describe(dues []Due) string {
	const most = 5
	var words []string
	for _, d := range dues[:min(most, len(dues))] {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s: %s", d.Scope, strings.TrimSpace(d.Entry+" "+d.Why))))
	}
	if len(dues) > most {
		words = append(words, fmt.Sprintf("%d more", len(dues)-most))
	}
	return strings.Join(words, "; ")
}
