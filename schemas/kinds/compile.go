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

// build makes kinds of files. What is bad it takes out, and with it what refers to it.
type build struct {
	files  map[string]file
	drafts *jsonschema.Compiler
	docs   map[string]map[string]any // of the good ones, by name
	bad    map[string]error
}

// compile makes kinds of the files, and adds those that it cannot use to bad, which may name some already.
//
// Each file is first checked on its own against the schema of schemas, because the library, given a file that refers to a bad
// one, would blame the wrong file.
func compile(files map[string]file, bad map[string]error) map[string]*kind {
	b := build{files: files, drafts: drafts(), docs: map[string]map[string]any{}, bad: bad}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		doc, err := b.read(files[name])
		if err != nil {
			bad[name] = err
			continue
		}
		b.docs[name] = doc
	}
	for {
		for b.dropBadRefs() { // what refers to a bad one is found in the next round
		}
		// The library keeps a schema that it could not compile to the end, and gives it to the next that refers to it. So after a
		// failure everything is compiled anew.
		if kinds, ok := b.link(); ok {
			return kinds
		}
	}
}

// drop takes a file out.
func (b *build) drop(name string, err error) {
	delete(b.docs, name)
	b.bad[name] = err
}

func (b *build) names() []string { return slices.Sorted(maps.Keys(b.docs)) }

// read returns the schema in a file.
func (b *build) read(f file) (map[string]any, error) {
	v, err := schemas.ParseValue(f.text)
	if err != nil {
		return nil, blame(f, err)
	}
	doc := decode(v)
	faults := immense(doc, "")
	if faults == nil {
		faults = checkSchema(b.drafts, doc)
	}
	if faults == nil {
		faults = misplaced(doc)
	}
	if len(faults) > 0 {
		return nil, &schemas.InvalidError{What: f.path, Faults: faults}
	}
	return doc.(map[string]any), nil // checkSchema has seen that it is an object
}

// dropBadRefs takes out files whose $ref leads nowhere, or whose address another has, and reports whether it found any.
func (b *build) dropBadRefs() bool {
	docs, faults := b.addresses()
	for _, name := range b.names() {
		faults[name] = append(faults[name], b.badRefs(docs, name)...)
	}
	dropped := false
	for _, name := range b.names() {
		if len(faults[name]) > 0 {
			b.drop(name, &schemas.InvalidError{What: b.files[name].path, Faults: faults[name]})
			dropped = true
		}
	}
	return dropped
}

// addresses returns the files by the URLs under which others may refer to them: the file's name, and the address that it gives
// itself. One that takes another's is a fault of the file.
func (b *build) addresses() (documents, map[string][]schemas.Fault) {
	docs, faults, owner := documents{}, map[string][]schemas.Fault{}, map[string]string{}
	for _, name := range b.names() {
		docs[base+name+suffix], owner[base+name+suffix] = b.docs[name], name
	}
	for _, name := range b.names() {
		draft := draftOf(b.docs[name])
		id := idOf(draft, b.docs[name])
		if id == "" {
			continue
		}
		fault := func(message string) {
			faults[name] = append(faults[name], schemas.Fault{Pointer: "/" + idKeyword(draft), Message: message})
		}
		url, err := resolve(base+name+suffix, id)
		if err != nil {
			fault(err.Error())
		} else if _, err := b.drafts.Compile(url); err == nil {
			fault(fmt.Sprintf("%q belongs to JSON Schema itself", id))
		} else if other, taken := owner[url]; taken && other != name {
			fault(fmt.Sprintf("%q is the address of %s already", id, b.files[other].path))
		} else {
			docs[url], owner[url] = b.docs[name], name
		}
	}
	return docs, faults
}

// link compiles the good files. On a failure it takes out what failed and returns false.
func (b *build) link() (map[string]*kind, bool) {
	docs, _ := b.addresses()
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	c.Formats = formats()
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		doc, ok := docs[url]
		if !ok {
			return nil, fmt.Errorf("%q is neither embedded nor in the directory of kinds", strings.TrimPrefix(url, base))
		}
		return io.NopCloser(strings.NewReader(text(doc))), nil
	}
	kinds := map[string]*kind{}
	for _, name := range b.names() {
		k := &kind{file: b.files[name], doc: b.docs[name], docs: docs, draft: draftOf(b.docs[name])}
		var err error
		if k.schema, err = compileOne(c, base+name+suffix); err != nil {
			b.drop(name, blame(k.file, err))
			return nil, false
		}
		for _, pointer := range unknownFormats(k.doc, "") {
			k.warnings = append(k.warnings, fmt.Sprintf("%s: %s: no such format is known, so nothing checks it", k.file.path, pointer))
		}
		kinds[name] = k
	}
	good := true
	for _, name := range b.names() {
		if err := kinds[name].readDefaults(kinds[keywordSchema]); err != nil {
			b.drop(name, err)
			good = false
		}
	}
	return kinds, good
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
