package factsource

import (
	"strconv"
	"strings"
)

// object writes the members of one JSON object.
type object struct {
	t    *text
	more bool // a member stands before the next one
}

func (t *text) object(write func(*object)) {
	t.buf = append(t.buf, '{')
	write(&object{t: t})
	t.buf = append(t.buf, '}')
}

func (o *object) separate() {
	if o.more {
		o.t.buf = append(o.t.buf, ',', ' ')
	}
	o.more = true
}

func (o *object) member(name string) {
	o.separate()
	o.t.leaves++
	o.t.key(name)
}

func (o *object) object(name string, write func(*object)) {
	o.member(name)
	o.t.object(write)
}

func (o *object) string(name, s string) {
	o.member(name)
	o.t.quote(s)
}

func (o *object) uint(name string, n uint64) {
	o.member(name)
	o.t.buf = strconv.AppendUint(o.t.buf, n, 10)
}

func (o *object) item(it item) {
	o.separate()
	o.t.leaves += it.leaves
	o.t.buf = append(o.t.buf, it.text...)
}

// names writes a list of names, and counts in unlisted how many it has no room for.
func (o *object) names(name string, names []string, unlisted map[string]int) {
	n := listed(names, func(name string) string { return name })
	if n < len(names) {
		unlisted[name] = len(names) - n
	}
	o.member(name)
	o.t.buf = append(o.t.buf, '[')
	for i, s := range names[:n] {
		if i > 0 {
			o.t.buf = append(o.t.buf, ',', ' ')
		}
		o.t.leaves++
		o.t.quote(s)
	}
	o.t.buf = append(o.t.buf, ']')
}

// listed returns for how many of the names a list has room; content is all that
// stands in the list for a name.
func listed(names []string, content func(string) string) int {
	const frame = 128 // the list's own name, and what unlisted says about it
	room := maxList - frame
	for i, name := range names {
		t := text{}
		t.quote(content(name))
		if room -= len(t.buf) + len(`: "", `); room < 0 || i == maxNames {
			return i
		}
	}
	return len(names)
}

// clip shortens a text for people to at most size bytes of whole runes.
func clip(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return strings.ToValidUTF8(s[:size-len("…")], "") + "…"
}
