package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
	return d.collect(ve, value)
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
	if !known { // a fault in a schema, which holds no secrets
		if pattern, ok := found.(string); ok && keyword == "format" {
			if _, err := regexp.Compile(pattern); err != nil {
				return one("pattern %q cannot be used: %v", pattern, err)
			}
		}
		return one("%s", ve.Message)
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
		return one(phrase, want)
	}
	parts := tokens(at)
	if n := len(parts); n > 2 && parts[n-3] == "dependentRequired" {
		name, _ := want.(string)
		return []schemas.Fault{{Pointer: here + "/" + token(name), Message: fmt.Sprintf("is missing, and %q needs it", parts[n-2])}}
	}
	if want == false {
		return one("is not allowed here")
	}
	return one("does not satisfy %q", keyword)
}

// limits are the keywords that set one bound, and how it is told.
func limits() map[string]string {
	return map[string]string{
		"minimum":          "must be at least %v",
		"maximum":          "must be at most %v",
		"exclusiveMinimum": "must be more than %v",
		"exclusiveMaximum": "must be less than %v",
		"multipleOf":       "must be a multiple of %v",
		"minLength":        "must be at least %v characters long",
		"maxLength":        "must be at most %v characters long",
		"minItems":         "must hold at least %v items",
		"maxItems":         "must hold at most %v items",
		"minProperties":    "must hold at least %v members",
		"maxProperties":    "must hold at most %v members",
		"minContains":      "must hold at least %v items of the wanted form",
		"maxContains":      "must hold at most %v items of the wanted form",
	}
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

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // v was decoded from JSON
		return fmt.Sprint(v)
	}
	return string(b)
}

func typeNames(want any) string {
	switch want := want.(type) {
	case string:
		return typeName(want)
	case []any:
		var names []string
		for _, t := range want {
			name, _ := t.(string)
			names = append(names, typeName(name))
		}
		return strings.Join(names, " or ")
	}
	return "of another type"
}

func typeName(t string) string {
	switch t {
	case "object", "array", "integer":
		return "an " + t
	case "boolean":
		return "true or false"
	case "null":
		return t
	}
	return "a " + t
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

func formatName(name string) string {
	switch name {
	case "ipv4":
		return "an IPv4 address such as 192.0.2.10"
	case "ipv6":
		return "an IPv6 address such as 2001:db8::10"
	case "cidr":
		return "a network by its first address, such as 192.0.2.0/24"
	case "hostname":
		return "a host name such as web1.example.com"
	case "email":
		return "an e-mail address such as ops@example.com"
	case "date-time":
		return "a date and time such as 2026-12-01T10:00:00Z (RFC 3339)"
	case "go-duration":
		return "a duration such as 90s, 20m or 1h30m"
	}
	return fmt.Sprintf("of the format %q", name)
}

// immense finds numbers that would take the exact arithmetic of the check minutes: 1e999999 is eight characters long.
func immense(v any, at string) []schemas.Fault {
	switch v := v.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		if e, err := strconv.Atoi(exponent); len(v) > 1000 || exponent != "" && (err != nil || e > 1000 || e < -1000) {
			return []schemas.Fault{{Pointer: at, Message: "a number of this size cannot be checked"}}
		}
	case []any:
		for i, item := range v {
			if faults := immense(item, at+"/"+strconv.Itoa(i)); faults != nil {
				return faults
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if faults := immense(v[name], at+"/"+token(name)); faults != nil {
				return faults
			}
		}
	}
	return nil
}
