package kinds

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

// base is where the files of a set stand for each other's $ref. Nothing is ever fetched from it.
const base = "bellpull:///kinds/"

// draft is what a schema without $schema is written in.
const draft = "https://json-schema.org/draft/2020-12/schema"

// compile makes a set of the files. Each is first checked on its own against the schema of schemas, because the library, given a
// file that refers to a bad one, would blame the wrong file.
func compile(files map[string]file) (*Set, error) {
	s := &Set{schemas: map[string]*jsonschema.Schema{}, docs: documents{}, files: files}
	texts := map[string][]byte{}
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	c.Formats = formats()
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		text, ok := texts[url]
		if !ok {
			return nil, fmt.Errorf("%q is neither embedded nor in the directory of kinds", strings.TrimPrefix(url, base))
		}
		return io.NopCloser(strings.NewReader(string(text))), nil
	}

	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		f := files[name]
		v, err := schemas.ParseValue(f.text)
		if err != nil {
			return nil, blame(f, err)
		}
		doc, err := decode([]byte(v))
		if err != nil {
			return nil, blame(f, err)
		}
		faults := immense(doc, "")
		if faults == nil {
			faults = checkSchema(c, doc)
		}
		if len(faults) > 0 {
			return nil, &schemas.InvalidError{What: f.path, Faults: faults}
		}
		for _, url := range addresses(name, doc) {
			texts[url], s.docs[url] = f.text, doc
		}
		for _, pointer := range unknownFormats(doc, "") {
			s.warnings = append(s.warnings, fmt.Sprintf("%s: %s: no such format is known, so nothing checks it", f.path, pointer))
		}
	}
	for _, name := range names {
		if faults := s.docs.badRefs(c, name, s.docs[base+name+suffix]); len(faults) > 0 {
			return nil, &schemas.InvalidError{What: files[name].path, Faults: faults}
		}
	}
	for _, name := range names {
		schema, err := compileOne(c, base+name+suffix)
		if err != nil {
			return nil, blame(files[name], err)
		}
		s.schemas[name] = schema
	}
	return s, nil
}

// compileOne compiles one schema. The library panics on some schemas that its own check lets through; a file must not be able to
// end the process.
func compileOne(c *jsonschema.Compiler, url string) (schema *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be compiled: %v", r)
		}
	}()
	return c.Compile(url)
}

// blame says which file an error came from. An error that already knows its places keeps them.
func blame(f file, err error) error {
	if invalid, ok := errors.AsType[*schemas.InvalidError](err); ok {
		return &schemas.InvalidError{What: f.path, Faults: invalid.Faults}
	}
	if outer, ok := errors.AsType[*jsonschema.SchemaError](err); ok {
		err = outer.Err
	}
	return &schemas.InvalidError{What: f.path, Faults: []schemas.Fault{{Message: strings.TrimPrefix(err.Error(), "jsonschema: ")}}}
}

// checkSchema returns what is wrong with a schema as a schema, patterns that Go cannot compile among it.
func checkSchema(c *jsonschema.Compiler, doc any) []schemas.Fault {
	m, ok := doc.(map[string]any)
	if !ok {
		return []schemas.Fault{{Message: "a schema must be an object"}}
	}
	url := draft
	if v, ok := m["$schema"]; ok {
		url, _ = v.(string)
	}
	// The schemas of schemas are compiled into the library. documents does not hold them: their faults are told without them.
	meta, err := c.Compile(url)
	if err != nil || url == "" {
		return []schemas.Fault{{Pointer: "/$schema", Message: "is no draft of JSON Schema that bellpull knows; use " + draft}}
	}
	return documents{}.faults(meta.Validate(doc), doc)
}

// addresses returns the URLs under which other files may refer to a schema: its file name and its own $id.
func addresses(name string, doc any) []string {
	urls := []string{base + name + suffix}
	if m, ok := doc.(map[string]any); ok {
		if id, ok := m["$id"].(string); ok && strings.Contains(id, ":") {
			urls = append(urls, strings.TrimSuffix(id, "#"))
		}
	}
	return urls
}
