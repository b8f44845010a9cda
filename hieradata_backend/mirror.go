package hieradata

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// mirror turns readings of scopes into data files. It knows no store.
type mirror struct {
	dir      *directory
	log      hclog.Logger
	prefixes []string
	bucket   string // the id that the files are of; "" = never synced
	sequence uint64 // every change up to it is in the files
	scopes   map[schemas.Scope]*mirrored
	changed  bool // publish has something to say
	// doubt holds scopes that had a document in the bucket of another id and have
	// none in this one. That is believed at the second reading only.
	doubt map[schemas.Scope]bool
}

// mirrored is what is known of one scope.
type mirrored struct {
	bucket   string // where its last message was read
	revision uint64
	document bool     // it has a document, be it a valid one or not
	file     fileHead // what its file holds; zero = no file, or a bad one
	onDisk   bool
}

func openMirror(path string, prefixes []string, log hclog.Logger) (*mirror, error) {
	dir, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	m := &mirror{
		dir: dir, log: log, prefixes: prefixes, bucket: dir.synced.Bucket,
		scopes: map[schemas.Scope]*mirrored{}, doubt: map[schemas.Scope]bool{},
		changed: true,
	}
	heads, err := dir.load(func(name string, err error) {
		log.Error("data file is bad and will be written anew", "file", name, "error", err)
	})
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	for scope, head := range heads {
		good := head != (fileHead{})
		m.scopes[scope] = &mirrored{bucket: head.Bucket, revision: head.Revision, document: good && m.covers(scope), file: head, onDisk: true}
		if head.Bucket == m.bucket {
			m.sequence = max(m.sequence, head.Revision)
		}
	}
	for _, scope := range dir.synced.Scopes {
		s := m.scopes[scope]
		if s == nil {
			s = &mirrored{}
			m.scopes[scope] = s
		}
		if s.file == (fileHead{}) {
			s.bucket, s.document = m.bucket, m.covers(scope)
		}
	}
	return m, nil
}

func (m *mirror) close() error { return m.dir.close() }

// covers goes by whole segments: group covers group and group/web, not groups.
func (m *mirror) covers(scope schemas.Scope) bool {
	return slices.ContainsFunc(m.prefixes, func(prefix string) bool {
		return prefix == "" || string(scope) == prefix || strings.HasPrefix(string(scope), prefix+"/")
	})
}

// knows reports whether a revision of the scope, or a later one, has been taken.
func (m *mirror) knows(scope schemas.Scope, revision uint64) bool {
	s := m.scopes[scope]
	return s != nil && s.bucket == m.bucket && s.revision >= revision
}

// take brings a scope's file in line with a reading from the bucket of that id.
// sure says that this is the second look at a scope in doubt. The error is one of
// the disk, or the reading's own if there was no answer.
func (m *mirror) take(bucket string, r schemas.ScopeReading, sure bool) error {
	if !m.covers(r.Scope) {
		return nil
	}
	if reserved(r.Scope) {
		m.log.Error("a scope of this name cannot have a data file", "scope", r.Scope)
		return nil
	}
	s := m.scopes[r.Scope]
	if s == nil {
		s = &mirrored{}
		m.scopes[r.Scope] = s
	}
	invalid := errors.Is(r.Err, schemas.ErrInvalid)
	switch {
	case r.Err != nil && !invalid:
		return r.Err
	case s.bucket == bucket && r.Revision < s.revision:
		m.log.Warn("a reading is older than what is known, and not believed", "scope", r.Scope, "revision", r.Revision, "known", s.revision)
		return nil
	case invalid:
		m.log.Error("the body is no document; the scope's last good data stay", "scope", r.Scope, "revision", r.Revision, "error", r.Err)
		m.hold(s, true)
	case r.Deleted || r.Revision == 0:
		if s.document && s.bucket != bucket && !sure {
			m.doubt[r.Scope] = true
			return nil
		}
		m.hold(s, false)
	default:
		if err := m.write(bucket, r, s); err != nil {
			return err
		}
		m.hold(s, true)
	}
	s.bucket, s.revision = bucket, r.Revision
	delete(m.doubt, r.Scope)
	return nil
}

func (m *mirror) hold(s *mirrored, document bool) {
	m.changed = m.changed || s.document != document
	s.document = document
}

func (m *mirror) write(bucket string, r schemas.ScopeReading, s *mirrored) error {
	if s.file.Bucket == bucket && s.file.Revision == r.Revision {
		return nil
	}
	head := fileHead{Scope: r.Scope, Bucket: bucket, Revision: r.Revision}
	if err := m.dir.put(head, r.Document, time.Now()); err != nil {
		return err
	}
	s.file, s.onDisk = head, true
	m.log.Debug("wrote a data file", "scope", r.Scope, "revision", r.Revision)
	return nil
}

// settle takes the scopes that a full load has not shown as ones without a document.
func (m *mirror) settle(bucket string, seen map[schemas.Scope]bool) error {
	for scope, s := range m.scopes {
		if s.document && !seen[scope] {
			if err := m.take(bucket, schemas.ScopeReading{Scope: scope}, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish tells readers which scopes have a document now. A new scope has its
// file before it is listed, and a file goes only after its scope is no longer
// listed: what is listed and has no file is lost.
func (m *mirror) publish(bucket string) error {
	if !m.changed && m.bucket == bucket {
		return nil
	}
	listed := []schemas.Scope{}
	for scope, s := range m.scopes {
		if s.document {
			listed = append(listed, scope)
		}
	}
	slices.Sort(listed)
	if err := m.dir.list(bucket, m.prefixes, listed, time.Now()); err != nil {
		return err
	}
	for scope, s := range m.scopes {
		if s.onDisk && !s.document {
			if err := m.dir.remove(scope); err != nil {
				return err
			}
			s.file, s.onDisk = fileHead{}, false
			m.log.Debug("removed a data file", "scope", scope)
		}
	}
	m.bucket, m.changed = bucket, false
	return nil
}
