package hieradata

import (
	"fmt"

	"github.com/bellpull/bellpull/schemas"
)

// check verifies the files of one list, and the list itself, and returns the
// scopes whose files have to be written anew. All lists in turn are everything.
func (m *mirror) check(n int) ([]schemas.Scope, error) {
	p := &m.parts[n]
	p.changed = true // so that the list is compared with the disk
	var bad []schemas.Scope
	for scope, s := range p.scopes {
		if !s.document {
			continue
		}
		head, err := m.dir.head(scope)
		if err == nil && (head.Bucket != s.fileBucket || head.Revision != s.fileRevision) {
			err = fmt.Errorf("holds revision %d of bucket %s, not %d of %s", head.Revision, head.Bucket, s.fileRevision, s.fileBucket)
		}
		if err == nil {
			continue
		}
		m.log.Error("data file is bad and will be written anew", "file", scope.FileName(), "error", err)
		s.fileBucket, s.fileRevision = "", 0
		p.scopes[scope] = s
		bad = append(bad, scope)
	}
	if n > 0 {
		return bad, nil
	}
	strangers, err := m.strangers()
	if err != nil {
		return bad, err
	}
	return append(bad, strangers...), m.dir.mark(m.bucket, m.prefixes, m.dir.synced.Synced)
}

// strangers finds data files of scopes that have no document, as a copy put back
// by hand would be: readers would take them.
func (m *mirror) strangers() ([]schemas.Scope, error) {
	names, err := m.dir.names()
	if err != nil {
		return nil, err
	}
	var found []schemas.Scope
	for _, scope := range names {
		p := &m.parts[listOf(scope)]
		if s := p.scopes[scope]; s.document || p.gone[scope] {
			continue
		}
		m.log.Error("data file of a scope without a document will be removed", "file", scope.FileName())
		p.gone[scope] = true
		if m.covers(scope) {
			found = append(found, scope)
		}
	}
	return found, nil
}
