package kinds

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

// faults turns the library's answer about a value into faults, one for each place. What they say is made from the schema and the
// kind of thing found, never from the library's text: that text quotes the value, which may be a secret.
func (d documents) faults(err error, value any) []schemas.Fault {
	if err == nil {
		return nil
	}
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok { // a schema that refers to itself for ever
		return []schemas.Fault{{Message: "cannot be checked: the schema never comes to an end"}}
	}
	faults := d.collect(ve, value)
	if len(faults) == 0 { // whatever cannot be told is still a fault
		faults = []schemas.Fault{{Message: "does not satisfy the schema"}}
	}
	return faults
}

func (d documents) collect(ve *jsonschema.ValidationError, value any) []schemas.Fault {
	keyword := ve.AbsoluteKeywordLocation[strings.LastIndexByte(ve.AbsoluteKeywordLocation, '/')+1:]
	switch {
	case ve.Message != "" && len(ve.Causes) > 0 && (keyword == "anyOf" || keyword == "oneOf"):
		return []schemas.Fault{d.alternatives(ve, value)}
	case len(ve.Causes) > 0 && keyword != "minContains":
		var faults []schemas.Fault
		for _, cause := range ve.Causes {
			faults = append(faults, d.collect(cause, value)...)
		}
		return faults
	}
	return d.explain(ve, keyword, value)
}

// alternatives tells of a value that fits none of several forms.
func (d documents) alternatives(ve *jsonschema.ValidationError, value any) schemas.Fault {
	here := pointer(ve.InstanceLocation)
	var forms []string
	for _, cause := range ve.Causes {
		var parts []string
		for _, f := range d.collect(cause, value) {
			if below := strings.TrimPrefix(f.Pointer, here); below != "" {
				f.Message = below + " " + f.Message
			}
			parts = append(parts, f.Message)
		}
		forms = append(forms, strings.Join(parts, " and "))
	}
	return schemas.Fault{Pointer: here, Message: strings.Join(forms, ", or ")}
}

// explain tells of a single fault.
func (d documents) explain(ve *jsonschema.ValidationError, keyword string, value any) []schemas.Fault {
	here := pointer(ve.InstanceLocation)
	one := func(format string, a ...any) []schemas.Fault {
		return []schemas.Fault{{Pointer: here, Message: fmt.Sprintf(format, a...)}}
	}
	found, _ := lookup(value, ve.InstanceLocation)
	if strings.Contains(ve.KeywordLocation, "/propertyNames/") {
		parts := tokens(ve.InstanceLocation)
		found = parts[len(parts)-1]
		one = func(format string, a ...any) []schemas.Fault {
			return []schemas.Fault{{Pointer: here, Message: "the name " + fmt.Sprintf(format, a...)}}
		}
	}
	url, at, _ := strings.Cut(ve.AbsoluteKeywordLocation, "#")
	doc, known := d[url]
	if !known && d == nil { // a fault in a schema, which holds no secrets
		if pattern, ok := found.(string); ok && keyword == "format" {
			if _, err := regexp.Compile(pattern); err != nil {
				return one("pattern %q cannot be used: %v", pattern, err)
			}
		}
		return one("%s", ve.Message)
	}
	if !known { // by a schema of the library's own, whose text is not at hand
		return one("does not satisfy %s", ve.AbsoluteKeywordLocation)
	}
	want, ok := lookup(doc, at)
	if !ok && keyword == "minContains" { // "contains" alone asks for one
		want = 1
	}
	parent, _ := lookup(doc, at[:max(strings.LastIndexByte(at, '/'), 0)])
	schema, _ := parent.(map[string]any)

	switch keyword {
	case "required":
		return missing(here, want, found)
	case "additionalProperties":
		if faults := unknown(here, schema, found); len(faults) > 0 {
			return faults
		}
	case "type":
		return one("must be %s, not %s", typeNames(want), typeOf(found))
	case "enum":
		items, _ := want.([]any)
		var texts []string
		for _, item := range items {
			texts = append(texts, text(item))
		}
		return one("must be one of %s", strings.Join(texts, ", "))
	case "const":
		return one("must be %s", text(want))
	case "format":
		name, _ := want.(string)
		return one("must be %s", formatName(name))
	case "pattern":
		return one("must match the pattern %s", want)
	case "uniqueItems":
		return one("must not hold the same item twice")
	case "not":
		return one("has a form that is excluded")
	case "oneOf":
		return one("fits more than one of the forms it must fit only one of")
	}
	if phrase, ok := limits()[keyword]; ok {
		if want == true { // up to draft 4 the limit stands beside it
			want = schema[strings.Replace(strings.ToLower(keyword), "exclusive", "", 1)]
		}
		return one(phrase, want)
	}
	parts := tokens(at)
	if n := len(parts); n > 2 && (parts[n-3] == "dependentRequired" || parts[n-3] == "dependencies") {
		name, _ := want.(string)
		return []schemas.Fault{{Pointer: here + "/" + token(name), Message: fmt.Sprintf("is missing, and %q needs it", parts[n-2])}}
	}
	if want == false {
		return one("is not allowed here")
	}
	return one("does not satisfy %q", keyword)
}

func missing(here string, want, found any) []schemas.Fault {
	object, _ := found.(map[string]any)
	names, _ := want.([]any)
	var faults []schemas.Fault
	for _, name := range names {
		if name, ok := name.(string); ok {
			if _, there := object[name]; !there {
				faults = append(faults, schemas.Fault{Pointer: here + "/" + token(name), Message: "is missing"})
			}
		}
	}
	return faults
}

// unknown tells of the members that a schema with "additionalProperties": false does not have, each at its own place.
func unknown(here string, schema map[string]any, found any) []schemas.Fault {
	object, _ := found.(map[string]any)
	known, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	var faults []schemas.Fault
next:
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ok := known[name]; ok {
			continue
		}
		for pattern := range patterns {
			if ok, err := regexp.MatchString(pattern, name); ok && err == nil {
				continue next
			}
		}
		message := "is not a known member here"
		for _, other := range slices.Sorted(maps.Keys(known)) {
			if strings.EqualFold(other, name) {
				message = fmt.Sprintf("is not a known member here; it is spelt %q", other)
			}
		}
		faults = append(faults, schemas.Fault{Pointer: here + "/" + token(name), Message: message})
	}
	return faults
}

// pointer turns a place of the library's, which is escaped for URLs, into a JSON pointer.
func pointer(location string) string {
	if location == "" {
		return ""
	}
	var p strings.Builder
	for _, part := range tokens(location) {
		p.WriteString("/" + token(part))
	}
	return p.String()
}
