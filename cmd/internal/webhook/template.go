package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

// template is text with {a.b} in it, which stand for members of a body.
type template []part

// part is literal text, or the path of a member.
type part struct {
	literal string
	path    []string
}

func parseTemplate(text string) (template, error) {
	var t template
	for text != "" {
		open := strings.IndexAny(text, "{}")
		if open < 0 {
			return append(t, part{literal: text}), nil
		}
		if open > 0 {
			t = append(t, part{literal: text[:open]})
		}
		end := strings.IndexAny(text[open+1:], "{}") + open + 1
		if text[open] == '}' || end == open || text[end] == '{' {
			return nil, fmt.Errorf("%q: a { or } stands alone", text)
		}
		path := strings.Split(text[open+1:end], ".")
		if slices.Contains(path, "") {
			return nil, fmt.Errorf("%q: {} must hold the path of a member, such as {metadata.id}", text)
		}
		t = append(t, part{path: path})
		text = text[end+1:]
	}
	return t, nil
}

// with returns the template's text with a stand-in for what a body holds.
func (t template) with(standIn string) string {
	var b strings.Builder
	for _, p := range t {
		if p.path != nil {
			b.WriteString(standIn)
		}
		b.WriteString(p.literal)
	}
	return b.String()
}

// place is where in the body the template's text comes from, as a JSON pointer;
// "" if that is not one place.
func (t template) place() string {
	at := ""
	for _, p := range t {
		switch {
		case p.path == nil:
		case at != "":
			return ""
		default:
			at = pointer(p.path)
		}
	}
	return at
}

// text fills the template in. Each member that it stands for has to be there, and
// to be a string, a number, true or false; refuse says what else is wrong with its
// text, "" for nothing.
func (t template) text(body schemas.Value, refuse func(string) string) (string, []schemas.Fault) {
	var b strings.Builder
	var faults []schemas.Fault
	for _, p := range t {
		if p.path == nil {
			b.WriteString(p.literal)
			continue
		}
		text, fault := scalar(body, p.path)
		if fault == "" {
			fault = refuse(text)
		}
		if fault != "" {
			faults = append(faults, schemas.Fault{Pointer: pointer(p.path), Message: fault})
		}
		b.WriteString(text)
	}
	return b.String(), faults
}

// anything lets each text pass.
func anything(string) string { return "" }

func scalar(body schemas.Value, path []string) (text, fault string) {
	v, ok := find(body, path)
	switch {
	case !ok:
		return "", "is missing"
	case v.Kind() == '"':
		return v.Text(), ""
	case v.Kind() == '0':
		return plainNumber(string(v))
	case v.Kind() == 't', v.Kind() == 'f':
		return string(v), ""
	}
	return "", "must be a string, a number, true or false here"
}

// plainNumber gives equal numbers equal text, so that 8443.0 does not open another
// port than 8443.
func plainNumber(digits string) (text, fault string) {
	if strings.ContainsAny(digits, "eE") {
		return "", "must be written without an exponent here"
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
			digits = whole
		} else {
			digits = whole + "." + fraction
		}
	}
	if digits == "-0" {
		digits = "0"
	}
	return digits, ""
}

// value is [template.text] for a place that takes any JSON value: a template that
// is one {x} keeps x as it is.
func (t template) value(body schemas.Value) (schemas.Value, []schemas.Fault) {
	if len(t) == 1 && t[0].path != nil {
		if v, ok := find(body, t[0].path); ok {
			return v, nil
		}
		return "", []schemas.Fault{{Pointer: pointer(t[0].path), Message: "is missing"}}
	}
	text, faults := t.text(body, anything)
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil { // the body was valid UTF-8, and so is the configuration
		faults = append(faults, schemas.Fault{Message: "is no valid text"})
	}
	return schemas.Value(quoted), faults
}

// valueTemplate is a JSON value with templates in it.
type valueTemplate struct {
	leaf     template
	constant schemas.Value
	members  map[string]*valueTemplate
	items    []*valueTemplate
	isArray  bool
}

// parseValueTemplate takes what YAML has decoded.
func parseValueTemplate(v any) (*valueTemplate, error) {
	switch v := v.(type) {
	case string:
		leaf, err := parseTemplate(v)
		return &valueTemplate{leaf: leaf}, err
	case map[string]any:
		out := &valueTemplate{members: make(map[string]*valueTemplate, len(v))}
		for name, item := range v {
			member, err := parseValueTemplate(item)
			if err != nil {
				return nil, err
			}
			out.members[name] = member
		}
		return out, nil
	case []any:
		out := &valueTemplate{isArray: true}
		for _, item := range v {
			element, err := parseValueTemplate(item)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, element)
		}
		return out, nil
	}
	constant, err := toValue(v)
	return &valueTemplate{constant: constant}, err
}

// toValue encodes what YAML has decoded.
func toValue(v any) (schemas.Value, error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("cannot be written as JSON: %w", err)
	}
	return schemas.ParseValue(text)
}

// fill returns the value for a body. where tells, for each place in the value that
// comes from one place in the body, which that is.
func (t *valueTemplate) fill(body schemas.Value, at string, where map[string]string) (schemas.Value, []schemas.Fault) {
	var faults []schemas.Fault
	child := func(c *valueTemplate, token string) schemas.Value {
		v, f := c.fill(body, at+"/"+escape(token), where)
		faults = append(faults, f...)
		return v
	}
	switch {
	case t.members != nil:
		text := []byte{'{'}
		for i, name := range slices.Sorted(maps.Keys(t.members)) {
			if i > 0 {
				text = append(text, ',')
			}
			text, _ = jsontext.AppendQuote(text, name) // invalid UTF-8 is replaced: YAML holds none
			text = append(append(text, ':'), child(t.members[name], name)...)
		}
		return schemas.Value(append(text, '}')), faults
	case t.isArray:
		text := []byte{'['}
		for i, item := range t.items {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, child(item, strconv.Itoa(i))...)
		}
		return schemas.Value(append(text, ']')), faults
	case t.constant != "":
		return t.constant, nil
	case len(t.leaf) == 0:
		return `""`, nil
	}
	if place := t.leaf.place(); place != "" {
		where[at] = place
	}
	return t.leaf.value(body)
}

// find returns the member at a path; a number is an index of an array.
func find(v schemas.Value, path []string) (schemas.Value, bool) {
	for _, name := range path {
		next, ok := member(v, name)
		if !ok {
			return "", false
		}
		v = next
	}
	return v, true
}

func member(v schemas.Value, name string) (schemas.Value, bool) {
	if v.Kind() == '[' {
		items := slices.Collect(v.Elements())
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(items) {
			return "", false
		}
		return items[i], true
	}
	for n, item := range v.Members() {
		if n == name {
			return item, true
		}
	}
	return "", false
}

// pointer writes a path as a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + escape(name))
	}
	return b.String()
}

func escape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1") // a Replacer costs more to make than all else here
}
