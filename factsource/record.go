package factsource

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	next, fresh := snapshot{Scopes: map[schemas.Scope]record{}}, false
	for _, ch := range c.choices {
		r := ch.record
		if ch.live {
			fresh = true
			if !r.known() {
				if err := r.keep(ch.doc, c.cfg.Digester); err != nil {
					return fmt.Errorf("keep last good state of %s: %w", ch.scope, err)
				}
			}
		}
		if r.known() || r.Named != 0 {
			next.Scopes[ch.scope] = r
		}
	}
	if len(next.Scopes) == 0 {
		return nil
	}
	text, err := next.marshal()
	if err != nil {
		return fmt.Errorf("keep last good state: %w", err)
	}
	name := filepath.Join(c.cfg.Dir, snapshotFile)
	if !bytes.Equal(text, c.old) {
		err = writePrivate(name, text)
	}
	if err == nil && fresh {
		// The file's own time says until when its content is known to be current.
		err = os.Chtimes(name, c.now, c.now)
	}
	if err != nil {
		return fmt.Errorf("keep last good state: %w", err)
	}
	return nil
}
