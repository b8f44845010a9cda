package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/schemas"
)

// Path is where a scope's file is below the directory. The error matches [schemas.ErrInvalid]: [Read] would leave that file alone.
func Path(scope schemas.Scope) (string, error) {
	name := string(scope) + ".yaml"
	if slices.ContainsFunc(strings.Split(name, "/"), func(segment string) bool { return strings.HasPrefix(segment, ".") }) {
		return "", invalid("scope "+string(scope), []string{"cannot be a data file: names that begin with a dot are left alone"})
	}
	if name == "hiera.yaml" {
		return "", invalid("scope "+string(scope), []string{"cannot be a data file: hiera.yaml is Hiera's configuration"})
	}
	return path.Clean(name), nil
}

// Marshal returns the text of a file with these entries: YAML that [Read] and Puppet read to the same data. Expires is written,
// TTL is not. The error matches [schemas.ErrInvalid] for entries that no file can hold.
func Marshal(entries []Entry) ([]byte, error) {
	data, metas := &yaml.Node{Kind: yaml.MappingNode}, &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
		if e.Name == MetaKey {
			return nil, invalid("entry "+MetaKey, []string{"cannot be in a data file: the key is the one under which a file says more of its entries"})
		}
		value, err := node(jsontext.NewDecoder(strings.NewReader(string(e.Value))))
		if err != nil {
			return nil, fmt.Errorf("write entry %q: %w", e.Name, err)
		}
		data.Content = append(data.Content, str(e.Name), value)
		if meta := e.node(); len(meta.Content) > 0 {
			metas.Content = append(metas.Content, str(e.Name), meta)
		}
	}
	if len(metas.Content) > 0 {
		data.Content = append(data.Content, str(MetaKey), metas)
	}
	text, err := yaml.Dump(data, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return text, check(text, entries)
}

// check reads what was written. What is in Git is not to differ from what stands because of an oddity of YAML.
func check(text []byte, entries []Entry) error {
	c, faults := parseYAML("", text)
	got, faults := entriesOf(c, faults)
	same := len(faults) == 0 && len(got) == len(entries)
	for _, e := range entries {
		same = same && got[e.Name] == e.Value
	}
	if !same {
		return errors.New("write YAML: what was written does not read back to the same data")
	}
	return nil
}

func entriesOf(c content, faults []string) (map[string]schemas.Value, []string) {
	list, faults := entries("", c, faults)
	out := make(map[string]schemas.Value, len(list))
	for _, e := range list {
		out[e.Name] = e.Value
	}
	return out, faults
}

// node is the entry's member of [MetaKey].
func (m Meta) node() *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) { out.Content = append(out.Content, str(key), value) }
	if m.Kind != "" {
		add("kind", str(m.Kind))
	}
	if m.Sensitive {
		add("sensitive", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	if !m.Expires.IsZero() {
		add("expires", str(m.Expires.UTC().Format(time.RFC3339Nano)))
	}
	if !m.Run.IsZero() {
		add("run", runNode(m.Run))
	}
	if m.HasOwner {
		add("owner", str(m.Owner))
	}
	return out
}

func runNode(p schemas.RunPolicy) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) { out.Content = append(out.Content, str(key), value) }
	if p.Trigger != "" {
		add("trigger", str(string(p.Trigger)))
	}
	if p.Splay != 0 {
		add("splay", str(p.Splay.String()))
	}
	if len(p.Tags) > 0 {
		tags := &yaml.Node{Kind: yaml.SequenceNode}
		for _, tag := range p.Tags {
			tags.Content = append(tags.Content, str(tag))
		}
		add("tags", tags)
	}
	if p.Noop {
		add("noop", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	return out
}

// str is a string as Puppet reads it back: quoted where it would be a number, a date or a boolean.
func str(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case s == "<<": // Puppet merges a quoted one too
		n.Style = yaml.TaggedStyle | yaml.DoubleQuotedStyle
	case plain(s).kind != '"':
		n.Style = yaml.DoubleQuotedStyle
	case block(s):
		n.Style = yaml.LiteralStyle
	case strings.ContainsAny(s, "\n\r\t\u0085\u2028\u2029\ufeff"):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// block reports whether a text of several lines can be shown as it is.
func block(s string) bool {
	if !strings.Contains(strings.TrimRight(s, "\n"), "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for line := range strings.Lines(s) {
		if strings.HasSuffix(strings.TrimSuffix(line, "\n"), " ") {
			return false
		}
	}
	return !bytes.ContainsFunc([]byte(s), func(c rune) bool {
		return c < ' ' && c != '\n' || c == 0x7f || 0x80 <= c && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff
	})
}

// node is the next JSON value as YAML.
func node(d *jsontext.Decoder) (*yaml.Node, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return str(token.String()), nil
	case '0':
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}
		if p := plain(n.Value); p.kind != '0' || p.text != n.Value {
			n.Tag, n.Style = "!!float", yaml.TaggedStyle // 1e3 is text to Puppet
		}
		return n, nil
	case '{', '[':
		n, end := &yaml.Node{Kind: yaml.MappingNode}, jsontext.Kind('}')
		if token.Kind() == '[' {
			n.Kind, end = yaml.SequenceNode, ']'
		}
		for d.PeekKind() != end {
			item, err := node(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err := d.ReadToken()
		return n, err
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
}
