// Package kinds holds the JSON Schemas that say what an entry's value must look like, and checks values against them.
//
// A kind is a file NAME.schema.json. Some are embedded: [Load] adds those of a directory, where a file replaces the embedded
// kind of its name. A [Set] then answers [Set.Validate]. The same folder holds document.schema.json and event.schema.json, the
// published form of a scope's document and of an event; they are no kinds, and the readers do not use them: they check by hand
// (schemas.ParseDocument, schemas.Event.Check), and a test keeps the two equal.
//
// Draft 2020-12 unless a schema's $schema names an older one. "format" is asserted. A $ref may name another file of the set,
// never a URL and never a file elsewhere. Patterns are Go's (RE2), so a schema with a look-ahead is refused when it is loaded.
//
// This package links a JSON Schema library, which costs every start some milliseconds. So only those who write may import it.
package kinds

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

//go:embed *.schema.json
var embedded embed.FS

// The two schemas that stand in the folder and are no kinds.
const (
	documentSchema = "document"
	eventSchema    = "event"
)

// Set is a compiled set of kinds. It does not change, and any number of goroutines may use it.
type Set struct {
	schemas  map[string]*jsonschema.Schema // by name, document and event among them
	docs     documents
	files    map[string]file // what it was compiled from
	warnings []string
}

// Load compiles the embedded kinds and those of dir, a directory of NAME.schema.json files; "" means none. Other files in dir
// are left alone.
//
// A schema that cannot be used is a *schemas.InvalidError that names the file and, by JSON pointer, every place in it.
func Load(dir string) (*Set, error) {
	files, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	return compile(files)
}

// Names returns the names of the kinds, sorted.
func (s *Set) Names() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.schemas)) {
		if !reserved(name) {
			names = append(names, name)
		}
	}
	return names
}

// Warnings returns what was odd but harmless in the files, a line each: formats that nothing checks.
func (s *Set) Warnings() []string { return slices.Clone(s.warnings) }

// Validate checks a value against a kind. Numbers are compared exactly.
//
// The error is a *schemas.InvalidError with every fault and its place in the value. Its text never holds the value itself, which
// may be a secret. A kind that is not known is such an error too, listing those that are.
func (s *Set) Validate(kind string, v schemas.Value) error {
	what := "kind " + kind
	schema, ok := s.schemas[kind]
	if !ok || reserved(kind) {
		return &schemas.InvalidError{What: fmt.Sprintf("kind %q", kind), Faults: []schemas.Fault{{
			Message: "is not known; the kinds are " + strings.Join(s.Names(), ", "),
		}}}
	}
	return s.check(what, schema, v)
}

// Complete returns a set event with what its kind says of every entry of its
// own. The error is a *schemas.InvalidError: of [Set.Validate].
func (s *Set) Complete(ev schemas.Event) (schemas.Event, error) {
	if err := s.Validate(ev.Kind, ev.Value); err != nil {
		return schemas.Event{}, err
	}
	return ev, nil
}

// ValidateDocument checks the body of a scope's key against document.schema.json.
func (s *Set) ValidateDocument(body []byte) error { return s.checkText(documentSchema, body) }

// ValidateEvent checks the JSON form of an event against event.schema.json.
func (s *Set) ValidateEvent(body []byte) error { return s.checkText(eventSchema, body) }

func (s *Set) checkText(name string, body []byte) error {
	v, err := schemas.ParseValue(body)
	if err != nil {
		return err
	}
	return s.check(name, s.schemas[name], v)
}

func (s *Set) check(what string, schema *jsonschema.Schema, v schemas.Value) error {
	value, err := decode([]byte(v))
	if err != nil {
		return err
	}
	faults := immense(value, "")
	if faults == nil {
		faults = s.docs.faults(schema.Validate(value), value)
	}
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b schemas.Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return &schemas.InvalidError{What: what, Faults: slices.Compact(faults)}
}

func reserved(name string) bool { return name == documentSchema || name == eventSchema }
