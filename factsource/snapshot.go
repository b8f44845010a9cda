package factsource

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

// snapshotFile holds the last good state in two lines: a head, and the [snapshot]
// whose checksum the head has. It holds no time of its own: the file's modification
// time says when everything in it that has no as_of was last read.
const snapshotFile = "snapshot.json"

// snapshot is the last good state of a node's scopes.
type snapshot struct {
	Scopes map[schemas.Scope]record `json:"scopes"`
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

// stored is the file as it was found.
type stored struct {
	head, body []byte
	modified   time.Time
}

// open reads the file in dir. A missing one is empty, and so is one that this user
// may not read.
func open(dir string) (stored, error) {
	text, modified, err := readPrivate(filepath.Join(dir, snapshotFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return stored{}, nil
	}
	head, body, _ := bytes.Cut(text, []byte("\n"))
	return stored{head, body, modified}, err
}

// head is the first line above body; a reading that went well in every way is
// told there, so that the next one need not parse body to see that all is as it was.
func head(body []byte, bucket string, choices []choice) []byte {
	t := text{}
	t.object(func(o *object) {
		o.uint("bellpull", 1)
		o.string("checksum", fmt.Sprintf("sha256:%x", sha256.Sum256(body)))
		if slices.ContainsFunc(choices, func(ch choice) bool { return !ch.live }) {
			return
		}
		o.string("bucket", bucket)
		o.object("live", func(o *object) {
			for _, ch := range choices {
				o.uint(string(ch.scope), ch.Revision)
			}
		})
	})
	return t.buf
}

// load parses the file. What is damaged, even in one bit, is an error.
func (f stored) load() (s snapshot, err error) {
	if f.head == nil {
		return s, nil
	}
	var top struct {
		Version  int    `json:"bellpull"`
		Checksum string `json:"checksum"`
	}
	err = json.Unmarshal(f.head, &top)
	if err != nil || top.Version != 1 || top.Checksum != fmt.Sprintf("sha256:%x", sha256.Sum256(f.body)) {
		return s, fmt.Errorf("%s is damaged", snapshotFile)
	}
	if err := json.Unmarshal(f.body, &s, json.RejectUnknownMembers(true)); err != nil {
		return snapshot{}, fmt.Errorf("%s is damaged", snapshotFile)
	}
	for scope, r := range s.Scopes {
		if r.AsOf.IsZero() {
			r.AsOf = f.modified.UTC().Truncate(time.Second)
			s.Scopes[scope] = r
		}
	}
	return s, nil
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
