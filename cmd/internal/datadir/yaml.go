package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/schemas"
)

// maxNodes bounds what one file's aliases may make of it.
const maxNodes = 200_000

// content is a file's top level.
type content struct {
	members []member
	meta    schemas.Value  // of [MetaKey]; "" = the file has none
	lines   map[string]int // by JSON pointer, of everything below MetaKey
	note    string         // what is odd, after its place
}

type member struct {
	name  string
	value schemas.Value
	place string
}

// parseYAML reads a file's text. Faults come in the order of the text.
func parseYAML(path string, text []byte) (content, []string) {
	r := yamlReader{path: path, content: content{lines: map[string]int{}}}
	root, err := document(text)
	switch {
	case err != nil:
		return content{}, []string{path + syntax(err)}
	case root == nil: // nothing but comments
	case root.Kind == yaml.ScalarNode && root.Style == 0 && plain(root.Value).kind == 'n':
	case root.Kind != yaml.MappingNode:
		r.fault(root, "", "a data file holds a mapping of keys to values, this is "+kindName(root))
	default:
		r.top(root)
	}
	return r.content, r.faults
}

// ParseValue reads a YAML text that is one value, as values of data files are read.
// The error is an [*schemas.InvalidError] with every fault after path and line; an
// empty text is one.
func ParseValue(path string, text []byte) (schemas.Value, error) {
	root, err := document(text)
	switch {
	case err != nil:
		return "", &schemas.InvalidError{What: "value", Faults: faultsOf([]string{path + syntax(err)})}
	case root == nil:
		return "", &schemas.InvalidError{What: "value", Faults: faultsOf([]string{path + ": is empty"})}
	}
	r := yamlReader{path: path}
	var out bytes.Buffer
	r.write(&out, root, "", 1)
	if len(r.faults) > 0 {
		return "", &schemas.InvalidError{What: "value", Faults: faultsOf(r.faults)}
	}
	return schemas.ParseValue(out.Bytes())
}

func faultsOf(texts []string) (faults []schemas.Fault) {
	for _, text := range texts {
		faults = append(faults, schemas.Fault{Message: text})
	}
	return faults
}

// document returns the root of the only document in text; nil for an empty text.
func document(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, secondError(second.Line)
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return nil, nil
	}
	return first.Content[0], nil
}

// secondError is a second document that begins at the line: Puppet would not read it.
type secondError int

func (secondError) Error() string {
	return "a second document begins, a data file has one"
}

// syntax is the library's error after the file's path.
func syntax(err error) string {
	var loading *yaml.LoadError
	var second secondError
	switch {
	case errors.As(err, &loading) && loading.Mark.Line > 0:
		return fmt.Sprintf(":%d: is no valid YAML: %s", loading.Mark.Line, strings.ReplaceAll(loading.Message, "\n", " "))
	case errors.As(err, &second):
		return fmt.Sprintf(":%d: %v", int(second), second)
	}
	return ": is no valid YAML: " + strings.ReplaceAll(err.Error(), "\n", " ")
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return "a single value"
}

// yamlReader turns nodes into JSON text.
type yamlReader struct {
	path string
	content
	faults []string
	nodes  int
	asked  bool // below MetaKey
}

func (r *yamlReader) fault(n *yaml.Node, at jsontext.Pointer, message string) {
	r.faults = append(r.faults, place(r.path, n.Line, string(at))+": "+message)
}

// place names a place in a file.
func place(path string, line int, pointer string) string {
	if line > 0 {
		path = fmt.Sprintf("%s:%d", path, line)
	}
	if pointer != "" {
		path += ": " + pointer
	}
	return path
}

// top reads the file's own mapping.
func (r *yamlReader) top(root *yaml.Node) {
	for _, pair := range r.pairs(root, "", 0) {
		at := jsontext.Pointer("").AppendToken(pair.key)
		r.asked = pair.key == MetaKey
		var out bytes.Buffer
		before := len(r.faults)
		r.write(&out, pair.value, at, 1)
		if len(r.faults) > before {
			continue
		}
		value, err := schemas.ParseValue(out.Bytes())
		if err != nil {
			r.fault(pair.value, at, reason(err))
			continue
		}
		if r.asked {
			r.meta = value
			continue
		}
		if r.note == "" && bytes.Contains(out.Bytes(), []byte("%{")) {
			r.note = place(r.path, pair.node.Line, string(at)) + ": holds %{, which is text here; Hiera does not interpolate what comes from the bucket unless the level says interpolate: true"
		}
		r.members = append(r.members, member{pair.key, value, place(r.path, pair.node.Line, "")})
	}
}

func (r *yamlReader) write(out *bytes.Buffer, n *yaml.Node, at jsontext.Pointer, depth int) {
	if r.nodes++; r.nodes > maxNodes || out.Len() > schemas.MaxDocument {
		if r.nodes < 2*maxNodes { // said once
			r.nodes = 2 * maxNodes
			r.fault(n, at, fmt.Sprintf("aliases make more than %d values or %d bytes of this file", maxNodes, schemas.MaxDocument))
		}
		return
	}
	if depth > schemas.MaxDepth {
		r.fault(n, at, fmt.Sprintf("is nested deeper than %d levels", schemas.MaxDepth))
		return
	}
	if r.asked {
		r.lines[string(at)] = n.Line
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Style&yaml.TaggedStyle != 0 && !known(n) {
		r.fault(n, at, fmt.Sprintf("the tag %s is none that a data file may have", n.Tag))
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		for i, pair := range r.pairs(n, at, depth) {
			if i > 0 {
				out.WriteByte(',')
			}
			r.quote(out, pair.node, at, pair.key)
			out.WriteByte(':')
			r.write(out, pair.value, at.AppendToken(pair.key), depth+1)
		}
		out.WriteByte('}')
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			r.write(out, item, jsontext.Pointer(fmt.Sprintf("%s/%d", at, i)), depth+1)
		}
		out.WriteByte(']')
	default:
		r.scalar(out, n, at)
	}
}

// known reports whether the tag that a node has in the text is one that says what the node is anyway.
func known(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.MappingNode:
		return n.Tag == "!!map"
	case yaml.SequenceNode:
		return n.Tag == "!!seq"
	}
	switch n.Tag {
	case "!!str":
		return true
	case "!!int", "!!float": // as [Marshal] writes a number that Puppet would take for text
		return n.Style&^yaml.TaggedStyle == 0 && reNumber.MatchString(n.Value)
	}
	return false
}

func (r *yamlReader) scalar(out *bytes.Buffer, n *yaml.Node, at jsontext.Pointer) {
	s := scalar{kind: '"'}
	switch {
	case n.Style == 0:
		s = plain(n.Value)
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str":
		s = scalar{'0', n.Value}
	}
	switch s.kind {
	case 'n':
		out.WriteString("null")
	case 't':
		out.WriteString("true")
	case 'f':
		out.WriteString("false")
	case '0':
		out.WriteString(s.text)
	case '!':
		r.fault(n, at, "without quotes this is "+s.text+"; write it with quotes")
	default:
		r.quote(out, n, at, n.Value)
	}
}

func (r *yamlReader) quote(out *bytes.Buffer, n *yaml.Node, at jsontext.Pointer, text string) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		r.fault(n, at, "is not valid UTF-8")
		return
	}
	out.Write(quoted)
}

// reason is an error of package schemas without its first word, which names what the place says already.
func reason(err error) string {
	var invalid *schemas.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) != 1 {
		return err.Error()
	}
	return strings.TrimSpace(strings.TrimPrefix(invalid.Faults[0].Pointer+" ", " ") + invalid.Faults[0].Message)
}
