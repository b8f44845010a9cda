package factsource

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

// snapshotFile holds the last good state. It has no time of its own: its
// modification time says when everything in it that has no as_of was last read.
const snapshotFile = "snapshot.json"

// snapshot is the last good state of a node's scopes.
type snapshot struct {
	Version int                      `json:"bellpull"`
	Scopes  map[schemas.Scope]record `json:"scopes"`
}

// record is what is known of one scope.
type record struct {
	Bucket   string `json:"bucket,omitzero"` // id that Revision belongs to
	Revision uint64 `json:"revision"`
	// Document has null for every sensitive value. It is missing as long as the
	// scope has never been read.
	Document jsontext.Value `json:"document,omitzero"`
	// Secrets holds the digests of the sensitive entries, by name.
	Secrets map[string]string `json:"secrets,omitempty"`
	// AsOf is when the scope was last read, if that is not the last reading.
	AsOf time.Time `json:"as_of,omitzero"`
	// Doubt is set while the bucket's answers are not believed.
	Doubt *doubt `json:"doubt,omitzero"`
	// Named is the revision of a body that is no document, once that was said.
	Named uint64 `json:"named,omitzero"`
}

// doubt says since when the bucket of this id has answered with less than is known.
type doubt struct {
	Bucket string    `json:"bucket"`
	Since  time.Time `json:"since"`
}

// known reports whether the scope has ever been read.
func (r record) known() bool { return r.Document != nil }

// document returns the last good document; sensitive values are null.
func (r record) document() (schemas.Document, error) { return schemas.ParseDocument(r.Document) }

// load reads the snapshot in dir, and its text. A missing one is the zero
// snapshot, and so is one that this user may not read.
func load(dir string) (snapshot, []byte, error) {
	body, modified, err := readPrivate(filepath.Join(dir, snapshotFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return snapshot{}, nil, nil
	}
	if err != nil {
		return snapshot{}, nil, fmt.Errorf("last good state ignored: %w", err)
	}
	var s snapshot
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil || s.Version != 1 {
		return snapshot{}, nil, fmt.Errorf("last good state ignored: %s is damaged", snapshotFile)
	}
	for scope, r := range s.Scopes {
		if r.AsOf.IsZero() {
			r.AsOf = modified.UTC().Truncate(time.Second)
			s.Scopes[scope] = r
		}
	}
	return s, body, nil
}

// keep makes the record's document from one that was just read.
func (r *record) keep(d schemas.Document, digester schemas.Digester) error {
	kept := schemas.Document{Entries: map[string]schemas.Entry{}}
	r.Secrets = map[string]string{}
	for name, e := range d.Entries {
		if e.Sensitive {
			r.Secrets[name] = digester.Entry(e)
			e.Value = "null"
		}
		kept.Entries[name] = schemas.Entry{Value: e.Value, Expires: e.Expires, Sensitive: e.Sensitive}
	}
	body, err := kept.Marshal()
	r.Document = body
	return err
}

func (s snapshot) marshal() ([]byte, error) {
	s.Version = 1
	body, err := json.Marshal(s, json.Deterministic(true))
	return append(body, '\n'), err
}
