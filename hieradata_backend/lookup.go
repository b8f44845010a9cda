package hieradata

import (
	"fmt"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Lookup answers what a hierarchy of scopes, most specific first, says of a
// Hiera key at now. A key that no scope holds is [schemas.ErrNotFound]; one whose
// scopes contradict each other is [schemas.ErrInvalid], and both are named.
func Lookup(layers []schemas.Layer, key string, now time.Time) (schemas.MergedValue, error) {
	merged := schemas.Merge(layers, now)
	if clash, ok := merged.Invalid[key]; ok {
		return schemas.MergedValue{}, fmt.Errorf("key %q: %w: %w", key, clash, schemas.ErrInvalid)
	}
	value, ok := merged.Values[key]
	if !ok {
		return schemas.MergedValue{}, fmt.Errorf("key %q: %w", key, schemas.ErrNotFound)
	}
	return value, nil
}
