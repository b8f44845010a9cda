package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// Body is the schema of a request body that some sender designed.
type Body struct{ kind *kind }

// bodyName is no kind's name: none holds a "=".
const bodyName = "=body"

// Body compiles a schema beside those of the set, so that a $ref may name their
// files. what names its place in errors.
func (s *Set) Body(what string, schema []byte) (*Body, error) {
	files, bad := map[string]file{}, map[string]error{}
	for name, k := range s.kinds {
		if files[name] = k.file; k.err != nil {
			delete(files, name)
			bad[name] = k.err
		}
	}
	files[bodyName] = file{path: what, text: schema}
	kinds := compile(files, bad)
	if err := bad[bodyName]; err != nil {
		return nil, err
	}
	return &Body{kind: kinds[bodyName]}, nil
}

// BodyFile is [Set.Body] for a file of the set, such as update.schema.json. One
// that is not there, or cannot be used, is a *schemas.InvalidError.
func (s *Set) BodyFile(fileName string) (*Body, error) {
	name, ok := strings.CutSuffix(fileName, suffix)
	k, known := s.kinds[name]
	switch {
	case !ok || !known:
		return nil, &schemas.InvalidError{What: fmt.Sprintf("schema %q", fileName), Faults: []schemas.Fault{{
			Message: "is neither embedded nor in the directory of kinds; a file is called NAME" + suffix,
		}}}
	case k.err != nil:
		return nil, blame(k.file, k.err)
	}
	return &Body{kind: k}, nil
}

// Check validates a body and returns it with the defaults of its schema filled in
// where members are missing. The error is that of [Set.Validate].
func (b *Body) Check(v schemas.Value) (schemas.Value, error) {
	if err := b.kind.check("request body", v); err != nil {
		return "", err
	}
	value := decode(v)
	root := b.kind.doc
	text, err := json.Marshal(fill(root, root, value, schemas.MaxDepth))
	if err != nil {
		return "", fmt.Errorf("encode the body with its defaults: %w", err)
	}
	return schemas.ParseValue(text)
}

// fill returns value with the defaults that schema has for members that are
// missing. It follows $ref within the schema's own text, and depth of them.
func fill(root, schema, value any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth == 0 {
		return value
	}
	if ref, ok := s["$ref"].(string); ok && strings.HasPrefix(ref, "#/") {
		if target, ok := lookup(root, ref[1:]); ok {
			value = fill(root, target, value, depth-1)
		}
	}
	if all, ok := s["allOf"].([]any); ok {
		for _, part := range all {
			value = fill(root, part, value, depth-1)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if _, there := value[name]; !there {
				property, _ := properties[name].(map[string]any)
				standard, has := property["default"]
				if !has {
					continue
				}
				value[name] = clone(standard)
			}
			value[name] = fill(root, properties[name], value[name], depth-1)
		}
	case []any:
		for i := range value {
			value[i] = fill(root, s["items"], value[i], depth-1)
		}
	}
	return value
}

// clone copies a decoded JSON value: what is filled in may be filled further.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = clone(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clone(item)
		}
		return out
	}
	return v
}
