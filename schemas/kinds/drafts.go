package kinds

import (
	"errors"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

// latest is the draft of a schema without $schema, and the one to write new schemas in.
const latest = "https://json-schema.org/draft/2020-12/schema"

// draftOf returns the name of the draft that a schema is written in; "" for a $schema that is none.
func draftOf(schema map[string]any) string {
	url := latest
	if v, ok := schema["$schema"]; ok {
		url, _ = v.(string)
	}
	_, url, _ = strings.Cut(url, "://json-schema.org/")
	return map[string]string{
		"draft/2020-12/schema": "2020-12", "schema": "2020-12", "draft/2019-09/schema": "2019-09",
		"draft-07/schema": "7", "draft-06/schema": "6", "draft-04/schema": "4",
	}[strings.TrimSuffix(url, "#")]
}

// idOf returns what a schema says that its own address is, or "". Up to draft 7 a $ref silences all that stands beside it.
func idOf(draft string, schema map[string]any) string {
	if _, ok := schema["$ref"]; ok && len(draft) == 1 {
		return ""
	}
	id, _ := schema[idKeyword(draft)].(string)
	id, _, _ = strings.Cut(id, "#")
	return id
}

func idKeyword(draft string) string {
	if draft == "4" {
		return "id"
	}
	return "$id"
}

// drafts returns a compiler that has the schemas of schemas, which are part of the library, and loads nothing else.
func drafts() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errors.New("is no draft of JSON Schema") }
	return c
}

// checkSchema returns what is wrong with a schema as a schema, patterns that Go cannot compile among it.
func checkSchema(drafts *jsonschema.Compiler, doc any) []schemas.Fault {
	schema, ok := doc.(map[string]any)
	if !ok {
		return []schemas.Fault{{Message: "a schema must be an object"}}
	}
	url := latest
	if v, ok := schema["$schema"]; ok {
		url, _ = v.(string)
	}
	var meta *jsonschema.Schema
	if draftOf(schema) != "" {
		meta, _ = drafts.Compile(url)
	}
	if meta == nil {
		return []schemas.Fault{{Pointer: "/$schema", Message: "is no draft of JSON Schema that bellpull knows; use " + latest}}
	}
	return documents(nil).faults(meta.Validate(doc), doc) // nil: a schema holds no secrets
}
