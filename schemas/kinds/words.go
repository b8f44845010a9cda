package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
)

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
