package kinds

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

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
