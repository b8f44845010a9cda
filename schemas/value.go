package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is a JSON value as compact text: members sorted, strings in their
// shortest form, the digits of numbers exactly as they were written. Equal
// values have equal text, but 1 and 1.0 are not equal. Make one with [ParseValue].
type Value string

// ParseValue checks text strictly: one JSON value, no duplicate members, valid
// UTF-8, nothing after it, at most [MaxDepth] deep and [MaxDocument] bytes long.
// The error is an [*InvalidError] with the place as a JSON pointer.
func ParseValue(text []byte) (Value, error) {
	v, err := parseJSON("value", text)
	return Value(v), err
}

// Kind tells the type of the value: 'n' null, 't' or 'f' boolean, '"' string,
// '0' number, '{' object, '[' array; 0 for the empty Value.
func (v Value) Kind() byte {
	if v == "" {
		return 0
	}
	if c := v[0]; c == '-' || '0' <= c && c <= '9' {
		return '0'
	}
	return v[0]
}

// Text returns the text of a string, and "" for any other kind.
func (v Value) Text() string {
	if v.Kind() != '"' {
		return ""
	}
	text, err := unquote(jsontext.Value(v))
	if err != nil { // a Value holds valid strings
		return ""
	}
	return text
}

// Elements yields the values of an array. Of any other kind it yields nothing.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != '[' {
			return
		}
		for _, raw := range elements(jsontext.Value(v)) {
			if !yield(Value(raw)) {
				return
			}
		}
	}
}

// Members yields the names and values of an object in the order of the text.
// Of any other kind it yields nothing.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != '{' {
			return
		}
		for name, raw := range members(jsontext.Value(v)) {
			if !yield(name, Value(raw)) {
				return
			}
		}
	}
}

// MarshalJSON returns the text itself; the empty Value is an error.
func (v Value) MarshalJSON() ([]byte, error) {
	if v == "" {
		return nil, errors.New("empty value")
	}
	return []byte(v), nil
}

// UnmarshalJSON parses text as [ParseValue] does.
func (v *Value) UnmarshalJSON(text []byte) (err error) {
	*v, err = ParseValue(text)
	return err
}

// parseJSON checks text and returns it in the form that [Value] describes.
func parseJSON(what string, text []byte) (jsontext.Value, error) {
	if len(text) > MaxDocument {
		return nil, invalid(what, "", fmt.Sprintf("has more than %d bytes, the most that is allowed", MaxDocument))
	}
	if tooDeep(text) {
		return nil, invalid(what, deepest(text), fmt.Sprintf("is nested deeper than %d levels", MaxDepth))
	}
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, syntaxError(what, text, err)
	}
	return v, nil
}

// tooDeep counts brackets outside strings; whether the text is JSON is not its business.
func tooDeep(text []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// deepest is the place at which text exceeds [MaxDepth].
func deepest(text []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for dec.StackDepth() <= MaxDepth {
		if _, err := dec.ReadToken(); err != nil {
			break // it is no JSON either
		}
	}
	return string(dec.StackPointer())
}

func syntaxError(what string, text []byte, err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return invalid(what, "", "is no valid JSON: "+err.Error())
	}
	message := fmt.Sprintf("is no valid JSON at byte %d: %v", syntax.ByteOffset, syntax.Err)
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		message = "is empty, a JSON value is wanted"
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "ends in the middle of the JSON value"
	case errors.Is(err, jsontext.ErrDuplicateName):
		message = "stands twice in its object"
	}
	return invalid(what, string(syntax.JSONPointer), message)
}

// members yields the members of an object in the form of [Value]. It walks the
// text itself: the fact parses a node's documents at every start, and a decoder
// for each object costs it more than the round trip to the bucket.
func members(object jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for at := 1; at < len(object) && object[at] == '"'; at++ { // each ends at its comma, or at the }
			colon := end(object, at)
			value := colon + 1
			name, err := unquote(object[at:colon])
			at = end(object, value)
			if err != nil || !yield(name, object[value:at:at]) {
				return
			}
		}
	}
}

// unquote returns the text of a string. Most hold no escape.
func unquote(quoted jsontext.Value) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return string(text), err
}

// elements returns the elements of an array in the form of [Value].
func elements(array jsontext.Value) (out []jsontext.Value) {
	for at := 1; at < len(array) && array[at] != ']'; at++ {
		start := at
		at = end(array, start)
		out = append(out, array[start:at:at])
	}
	return out
}

// end returns where the value that begins at start ends, in compact JSON.
func end(text jsontext.Value, start int) int {
	depth := 0
	for at := start; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at // of what holds a number or a literal
			} else if depth == 0 {
				return at + 1
			}
		case ',', ':':
			if depth == 0 {
				return at
			}
		}
	}
	return len(text)
}
