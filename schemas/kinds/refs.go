package kinds

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// documents are decoded schemas by URL.
type documents map[string]any

// badRefs returns the places of a schema whose $ref leads nowhere. The library refuses such a schema too, but does not say where
// in it the $ref stands.
func (b *build) badRefs(docs documents, name string) []schemas.Fault {
	doc := b.docs[name]
	draft := draftOf(doc)
	from, err := resolve(base+name+suffix, idOf(draft, doc))
	if err != nil {
		return nil // addresses has told
	}
	nested := false
	var faults []schemas.Fault
	walk(doc, "", func(pointer string, schema map[string]any) {
		if pointer != "" && idOf(draft, schema) != "" {
			nested = true
		}
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if ref, ok := schema[keyword].(string); ok {
				if message := b.badRef(docs, doc, from, ref); message != "" {
					faults = append(faults, schemas.Fault{Pointer: pointer + "/" + keyword, Message: message})
				}
			}
		}
	})
	if nested { // an address inside gives the $ref below it another base; then the library's answer has to do
		return nil
	}
	return faults
}

func (b *build) badRef(docs documents, doc any, from, ref string) string {
	file, fragment, _ := strings.Cut(ref, "#")
	target := doc
	if file != "" {
		at, err := resolve(from, file)
		if err != nil {
			return err.Error()
		}
		there, ok := docs[at]
		if !ok {
			if name, ok := strings.CutSuffix(strings.TrimPrefix(at, base), suffix); ok && b.bad[name] != nil {
				return fmt.Sprintf("refers to %q, which cannot be used", ref)
			}
			// It may still be one of the drafts, which the library holds.
			if _, err := b.drafts.Compile(at + "#" + fragment); err != nil {
				return fmt.Sprintf("refers to %q, which is neither embedded nor in the directory of kinds", ref)
			}
			return ""
		}
		target = there
	}
	if strings.HasPrefix(fragment, "/") {
		if _, ok := lookup(target, fragment); !ok {
			return fmt.Sprintf("refers to %q, which is not there", ref)
		}
	}
	return ""
}

func resolve(from, ref string) (string, error) {
	b, err := url.Parse(from)
	if err != nil {
		return "", fmt.Errorf("read $id %q: %w", from, err)
	}
	r, err := url.Parse(ref)
	if err != nil {
		return "", fmt.Errorf("read $ref %q: %w", ref, err)
	}
	return b.ResolveReference(r).String(), nil
}

// walk calls visit for every object of a schema that may be a schema, in a fixed order, with its JSON pointer. Members that hold
// data and no schemas are passed over, and so are the lists of names that hold schemas: a property may be called $ref.
func walk(node any, pointer string, visit func(pointer string, schema map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		visit(pointer, node)
		for _, name := range slices.Sorted(maps.Keys(node)) {
			at := pointer + "/" + token(name)
			switch name {
			case "const", "enum", "default", "examples", keyword:
				continue
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				if named, ok := node[name].(map[string]any); ok {
					for _, name := range slices.Sorted(maps.Keys(named)) {
						walk(named[name], at+"/"+token(name), visit)
					}
					continue
				}
			}
			walk(node[name], at, visit)
		}
	case []any:
		for i, item := range node {
			walk(item, pointer+"/"+strconv.Itoa(i), visit)
		}
	}
}

// token writes a member's name as a part of a JSON pointer.
func token(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1") // a Replacer costs more to make than a whole check
}

// lookup returns what stands at a JSON pointer. As the library writes its pointers for URLs, percent signs are resolved too.
func lookup(doc any, pointer string) (any, bool) {
	for _, part := range tokens(pointer) {
		switch node := doc.(type) {
		case map[string]any:
			next, ok := node[part]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			doc = node[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// tokens splits a pointer of the library's into the names and numbers that it is made of.
func tokens(pointer string) []string {
	parts := strings.Split(pointer, "/")[1:]
	for i, part := range parts {
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}
