// Package kinds holds the JSON Schemas that say what an entry's value must look like, and checks values against them.
//
// A kind is a file NAME.schema.json. Some are embedded: [Load] adds those of a directory, where a file replaces the embedded
// kind of its name. A [Set] then answers [Set.Validate]. The same folder holds document.schema.json and event.schema.json, the
// published form of a scope's document and of an event; they are no kinds, and the readers do not use them: they check by hand
// (schemas.ParseDocument, schemas.Event.Check), and a test keeps the two equal. x-bellpull.schema.json is no kind either.
//
// Draft 2020-12 unless a schema's $schema names an older one. "format" is asserted. A $ref may name another file of the set,
// never a URL and never a file elsewhere. Patterns are Go's (RE2), so a schema with a look-ahead is refused when it is loaded.
//
// The member x-bellpull at the root of a kind's schema says what holds for every entry of the kind: see [Defaults].
// [Set.Reload] reads the files again, and what is bad then stays in force as it was.
//
// This package links a JSON Schema library, which costs every start some milliseconds. So only those who write may import it.
package kinds

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

//go:embed *.schema.json
var embedded embed.FS

// The schemas that stand in the folder and are no kinds.
const (
	documentSchema = "document"
	eventSchema    = "event"
	keywordSchema  = "x-bellpull"
)

// Set is a compiled set of kinds. It does not change, and any number of goroutines may use it.
type Set struct {
	kinds map[string]*kind // by name, the three that are no kinds among them
}

// kind is one file of a set, as it was compiled.
type kind struct {
	file     file
	schema   *jsonschema.Schema
	doc      map[string]any // what stands in the file
	docs     documents      // what its $ref may have led to
	draft    string
	defaults Defaults
	warnings []string
	err      error // why it cannot be used; then there is no schema
}

// Load compiles the embedded kinds and those of dir, a directory of NAME.schema.json files; "" means none. Other files in dir
// are left alone. A symbolic link may lead to a file below dir and nowhere else; dir itself may be one.
//
// Files that cannot be used are an error each, joined: a *schemas.InvalidError that names the file and, by JSON pointer, every
// place in it.
func Load(dir string) (*Set, error) {
	files, bad, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	s := &Set{kinds: compile(files, bad)}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		errs = append(errs, bad[name])
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Names returns the names of the kinds, sorted.
func (s *Set) Names() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.kinds)) {
		if !reserved(name) {
			names = append(names, name)
		}
	}
	return names
}

// Kind is what is known of a kind beside its schema.
type Kind struct {
	Name        string
	Title       string // from the schema, as Description; may be empty
	Description string
	File        string // its path, or "embedded"
	Draft       string // of JSON Schema: 2020-12, 2019-09, 7, 6 or 4
	Defaults    Defaults
	Err         error // why it cannot be used, after a [Set.Reload]; then only Name and File are known
}

// Kinds returns all kinds, sorted by name.
func (s *Set) Kinds() []Kind {
	var all []Kind
	for _, name := range s.Names() {
		k := s.kinds[name]
		about := Kind{Name: name, File: k.file.path, Draft: k.draft, Defaults: k.defaults, Err: k.err}
		if k.file.embedded {
			about.File = "embedded"
		}
		about.Title, _ = k.doc["title"].(string)
		about.Description, _ = k.doc["description"].(string)
		about.Defaults.Scopes = slices.Clone(k.defaults.Scopes)
		about.Defaults.Run.Tags = slices.Clone(k.defaults.Run.Tags)
		all = append(all, about)
	}
	return all
}

// Warnings returns what was odd but harmless in the files, a line each: formats that nothing checks.
func (s *Set) Warnings() []string {
	var all []string
	for _, name := range s.Names() {
		all = append(all, s.kinds[name].warnings...)
	}
	return all
}

// Validate checks a value against a kind. Numbers are compared exactly.
//
// The error is a *schemas.InvalidError with every fault and its place in the value. Its text never holds the value itself, which
// may be a secret. A kind that is not known is such an error too, listing those that are. A kind whose file was bad when it was
// first seen by a [Set.Reload] is [schemas.ErrUnavailable]: the value may be good, but nobody can tell before the file is mended.
func (s *Set) Validate(kind string, v schemas.Value) error {
	k, ok := s.kinds[kind]
	switch {
	case !ok || reserved(kind):
		return &schemas.InvalidError{What: fmt.Sprintf("kind %q", kind), Faults: []schemas.Fault{{
			Message: "is not known; the kinds are " + strings.Join(s.Names(), ", "),
		}}}
	case k.err != nil:
		return fmt.Errorf("%w: kind %q cannot be used: %v", schemas.ErrUnavailable, kind, k.err)
	}
	return k.check("kind "+kind, v)
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
	return s.kinds[name].check(name, v)
}

func (k *kind) check(what string, v schemas.Value) error {
	value := decode(v)
	if faults := k.faults(value); len(faults) > 0 {
		return &schemas.InvalidError{What: what, Faults: faults}
	}
	return nil
}

// faults returns what is wrong with a decoded value, sorted.
func (k *kind) faults(value any) []schemas.Fault {
	faults := immense(value, "")
	if faults == nil {
		faults = k.docs.faults(k.schema.Validate(value), value)
	}
	slices.SortFunc(faults, func(a, b schemas.Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(faults)
}

func reserved(name string) bool {
	return name == documentSchema || name == eventSchema || name == keywordSchema
}
