package factsource

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// appliedFile is the watcher's record of what runs are proven to have used.
const appliedFile = "applied.json"

// Collection is one fact and what it was made from.
type Collection struct {
	// Fact is one JSON object in one line, which is YAML too.
	Fact []byte
	// Warnings are short lines for people; none means that all is well, or that
	// what is wrong was said in an earlier run.
	Warnings []string

	cfg     Config
	now     time.Time
	bucket  string // id that the reading found, or else that of the last good state
	outage  string // why nothing could be read
	choices []choice
	old     stored // the last good state
	same    bool   // the reading found what is there already
	wanted  map[schemas.Scope]map[string]string
}

func (c *Collection) warn(text string) { c.Warnings = append(c.Warnings, text) }

func (c *Collection) open() {
	if c.cfg.Dir == "" {
		return
	}
	var err error
	if c.old, err = open(c.cfg.Dir); err != nil {
		c.warn("last good state ignored: " + err.Error())
	}
}

// repeats reports whether the reading is that of the last good state.
func (c *Collection) repeats(reading schemas.Reading) bool {
	var choices []choice
	for _, read := range reading.Scopes {
		if read.Err != nil {
			return false
		}
		choices = append(choices, choice{scope: read.Scope, live: true, record: record{Revision: read.Revision}})
	}
	return reading.Bucket != "" && bytes.Equal(c.old.head, head(c.old.body, reading.Bucket, choices))
}

func (c *Collection) load() snapshot {
	last, err := c.old.load()
	if err != nil {
		c.warn("last good state ignored: " + err.Error())
		c.old = stored{} // to be written again
	}
	return last
}

// choose decides scope by scope what the fact shows.
func (c *Collection) choose(got answer, last snapshot) {
	c.bucket = got.reading.Bucket
	switch {
	case got.err != nil:
		c.outage = got.err.Error()
	case c.bucket == "":
		c.outage = "the bucket has no id; run `bellpull init`"
	}
	if c.outage != "" {
		c.warn(c.outage)
	}
	for i, scope := range c.cfg.Scopes {
		ch := choice{scope: scope, record: last.Scopes[scope]}
		if c.outage == "" {
			ch = choose(c.bucket, got.reading.Scopes[i], ch.record, c.now)
		}
		if !ch.live && ch.known() {
			var err error
			if ch.doc, err = schemas.ParseDocument(ch.Document); err != nil {
				c.warn(fmt.Sprintf("last good state of %s ignored: %v", scope, err))
				ch.record = record{Named: ch.Named}
			}
		}
		if ch.say != "" {
			c.warn(ch.say)
		}
		c.bucket = cmp.Or(c.bucket, ch.Bucket)
		c.choices = append(c.choices, ch)
	}
}

// fact puts the fact together.
func (c *Collection) fact() []byte {
	f := fact{source: live, bucket: c.bucket, scopes: c.choices}
	var reasons, mend, unread []string
	if c.outage != "" {
		reasons = append(reasons, c.outage)
	}
	var layers []schemas.Layer
	for _, ch := range c.choices {
		if ch.reason != "" {
			reasons = append(reasons, ch.reason)
		}
		if ch.err != "" {
			mend = append(mend, ch.err)
		}
		switch {
		case !ch.live && !ch.known():
			unread = append(unread, string(ch.scope))
		case !ch.live:
			f.source = lastGood
		}
		if ch.Bucket == c.bucket {
			f.revision = max(f.revision, ch.Revision)
		}
		layers = append(layers, schemas.Layer{Scope: ch.scope, Revision: ch.Revision, Document: ch.doc})
	}
	if len(unread) > 0 {
		reasons = append(reasons, "never read: "+strings.Join(unread, ", "))
	}
	f.reason, f.err = strings.Join(reasons, "; "), strings.Join(mend, "; ")
	if len(unread) > 0 {
		f = fact{source: none, reason: f.reason, err: f.err}
		return f.marshal(c.cfg.Name, nil)
	}
	f.pending, f.watched = c.pending()
	var items []item
	if len(c.cfg.State) > 0 {
		items = f.state(schemas.Merge(layers, c.now), c.cfg.State)
	}
	return f.marshal(c.cfg.Name, items)
}

// pending names the entries that are wanted and not applied; there is no telling
// where no watcher keeps a record.
func (c *Collection) pending() (names []string, watched bool) {
	if c.cfg.Dir == "" {
		return nil, false
	}
	body, _, err := readPrivate(filepath.Join(c.cfg.Dir, appliedFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, false
	}
	var applied schemas.Applied
	if err == nil {
		applied, err = schemas.ParseApplied(body)
	}
	if err != nil {
		c.warn("applied record ignored: " + err.Error())
		return nil, false
	}
	found := map[string]bool{}
	for scope, entries := range c.digests() {
		for name, digest := range entries {
			if applied.Scopes[scope].Entries[name] != digest {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), true
}

// digests returns the digests of the entries that the fact stands for.
func (c *Collection) digests() map[schemas.Scope]map[string]string {
	if c.wanted != nil {
		return c.wanted
	}
	c.wanted = map[schemas.Scope]map[string]string{}
	for _, ch := range c.choices {
		entries := map[string]string{}
		for name, e := range ch.doc.Live(c.now) {
			if e.Sensitive && !ch.live {
				entries[name] = ch.Secrets[name] // the value itself is not kept
			} else {
				entries[name] = c.cfg.Digester.Entry(e)
			}
		}
		c.wanted[ch.scope] = entries
	}
	return c.wanted
}
