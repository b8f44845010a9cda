package factsource

import (
	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// revision is a scope's revision in the bucket of this id.
type revision struct {
	Bucket   string `json:"bucket"`
	Revision uint64 `json:"revision"`
}

// awaited reads from the watcher's file what it has seen: the fact of a run must
// show at least that. A file that cannot be read asks for nothing.
func awaited(file string) map[schemas.Scope]revision {
	if file == "" {
		return nil
	}
	var wanted struct {
		Scopes map[schemas.Scope]revision `json:"scopes"`
	}
	body, _, err := readPrivate(file)
	if err != nil || json.Unmarshal(body, &wanted) != nil {
		return nil
	}
	return wanted.Scopes
}
