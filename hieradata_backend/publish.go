package hieradata

import (
	"slices"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// publish tells readers which scopes have a document now. A new scope has its
// file before it is listed, and a file goes only after its scope is no longer
// listed: what is listed and has no file is lost. What is covered is said last,
// but what is covered no longer, first.
func (m *mirror) publish(bucket string) error {
	if before := m.dir.synced; before.Version == 1 {
		if still := m.prefixes.both(before.Prefixes); !slices.Equal(still, before.Prefixes) {
			if err := m.dir.mark(before.Bucket, still, time.Now()); err != nil {
				return err
			}
		}
	}
	for n := range m.parts {
		p := &m.parts[n]
		if p.changed || m.bucket != bucket {
			if err := m.dir.list(n, bucket, p.listed()); err != nil {
				return err
			}
		}
		p.changed = false
		for scope := range p.gone {
			if err := m.dir.remove(scope); err != nil {
				return err
			}
			m.log.Debug("removed a data file", "scope", scope)
			s := p.scopes[scope]
			s.fileBucket, s.fileRevision = "", 0
			p.scopes[scope] = s
			delete(p.gone, scope)
		}
	}
	if m.bucket == bucket && m.dir.synced.Bucket == bucket && slices.Equal(m.dir.synced.Prefixes, m.prefixes) {
		return nil
	}
	if err := m.dir.mark(bucket, m.prefixes, time.Now()); err != nil {
		return err
	}
	m.bucket = bucket
	return nil
}

func (p *part) listed() []schemas.Scope {
	scopes := []schemas.Scope{}
	for scope, s := range p.scopes {
		if s.document {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// prefixes are leading segments of scopes: group covers group and group/web, not
// groups; "" covers all.
type prefixes []string

func (p prefixes) cover(scope schemas.Scope) bool {
	return slices.ContainsFunc(p, func(prefix string) bool {
		return prefix == "" || string(scope) == prefix || strings.HasPrefix(string(scope), prefix+"/")
	})
}

// both returns what p and q cover, in the order of q where they say the same.
func (p prefixes) both(q prefixes) prefixes {
	out := prefixes{}
	for _, prefix := range q {
		if p.cover(schemas.Scope(prefix)) {
			out = append(out, prefix)
		}
	}
	for _, prefix := range p {
		if !slices.Contains(out, prefix) && q.cover(schemas.Scope(prefix)) {
			out = append(out, prefix)
		}
	}
	return out
}
