package factsource

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// Record keeps the last good state, if it has changed, and leaves a record of
// what was shown to the run that asked. Call it once the fact has been handed
// over: what was never seen must not count as shown. Without a directory it does
// nothing.
func (c *Collection) Record() error {
	if c.cfg.Dir == "" {
		return nil
	}
	return errors.Join(c.keep(), c.leave())
}

func (c *Collection) keep() error {
	body, err := c.snapshot()
	if err != nil {
		return err
	}
	name := filepath.Join(c.cfg.Dir, snapshotFile)
	if top := head(body, c.bucket, c.choices); !bytes.Equal(top, c.old.head) {
		err = writePrivate(name, slices.Concat(top, []byte("\n"), body))
	}
	if err == nil && slices.ContainsFunc(c.choices, func(ch choice) bool { return ch.live }) {
		// The file's own time says until when its content is known to be current.
		err = os.Chtimes(name, c.now, c.now)
	}
	if err != nil {
		return fmt.Errorf("keep last good state: %w", err)
	}
	return nil
}

// snapshot returns the JSON of what is known now.
func (c *Collection) snapshot() ([]byte, error) {
	if c.same {
		return c.old.body, nil
	}
	next := snapshot{Scopes: map[schemas.Scope]record{}}
	for _, ch := range c.choices {
		r := ch.record
		if ch.live && !r.known() {
			if err := r.keep(ch.doc, c.cfg.Digester); err != nil {
				return nil, fmt.Errorf("keep last good state of %s: %w", ch.scope, err)
			}
		}
		if r.known() || r.Named != 0 {
			next.Scopes[ch.scope] = r
		}
	}
	body, err := json.Marshal(next, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("keep last good state: %w", err)
	}
	return append(body, '\n'), nil
}
