package schemas

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Layer is one scope's document as a node's hierarchy holds it.
type Layer struct {
	Scope    Scope
	Revision uint64
	Document Document
}

// Merged is what a hierarchy says: a value per Hiera key.
type Merged struct {
	Values map[string]MergedValue
	// Invalid names the keys whose scopes contradict each other; they are not in Values.
	Invalid map[string]Clash
}

// MergedValue is the value of one key.
type MergedValue struct {
	Value     Value
	Sensitive bool     // the winner is sensitive, or the hash has a sensitive member
	Origin    []Origin // one for a plain value; one per member, by member, for a merged hash
}

// Origin tells where a value, or a member of a hash, comes from.
type Origin struct {
	Scope    Scope
	Revision uint64
	Entry    string // the entry's name
	Member   string // the hash's member; "" for a plain value
}

// Clash says why the scopes of a key do not fit together.
type Clash struct {
	Plain   Scope // the scope whose value cannot be merged
	Members Scope // the most specific scope that holds members
	Reason  string
}

// Error names both scopes.
func (c Clash) Error() string {
	return fmt.Sprintf("%s %s, while %s holds members of it", c.Plain, c.Reason, c.Members)
}

// Merge answers what the layers, most specific first, say at now. The most
// specific scope's value of a key wins whole. Where any scope holds members of a
// key, all its values merge by member instead, most specific scope first, a
// plain hash counting as its members; a plain value that is no hash, or is
// sensitive, is a [Clash].
func Merge(layers []Layer, now time.Time) Merged {
	parts := map[string][]part{}
	for _, layer := range layers {
		for name, entry := range layer.Document.Live(now) {
			key, member, isMember := SplitName(name)
			parts[key] = append(parts[key], part{
				origin: Origin{Scope: layer.Scope, Revision: layer.Revision, Entry: name, Member: member}, entry: entry, isMember: isMember,
			})
		}
	}
	out := Merged{Values: map[string]MergedValue{}, Invalid: map[string]Clash{}}
	for key, parts := range parts {
		first := slices.IndexFunc(parts, func(p part) bool { return p.isMember })
		if first < 0 {
			p := parts[0]
			out.Values[key] = MergedValue{Value: p.entry.Value, Sensitive: p.entry.Sensitive, Origin: []Origin{p.origin}}
			continue
		}
		value, clash := mergeMembers(parts)
		if clash != nil {
			clash.Members = parts[first].origin.Scope
			out.Invalid[key] = *clash
			continue
		}
		out.Values[key] = value
	}
	return out
}

type part struct {
	origin   Origin
	entry    Entry
	isMember bool
}

func mergeMembers(parts []part) (MergedValue, *Clash) {
	type winner struct {
		value     Value
		sensitive bool
		origin    Origin
	}
	winners := map[string]winner{}
	add := func(member string, w winner) {
		if _, taken := winners[member]; !taken {
			w.origin.Member = member
			winners[member] = w
		}
	}
	for _, p := range parts {
		switch {
		case p.isMember:
			add(p.origin.Member, winner{p.entry.Value, p.entry.Sensitive, p.origin})
		case p.entry.Sensitive:
			return MergedValue{}, &Clash{Plain: p.origin.Scope, Reason: "holds a sensitive value"}
		case p.entry.Value.Kind() != '{':
			return MergedValue{}, &Clash{Plain: p.origin.Scope, Reason: "holds a value that is no hash"}
		default:
			for member, value := range p.entry.Value.Members() {
				add(member, winner{value, false, p.origin})
			}
		}
	}
	var out MergedValue
	var text strings.Builder
	text.WriteByte('{')
	for i, member := range slices.Sorted(maps.Keys(winners)) {
		w := winners[member]
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(quote(member))
		text.WriteByte(':')
		text.WriteString(string(w.value))
		out.Sensitive = out.Sensitive || w.sensitive
		out.Origin = append(out.Origin, w.origin)
	}
	text.WriteByte('}')
	out.Value = canonical(text.String())
	return out, nil
}

// quote returns text as a JSON string.
func quote(text string) string {
	// The only error is invalid UTF-8, which no accepted name holds.
	quoted, _ := jsontext.AppendQuote(nil, text)
	return string(quoted)
}

// canonical brings JSON that was put together from values into [Value]'s form.
func canonical(text string) Value {
	v := jsontext.Value(text)
	// The only error is invalid JSON, which values put together are not.
	_ = v.Format(jsontext.ReorderRawObjects(true))
	return Value(v)
}
