package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/schemas"
)

// yamlMost bounds what aliases may make of one YAML text.
const yamlMost = 100_000

// yamlReader turns YAML into JSON text. What readers of YAML take for different
// things, such as yes, 0644 or 2026-12-01 without quotes, is a fault: a value
// that is good here must be the same value elsewhere.
type yamlReader struct {
	path  string
	nodes int
	// odd is what is text for the library and something else for a reader of YAML 1.1, as Puppet's is.
	odd    *regexp.Regexp
	number *regexp.Regexp // as JSON has it
}

// yamlValue reads the only document of a YAML text. Numbers keep their digits.
func yamlValue(path string, text []byte) (schemas.Value, error) {
	r := yamlReader{
		path:   path,
		odd:    regexp.MustCompile(`(?i)^(yes|no|on|off|[-+]?[0-9][0-9_,]*(:[0-5]?[0-9])*(\.[0-9_]*)?|[-+]?0[bx].*|:.*)$`),
		number: regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`),
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return "", r.syntax(err)
	}
	var document, more yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF), err == nil && len(document.Content) != 1:
		return "", errNothing
	case err != nil:
		return "", r.syntax(err)
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		return "", r.fault(more.Line, "", "a second document begins; a value is one")
	}
	var out bytes.Buffer
	if err := r.write(&out, document.Content[0], ""); err != nil {
		return "", err
	}
	return schemas.ParseValue(out.Bytes())
}

// fault never holds the value: it may be a secret.
func (r *yamlReader) fault(line int, at jsontext.Pointer, message string) error {
	place := r.path
	if line > 0 {
		place += ":" + strconv.Itoa(line)
	}
	return &schemas.InvalidError{What: place, Faults: []schemas.Fault{{Pointer: string(at), Message: message}}}
}

func (r *yamlReader) syntax(err error) error {
	if load, ok := errors.AsType[*yaml.LoadError](err); ok {
		return r.fault(load.Mark.Line, "", "is no valid YAML: "+strings.ReplaceAll(load.Message, "\n", " "))
	}
	return r.fault(0, "", "is no valid YAML: "+strings.ReplaceAll(err.Error(), "\n", " "))
}

func (r *yamlReader) write(out *bytes.Buffer, n *yaml.Node, at jsontext.Pointer) error {
	if r.nodes++; r.nodes > yamlMost || out.Len() > schemas.MaxDocument || strings.Count(string(at), "/") > schemas.MaxDepth {
		return r.fault(n.Line, at, fmt.Sprintf("is nested deeper than %d levels, or aliases make too much of it", schemas.MaxDepth))
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.write(out, n.Alias, at)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := r.write(out, item, at.AppendToken(strconv.Itoa(i))); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
				return r.fault(key.Line, at, "a key must be text; write it with quotes")
			}
			if i > 0 {
				out.WriteByte(',')
			}
			at := at.AppendToken(key.Value)
			if err := r.scalar(out, key, at); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := r.write(out, value, at); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	}
	return r.scalar(out, n, at)
}

func (r *yamlReader) scalar(out *bytes.Buffer, n *yaml.Node, at jsontext.Pointer) error {
	switch tag := n.ShortTag(); {
	case tag == "!!str" && (n.Style != 0 || !r.odd.MatchString(n.Value)):
		quoted, err := jsontext.AppendQuote(nil, n.Value)
		if err != nil {
			return r.fault(n.Line, at, "is not valid UTF-8")
		}
		out.Write(quoted)
	case tag == "!!null":
		out.WriteString("null")
	case tag == "!!bool" && (strings.EqualFold(n.Value, "true") || strings.EqualFold(n.Value, "false")):
		out.WriteString(strings.ToLower(n.Value))
	case (tag == "!!int" || tag == "!!float") && r.number.MatchString(n.Value):
		out.WriteString(n.Value)
	default:
		return r.fault(n.Line, at, "is not the same for every reader of YAML; write text with quotes, numbers as JSON has them, and true or false")
	}
	return nil
}
