package factsource

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Limits of a fact. Facts travel to every server and into PuppetDB, and Puppet
// warns in every run about the ones that are larger.
const (
	// MaxFact is the size of the whole output in bytes, which is also what a pipe
	// takes without a reader.
	MaxFact = 64 << 10
	// MaxLeaves is how many members of hashes and elements of arrays a fact has.
	MaxLeaves = 1500
	// MaxString is the longest string in a fact's state, in bytes.
	MaxString = 4096

	maxKey    = 1000    // characters of a member's name, quoted; YAML's limit is 1,024
	maxNames  = 100     // names in one of the fact's lists
	maxList   = 6 << 10 // bytes of one of the fact's lists, its frame included
	maxReason = 500     // bytes of reason and error
)

// The worst that holds for one of the fact's scopes.
const (
	live     = "live"      // read from the bucket now
	lastGood = "last-good" // read at some earlier time
	none     = "none"      // never read, or may not be read
)

// None is the fact of a node that knows nothing, not even what it should read:
// the name is there, there is no state, and reason says why.
func None(name, reason string) []byte {
	f := fact{source: none, reason: reason}
	return f.marshal(cmp.Or(name, DefaultName), nil)
}

// fact is the fact's content but for the state.
type fact struct {
	bucket    string
	revision  uint64
	scopes    []choice
	watched   bool     // the watcher keeps a record, so there may be pending entries
	pending   []string // sorted
	hidden    []string // sorted
	invalid   map[string]schemas.Clash
	truncated []string // sorted
	source    string
	reason    string
	err       string
}

// item is one key of the state in the form in which it is printed.
type item struct {
	key    string
	text   []byte // "key": value
	leaves int
}

// state turns the merged values into items, sorted by key, and leaves out what
// patterns do not ask for, what is sensitive, and what a fact cannot carry.
func (f *fact) state(merged schemas.Merged, patterns []string) []item {
	items := []item{}
	for _, key := range slices.Sorted(maps.Keys(merged.Values)) {
		v := merged.Values[key]
		if !asked(key, patterns) {
			continue
		}
		if v.Sensitive {
			f.hidden = append(f.hidden, key)
			continue
		}
		t := text{leaves: 1}
		t.key(key)
		t.value(v.Value)
		if t.fault != "" {
			f.truncated = append(f.truncated, key)
			continue
		}
		items = append(items, item{key: key, text: t.buf, leaves: t.leaves})
	}
	f.invalid = map[string]schemas.Clash{}
	for key, clash := range merged.Invalid {
		if asked(key, patterns) {
			f.invalid[key] = clash
		}
	}
	return items
}

// asked reports whether a pattern matches key: * stands for any text.
func asked(key string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		parts := strings.Split(pattern, "*")
		rest, ok := strings.CutPrefix(key, parts[0])
		if len(parts) == 1 {
			return ok && rest == ""
		}
		last := len(parts) - 1
		for _, part := range parts[1:last] {
			if ok {
				_, rest, ok = strings.Cut(rest, part)
			}
		}
		return ok && strings.HasSuffix(rest, parts[last])
	})
}

// marshal returns the output: one line. Items that do not fit are left out,
// largest first, and named in truncated; nil items mean a fact without state.
func (f *fact) marshal(name string, items []item) []byte {
	bare := f.write(name, nil, items != nil)
	size, leaves := MaxFact-len(bare.buf), MaxLeaves-bare.leaves
	if kept := fit(items, size, leaves); len(kept) < len(items) {
		kept = fit(items, size-maxList, leaves-maxNames) // room for the names
		for _, it := range items {
			if !slices.ContainsFunc(kept, func(k item) bool { return k.key == it.key }) {
				f.truncated = append(f.truncated, it.key)
			}
		}
		slices.Sort(f.truncated)
		items = kept
	}
	return f.write(name, items, items != nil).buf
}

// fit returns the items that fit, in their order: the smallest first, so that
// one large value does not cost all the others.
func fit(items []item, size, leaves int) []item {
	kept := []item{}
	for _, it := range slices.SortedStableFunc(slices.Values(items), func(a, b item) int { return cmp.Compare(len(a.text), len(b.text)) }) {
		if n := len(it.text) + len(", "); n <= size && it.leaves <= leaves {
			size, leaves = size-n, leaves-it.leaves
			kept = append(kept, it)
		}
	}
	slices.SortFunc(kept, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	return kept
}

// write puts the fact together. The order of members and names is fixed: the same
// state gives the same bytes.
func (f *fact) write(name string, items []item, withState bool) *text {
	t, unlisted := &text{}, map[string]int{}
	t.object(func(o *object) {
		o.object(name, func(o *object) {
			if f.bucket != "" {
				o.string("bucket", f.bucket)
				o.uint("revision", f.revision)
				o.object("scopes", func(o *object) {
					for _, c := range f.scopes {
						o.uint(string(c.scope), c.Revision)
					}
				})
			}
			if f.watched {
				o.names("pending", f.pending, unlisted)
			}
			if withState {
				o.object("state", func(o *object) {
					for _, it := range items {
						o.item(it)
					}
				})
			}
			f.writeMissing(o, unlisted)
			o.string("source", f.source)
			if f.source == lastGood {
				f.writeStale(o)
			}
			if f.reason != "" {
				o.string("reason", clip(f.reason, maxReason))
			}
			if f.err != "" {
				o.string("error", clip(f.err, maxReason))
			}
		})
	})
	t.buf = append(t.buf, '\n')
	return t
}

// writeMissing names what the state does not show.
func (f *fact) writeMissing(o *object, unlisted map[string]int) {
	if len(f.hidden) > 0 {
		o.names("hidden", f.hidden, unlisted)
	}
	if len(f.invalid) > 0 {
		names := slices.Sorted(maps.Keys(f.invalid))
		n := listed(names, func(name string) string { return name + f.invalid[name].Error() })
		o.object("invalid", func(o *object) {
			for _, name := range names[:n] {
				o.string(name, f.invalid[name].Error())
			}
		})
		if n < len(names) {
			unlisted["invalid"] = len(names) - n
		}
	}
	if len(f.truncated) > 0 {
		o.names("truncated", f.truncated, unlisted)
	}
	if len(unlisted) > 0 {
		o.object("unlisted", func(o *object) {
			for _, list := range slices.Sorted(maps.Keys(unlisted)) {
				o.uint(list, uint64(unlisted[list]))
			}
		})
	}
}

func (f *fact) writeStale(o *object) {
	o.object("stale", func(o *object) {
		for _, c := range f.scopes {
			if c.live {
				continue
			}
			o.object(string(c.scope), func(o *object) {
				o.uint("revision", c.Revision)
				o.string("as_of", c.AsOf.UTC().Format(time.RFC3339))
			})
		}
	})
}
