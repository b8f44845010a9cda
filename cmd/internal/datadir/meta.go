package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

func pointer(names ...string) string {
	var p jsontext.Pointer
	for _, name := range names {
		p = p.AppendToken(name)
	}
	return string(p)
}

// entries checks what a file holds and puts its two parts together. It adds to the faults found so far.
func entries(path string, c content, faults []string) ([]Entry, []string) {
	metas, bad := c.metas(path)
	faults = append(faults, bad...)
	out := make([]Entry, 0, len(c.members))
	index := make(map[string]int, len(c.members))
	for _, m := range c.members {
		if err := schemas.CheckName(m.name); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", m.place, err))
		}
		index[m.name] = len(out)
		out = append(out, Entry{Name: m.name, Value: m.value, Place: m.place, Meta: metas[m.name]})
	}
	for _, e := range out {
		if key, _, isMember := schemas.SplitName(e.Name); isMember {
			if i, both := index[key]; both {
				faults = append(faults, fmt.Sprintf("%s: %q stands beside %q (%s); a key has members or one value", e.Place, e.Name, key, out[i].Place))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metas)) {
		if _, ok := index[name]; !ok {
			faults = append(faults, c.metaPlace(path, pointer(MetaKey, name))+": the file has no such entry")
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, faults
}

// metaPlace is the place of something below [MetaKey]; what is missing has the line of what it is missing from.
func (c content) metaPlace(path, at string) string {
	for parent := at; parent != ""; parent = parent[:strings.LastIndexByte(parent, '/')] {
		if line, ok := c.lines[parent]; ok {
			return place(path, line, at)
		}
	}
	return place(path, 0, at)
}

// metas reads what stands under [MetaKey], by entry.
func (c content) metas(path string) (map[string]Meta, []string) {
	if c.meta == "" {
		return nil, nil
	}
	var faults []string
	fault := func(message string, at ...string) {
		faults = append(faults, c.metaPlace(path, pointer(append([]string{MetaKey}, at...)...))+": "+message)
	}
	if c.meta.Kind() != '{' {
		fault("must be a mapping of entries to what is to be known of them")
		return nil, faults
	}
	out := map[string]Meta{}
	likeEntries := map[string]map[string]schemas.Value{}
	for name, value := range c.meta.Members() {
		if value.Kind() != '{' {
			fault("must be a mapping with kind, sensitive, ttl, expires, run or owner", name)
			continue
		}
		var m Meta
		like := map[string]schemas.Value{"value": "null"}
		for key, v := range value.Members() {
			switch key {
			case "kind", "sensitive", "expires", "run":
				like[key] = v
			case "owner":
				like[key], m.HasOwner = v, true
			case "ttl":
				var err error
				if m.TTL, err = duration(v); err != nil {
					fault(err.Error(), name, key)
				}
			default:
				fault("is not known; the members are kind, sensitive, ttl, expires, run and owner", name, key)
			}
		}
		if _, both := like["expires"]; both && m.TTL != 0 {
			fault("stands beside expires; an entry has one of them", name, "ttl")
		}
		out[name], likeEntries[name] = m, like
	}
	// They are members of an entry in a document too, where they are checked in the same way.
	body, err := json.Marshal(map[string]any{"bellpull": 1, "entries": likeEntries})
	if err != nil {
		fault(err.Error())
		return nil, faults
	}
	doc, err := schemas.ParseDocument(body)
	var bad *schemas.InvalidError
	if errors.As(err, &bad) {
		for _, f := range bad.Faults {
			at := pointer(MetaKey) + strings.TrimPrefix(f.Pointer, "/entries")
			faults = append(faults, c.metaPlace(path, at)+": "+f.Message)
		}
	}
	for name, e := range doc.Entries {
		m := out[name]
		m.Kind, m.Sensitive, m.Expires, m.Run, m.Owner = e.Kind, e.Sensitive, e.Expires, e.Run, e.Owner
		out[name] = m
	}
	return out, faults
}

func duration(v schemas.Value) (time.Duration, error) {
	var text string
	if err := json.Unmarshal([]byte(v), &text); err == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= time.Second {
			return d, nil
		}
	}
	return 0, errors.New("must be a duration of at least 1s, such as 20m or 1h30m")
}
