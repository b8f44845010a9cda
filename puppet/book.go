package puppet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Book is what runs have proven so far.
type Book struct {
	Applied schemas.Applied
	// Unproven are scopes of which it is not known what the node has: a run that
	// was to change them, or may have, proved nothing. They owe a run even if what
	// is wanted comes to be equal to Applied again.
	Unproven map[schemas.Scope]string
}

// Trial is a run that has ended, and all that tells what it used.
type Trial struct {
	Run      Run
	Proof    Proof
	Result   Result
	Shown    *schemas.Shown   // the fact's record of this run; nil = there is none
	Compiled schemas.Compiled // what class bellpull keeps; nil = this run's report does not list the file
	// CompiledFault says why Compiled proves nothing although the report lists the file.
	CompiledFault string
}

// Finding says why a run proves nothing for a scope.
type Finding struct {
	Scope  schemas.Scope // "" = all
	Reason string
	Behind bool   // somebody had not caught up: it is worth trying again at once
	Who    string // with Behind: server or fact
	Has    uint64
	Needs  uint64
}

// Judge books what the run is proven to have used. It changes nothing in b, and
// gives the same answer however often it is asked. findings says what is not
// proven; none means that the run proved all that it was for.
func (b Book) Judge(t Trial, w Wanted, now time.Time) (next Book, findings []Finding) {
	next = b.clone()
	used := t.used()
	scopes := map[schemas.Scope]bool{}
	for scope := range used {
		// A scope that only the fact knows: it has a newer configuration than the watcher.
		if _, known := w.Scopes[scope]; known {
			scopes[scope] = true
		}
	}
	for scope := range t.Run.Handed {
		scopes[scope] = true
	}
	if whole := t.fault(); whole != "" {
		for scope := range scopes {
			next.doubt(t, scope, used[scope], whole, false)
		}
		return next, []Finding{{Reason: whole}}
	}
	booked := map[schemas.Scope]bool{}
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		shown, wasShown := used[scope]
		finding := t.prove(scope, shown, wasShown, w.Scopes[scope])
		switch {
		case finding != nil:
			next.doubt(t, scope, shown, finding.Reason, finding.Behind)
		case t.Run.Covers != nil:
			finding = next.bookCovered(t, scope, shown)
		default:
			next.Applied.Scopes[scope] = schemas.AppliedScope{Revision: t.revision(scope, shown), Entries: maps.Clone(shown.Entries)}
			delete(next.Unproven, scope)
			booked[scope] = true
		}
		if finding != nil {
			findings = append(findings, *finding)
		}
	}
	if t.Run.Covers == nil {
		for scope := range next.Applied.Scopes {
			if !scopes[scope] { // left the hierarchy
				delete(next.Applied.Scopes, scope)
				delete(next.Unproven, scope)
			}
		}
	}
	next.stamp(t.bucket(), booked, now)
	return next, findings
}

// fault says why the run as a whole proves nothing; "" = it may.
func (t Trial) fault() string {
	switch {
	case !t.Result.Success():
		return t.Result.Reason
	case t.Result.Noop && !t.Run.Noop:
		return "was a preview only: noop is set"
	case t.Shown == nil && t.Proof != ProofExit:
		return "the fact left no record of this run; is the fact installed, run as root, and not cached by facter.conf?"
	}
	return t.CompiledFault
}

// used is what the run used of each scope, as far as the node can tell: what the
// fact showed, or else what was handed over.
func (t Trial) used() map[schemas.Scope]schemas.ShownScope {
	if t.Shown != nil && t.Proof != ProofExit {
		return t.Shown.Scopes
	}
	out := map[schemas.Scope]schemas.ShownScope{}
	for scope, h := range t.Run.Handed {
		out[scope] = schemas.ShownScope{Revision: h.Revision, Live: true, Entries: h.Entries}
	}
	return out
}

func (t Trial) bucket() string {
	if t.Shown != nil && t.Proof != ProofExit {
		return t.Shown.Bucket
	}
	return t.Run.Bucket
}

// revision is what the run used of a scope, in the bucket that it read from: a
// last good state may be from another bucket, and is not comparable then.
func (t Trial) revision(scope schemas.Scope, used schemas.ShownScope) uint64 {
	if !used.Live && used.Revision != t.Run.Handed[scope].Revision {
		return 0
	}
	return used.Revision
}

// prove says what keeps the run from proving that it used the scope as shown; nil = nothing.
func (t Trial) prove(scope schemas.Scope, shown schemas.ShownScope, wasShown bool, wanted WantedScope) *Finding {
	if !wasShown {
		return &Finding{Scope: scope, Reason: fmt.Sprintf("the fact did not know %s", scope)}
	}
	behind := func(who string, has, needs uint64) *Finding {
		return &Finding{Scope: scope, Behind: true, Who: who, Has: has, Needs: needs,
			Reason: fmt.Sprintf("%s behind: %s, has %d, needs %d", who, scope, has, needs)}
	}
	if handed := t.Run.Handed[scope]; t.bucket() == t.Run.Bucket && shown.Revision < handed.Revision {
		return behind("fact", shown.Revision, handed.Revision)
	}
	compiled, read := t.Compiled[scope]
	switch {
	case !read: // the compile did not read this scope: the fact alone proves it
		return nil
	case compiled.Bucket != t.bucket():
		return &Finding{Scope: scope, Behind: true, Who: "server", Has: compiled.Revision, Needs: shown.Revision,
			Reason: fmt.Sprintf("server behind: %s, has bucket %s, needs %s", scope, compiled.Bucket, t.bucket())}
	case compiled.Revision < shown.Revision:
		return behind("server", compiled.Revision, shown.Revision)
	case compiled.Revision > shown.Revision:
		return behind("fact", shown.Revision, compiled.Revision)
	}
	for name, e := range wanted.Entries {
		// The compile kept an entry that expires no later than one that the fact has dropped.
		if !e.live(t.Shown.Time) && !compiled.Until.IsZero() && !compiled.Until.After(e.Expires) {
			return &Finding{Scope: scope, Behind: true, Who: "server", Has: compiled.Revision, Needs: shown.Revision,
				Reason: fmt.Sprintf("server behind: %s, still has %s, which expired at %s", scope, name, e.Expires.UTC().Format(time.RFC3339))}
		}
	}
	return nil
}

// bookCovered takes the entries that a limited run was for.
func (b *Book) bookCovered(t Trial, scope schemas.Scope, used schemas.ShownScope) *Finding {
	applied := b.Applied.Scopes[scope]
	target := &applied.Entries
	if t.Run.Noop {
		target = &applied.Previewed
	}
	*target = maps.Clone(*target)
	if *target == nil {
		*target = map[string]string{}
	}
	var finding *Finding
	for _, name := range slices.Sorted(maps.Keys(t.Run.Covers[scope])) {
		cover := t.Run.Covers[scope][name]
		switch {
		case used.Entries[name] != cover.Digest: // something newer: due on its own
		case len(t.Run.Tags) > 0 && t.Result.Report != nil && !t.Result.Report.Matched(cover.Tags):
			finding = &Finding{Scope: scope, Reason: fmt.Sprintf("nothing in the catalog has the tags of %s: %s", name, brief(cover.Tags))}
		default:
			(*target)[name] = cover.Digest
		}
	}
	b.Applied.Scopes[scope] = applied
	return finding
}

// doubt forgets what was known of the entries that the run may have changed: it
// proved nothing, and may have done half. A preview leaves no doubt. A scope that
// a whole run leaves in doubt owes a run even if it is wanted again as it was.
func (b *Book) doubt(t Trial, scope schemas.Scope, used schemas.ShownScope, reason string, always bool) {
	if t.Run.Noop || t.Result.Noop {
		return
	}
	applied := b.Applied.Scopes[scope]
	applied.Entries = maps.Clone(applied.Entries)
	differ := always
	for _, tried := range []map[string]string{used.Entries, t.Run.Handed[scope].Entries} {
		for name, digest := range b.Applied.Scopes[scope].Entries {
			if _, covered := t.Run.Covers[scope][name]; tried != nil && tried[name] != digest && (t.Run.Covers == nil || covered) {
				delete(applied.Entries, name)
				differ = true
			}
		}
		for name := range tried {
			if _, known := b.Applied.Scopes[scope].Entries[name]; !known {
				differ = true
			}
		}
	}
	if _, known := b.Applied.Scopes[scope]; known {
		b.Applied.Scopes[scope] = applied
	}
	if differ && t.Run.Covers == nil {
		b.Unproven[scope] = reason
	}
}

// stamp sets the bucket and time of what was booked. Revisions of another bucket
// are not comparable and are forgotten.
func (b *Book) stamp(bucket string, booked map[schemas.Scope]bool, now time.Time) {
	if bucket != b.Applied.Bucket {
		for scope, applied := range b.Applied.Scopes {
			if !booked[scope] {
				applied.Revision = 0
				b.Applied.Scopes[scope] = applied
			}
		}
	}
	b.Applied.Bucket, b.Applied.Time = bucket, now.UTC()
}

func (b Book) clone() Book {
	out := Book{Applied: b.Applied, Unproven: maps.Clone(b.Unproven)}
	out.Applied.Scopes = maps.Clone(b.Applied.Scopes)
	if out.Applied.Scopes == nil {
		out.Applied.Scopes = map[schemas.Scope]schemas.AppliedScope{}
	}
	if out.Unproven == nil {
		out.Unproven = map[schemas.Scope]string{}
	}
	return out
}
