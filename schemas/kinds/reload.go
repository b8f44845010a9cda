package kinds

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Reload reads everything again, as [Load] does, and returns the set that is to be in force from now on. It is never nil, whatever
// the error: what is good is taken, and what is bad stays as it was, with all that it refers to. A kind whose file is gone is gone,
// or is the embedded one again.
//
// The error joins one for each bad file, which names it and its places and says what is in force in its stead. A bad kind that the
// old set does not have stays unusable: [Set.Validate] refuses its values, naming the fault.
func (s *Set) Reload(dir string) (*Set, error) {
	files, bad, err := readFiles(dir)
	if err != nil {
		return s, fmt.Errorf("%w; all kinds stay in force as they were", err)
	}
	next := &Set{kinds: compile(files, bad)}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		err := bad[name]
		switch old, ok := s.kinds[name]; {
		case ok && old.err == nil:
			next.kinds[name] = old
			err = fmt.Errorf("%w; the old one stays in force", err)
		case strings.HasPrefix(name, "="):
			err = fmt.Errorf("%w; the file is left out", err)
		default:
			next.kinds[name] = &kind{file: file{path: filepath.Join(dir, name+suffix)}, err: err}
			err = fmt.Errorf("%w; there is no old one, so its values are refused", err)
		}
		errs = append(errs, err)
	}
	return next, errors.Join(errs...)
}
