package datadir

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/schemas"
)

type pair struct {
	key         string
	node, value *yaml.Node
}

// pairs returns a mapping's members, those of merge keys included. As for Puppet, what stands after a merge wins over it; what
// stands before and is merged again would win for YAML and lose for Puppet, so it is a fault.
func (r *yamlReader) pairs(n *yaml.Node, at jsontext.Pointer, depth int) []pair {
	var out []pair
	index, merged := map[string]int{}, map[string]bool{}
	add := func(p pair, merging bool) {
		i, twice := index[p.key]
		switch {
		case !twice:
			index[p.key], merged[p.key] = len(out), merging
			out = append(out, p)
		case merging && !merged[p.key]:
			r.fault(p.node, at, fmt.Sprintf("%q stands before the << that brings it in too; put << first", p.key))
		case merging || merged[p.key]:
			out[i], merged[p.key] = p, merging
		default:
			r.fault(p.node, at.AppendToken(p.key), "stands twice in its mapping")
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := r.key(key, at)
		switch {
		case !ok:
		case name != "<<" || key.Style&yaml.TaggedStyle != 0:
			add(pair{name, key, value}, false)
		case key.Style != 0:
			r.fault(key, at, `a key "<<" would be merged by Puppet; write !!str "<<" if it is one`)
		default:
			for _, p := range r.merge(value, at, depth) {
				add(p, true)
			}
		}
	}
	return out
}

// merge returns what a merge key brings in. Of several mappings the first wins.
func (r *yamlReader) merge(value *yaml.Node, at jsontext.Pointer, depth int) []pair {
	if r.nodes++; r.nodes > maxNodes || depth > schemas.MaxDepth {
		return nil // the next value says so
	}
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch value.Kind {
	case yaml.MappingNode:
		return r.pairs(value, at, depth+1)
	case yaml.SequenceNode:
		var out []pair
		for i := len(value.Content) - 1; i >= 0; i-- {
			item := value.Content[i]
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			if item.Kind != yaml.MappingNode {
				r.fault(value.Content[i], at, "<< takes mappings, this is "+kindName(item))
				continue
			}
			out = append(out, r.pairs(item, at, depth+1)...)
		}
		return out
	}
	r.fault(value, at, "<< takes a mapping or a list of them, this is "+kindName(value))
	return nil
}

func (r *yamlReader) key(n *yaml.Node, at jsontext.Pointer) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(n, at, "a key must be text, this is "+kindName(n))
		return "", false
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str":
		r.fault(n, at, fmt.Sprintf("the tag %s is none that a key may have", n.Tag))
		return "", false
	case n.Style == 0 && plain(n.Value).kind != '"':
		r.fault(n, at, fmt.Sprintf("the key %s is no text as Puppet reads it; write it with quotes", n.Value))
		return "", false
	}
	return n.Value, true
}
