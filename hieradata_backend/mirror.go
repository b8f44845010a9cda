package hieradata

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// mirror turns readings of scopes into data files. It knows no store.
type mirror struct {
	dir      *directory
	log      hclog.Logger
	prefixes prefixes
	bucket   string // the id that the files are of; "" = never synced
	sequence uint64 // every change up to it is in the files
	parts    [lists]part
	load     uint32 // number of the full load under way
	// doubt holds scopes that had a document in the bucket of another id and have
	// none in this one. That is believed at the second reading only.
	doubt map[schemas.Scope]bool
}

// part is the scopes of one list.
type part struct {
	scopes  map[schemas.Scope]mirrored
	changed bool                   // the list on disk may say something else
	gone    map[schemas.Scope]bool // have no document any more, but a file
}

// mirrored is what is known of one scope. There may be 100,000 of them.
type mirrored struct {
	bucket       string // where its last message was read
	revision     uint64
	document     bool   // it has a document, be it a valid one or not
	fileBucket   string // of what its file holds; "" = no file, or a bad one
	fileRevision uint64
	load         uint32 // the full load that has shown it last
}

func openMirror(cfg Config) (*mirror, error) {
	dir, err := openDirectory(cfg.Dir, cfg.group())
	if err != nil {
		return nil, err
	}
	m := &mirror{dir: dir, log: cfg.Log, prefixes: cfg.Prefixes, bucket: dir.synced.Bucket, doubt: map[schemas.Scope]bool{}}
	for n := range m.parts {
		m.parts[n] = part{scopes: map[schemas.Scope]mirrored{}, changed: true, gone: map[schemas.Scope]bool{}}
	}
	if err := m.takeStock(); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return m, nil
}

// takeStock verifies what is on the disk.
func (m *mirror) takeStock() error {
	names, err := m.dir.names()
	if err != nil {
		return err
	}
	for _, scope := range names {
		head, err := m.dir.head(scope)
		p := &m.parts[listOf(scope)]
		if err != nil {
			m.log.Error("data file is bad and will be written anew", "file", scope.FileName(), "error", err)
			p.scopes[scope] = mirrored{}
			p.gone[scope] = true
			continue
		}
		bucket := m.known(head.Bucket)
		p.scopes[scope] = mirrored{bucket: bucket, revision: head.Revision, document: m.covers(scope), fileBucket: bucket, fileRevision: head.Revision}
		if !m.covers(scope) {
			p.gone[scope] = true
		}
		if bucket == m.bucket {
			m.sequence = max(m.sequence, head.Revision)
		}
	}
	for n := range m.parts {
		for _, scope := range m.dir.listed(n) {
			p := &m.parts[listOf(scope)]
			if s := p.scopes[scope]; s.fileBucket == "" {
				s.bucket, s.document = m.bucket, m.covers(scope)
				p.scopes[scope] = s
				if s.document {
					delete(p.gone, scope) // what is listed stays until it is written anew
				}
			}
		}
	}
	return nil
}

// known returns the text of a bucket's id that is kept already.
func (m *mirror) known(bucket string) string {
	if bucket == m.bucket {
		return m.bucket
	}
	return bucket
}

func (m *mirror) close() error { return m.dir.close() }

func (m *mirror) covers(scope schemas.Scope) bool { return m.prefixes.cover(scope) }

// knows reports whether a revision of the scope, or a later one, has been taken.
func (m *mirror) knows(scope schemas.Scope, revision uint64) bool {
	s, ok := m.parts[listOf(scope)].scopes[scope]
	return ok && s.bucket == m.bucket && s.revision >= revision
}

// holds reports whether the scope's file is that of a revision of the bucket.
func (m *mirror) holds(scope schemas.Scope, revision uint64) bool {
	s := m.parts[listOf(scope)].scopes[scope]
	return s.fileBucket == m.bucket && s.fileRevision == revision
}

// documents counts the scopes that have a document.
func (m *mirror) documents() (n int) {
	for i := range m.parts {
		for _, s := range m.parts[i].scopes {
			if s.document {
				n++
			}
		}
	}
	return n
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
	p := &m.parts[listOf(r.Scope)]
	s := p.scopes[r.Scope]
	had, document := s.document, true
	invalid := errors.Is(r.Err, schemas.ErrInvalid)
	switch {
	case r.Err != nil && !invalid:
		return r.Err
	case s.bucket == bucket && r.Revision < s.revision:
		m.log.Warn("a reading is older than what is known, and not believed", "scope", r.Scope, "revision", r.Revision, "known", s.revision)
		return nil
	case invalid:
		m.log.Error("the body is no document; the scope's last good data stay", "scope", r.Scope, "revision", r.Revision, "error", r.Err)
	case r.Deleted || r.Revision == 0:
		if s.document && s.bucket != bucket && !sure {
			m.doubt[r.Scope] = true
			return nil
		}
		document = false
	case s.fileBucket != bucket || s.fileRevision != r.Revision:
		if err := m.dir.put(fileHead{Scope: r.Scope, Bucket: bucket, Revision: r.Revision}, r.Document, time.Now()); err != nil {
			return err
		}
		s.fileBucket, s.fileRevision = bucket, r.Revision
		m.log.Debug("wrote a data file", "scope", r.Scope, "revision", r.Revision)
	}
	s.bucket, s.revision, s.document = bucket, r.Revision, document
	p.scopes[r.Scope] = s
	p.changed = p.changed || had != document
	if document {
		delete(p.gone, r.Scope)
	} else if had || s.fileBucket != "" {
		p.gone[r.Scope] = true
	}
	delete(m.doubt, r.Scope)
	return nil
}

// see remembers that the full load under way has shown a scope.
func (m *mirror) see(scope schemas.Scope) {
	p := &m.parts[listOf(scope)]
	if s, ok := p.scopes[scope]; ok {
		s.load = m.load
		p.scopes[scope] = s
	}
}

// settle takes the scopes that the full load has not shown as ones without a document.
func (m *mirror) settle(bucket string) error {
	for n := range m.parts {
		for scope, s := range m.parts[n].scopes {
			if s.document && s.load != m.load {
				if err := m.take(bucket, schemas.ScopeReading{Scope: scope}, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
