package factsource

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// believeAfter is how long a bucket with a new id must go on answering that a
	// scope which was known has no document.
	believeAfter = 10 * time.Second
	// overdueAfter is when a bucket that has gone back is no replica lagging behind
	// any more but an error.
	overdueAfter = 10 * time.Minute
)

// choice is what the fact shows of one scope, and the record that is kept of it.
type choice struct {
	scope schemas.Scope
	live  bool
	record
	doc    schemas.Document // of a known scope
	reason string           // why it is not live
	err    string           // what an operator has to mend
	say    string           // the reason, unless it was said in an earlier run
}

// choose decides between what was read of a scope, in the bucket of this id, and
// what is known of it. The newer of the two wins, but the bucket is believed to
// know less than before only for a reason.
func choose(bucket string, read schemas.ScopeReading, last record, now time.Time) choice {
	c := choice{scope: read.Scope, record: last}
	behind := last.known() && last.Bucket == bucket && read.Revision < last.Revision
	switch {
	case unanswered(read):
		c.reason = fmt.Sprintf("%s: %v", read.Scope, read.Err)
		if last.known() {
			c.doubted(bucket, now)
		}
		if c.overdue(now) {
			c.err = fmt.Sprintf("%s: has a document, but the bucket gives no answer", read.Scope)
		}
	case behind:
		c.doubted(bucket, now)
		c.reason = fmt.Sprintf("%s: the bucket went back from %d to %d", read.Scope, last.Revision, read.Revision)
		if c.overdue(now) {
			c.err = c.reason + "; if it was restored, run `bellpull init --new-id`"
		}
	case read.Err != nil:
		c.reason = fmt.Sprintf("%s: revision %d: %v", read.Scope, read.Revision, cause(read.Err))
		said := last.Named == read.Revision
		c.Named, c.Doubt = read.Revision, nil
		if said {
			return c
		}
	case read.Revision == 0 && last.known() && last.Revision > 0 && !c.confirmed(bucket, now):
		c.doubted(bucket, now)
		c.reason = fmt.Sprintf("%s: has no document in the new bucket; believed when it is read again after %v", read.Scope, believeAfter)
	default:
		c.live, c.doc = true, read.Document
		c.record = record{Bucket: bucket, Revision: read.Revision}
		if last.Bucket == bucket && last.Revision == read.Revision {
			c.Document, c.Secrets = last.Document, last.Secrets
		}
	}
	c.say = c.reason
	return c
}

// doubted notes since when this bucket is not believed.
func (c *choice) doubted(bucket string, now time.Time) {
	if c.Doubt == nil || c.Doubt.Bucket != bucket || c.Doubt.Since.After(now) {
		c.Doubt = &doubt{Bucket: bucket, Since: now.UTC()}
	}
}

// confirmed reports whether this bucket said the same a while ago.
func (r record) confirmed(bucket string, now time.Time) bool {
	return r.Doubt != nil && r.Doubt.Bucket == bucket && now.Sub(r.Doubt.Since) >= believeAfter
}

func (r record) overdue(now time.Time) bool {
	return r.Doubt != nil && now.Sub(r.Doubt.Since) >= overdueAfter
}

// doubtful reports whether another replica may give a better answer than this
// reading. What has been in doubt for long is not asked for again and again.
func doubtful(reading schemas.Reading, last snapshot, awaited map[schemas.Scope]revision, now time.Time) bool {
	for _, read := range reading.Scopes {
		if r := last.Scopes[read.Scope]; r.known() && !r.overdue(now) {
			if reading.Bucket == "" || unanswered(read) || r.Bucket == reading.Bucket && read.Revision < r.Revision {
				return true
			}
		}
		if w := awaited[read.Scope]; w.Bucket == reading.Bucket && read.Revision < w.Revision {
			return true
		}
	}
	return false
}

// better joins two readings of the same bucket: of each scope the higher
// revision, because one of the replicas that answered may be behind.
func better(a, b schemas.Reading) schemas.Reading {
	if a.Bucket != b.Bucket {
		return b
	}
	for i := range b.Scopes {
		if unanswered(b.Scopes[i]) || b.Scopes[i].Revision < a.Scopes[i].Revision {
			b.Scopes[i] = a.Scopes[i]
		}
	}
	return b
}

func unanswered(read schemas.ScopeReading) bool {
	return read.Err != nil && !errors.Is(read.Err, schemas.ErrInvalid)
}

// cause is the fault of a body without what the store says about its place.
func cause(err error) error {
	var invalid *schemas.InvalidError
	if errors.As(err, &invalid) {
		return invalid
	}
	return err
}
