package hieradata

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// lists is how many lists there are: one for each value of the first byte of a
// scope's SHA-256. Each Puppet Server reads the lists of the scopes that it misses,
// in each JRuby instance and environment, and reads them anew when they have
// changed: one list of 100,000 scopes would cost it 50 ms a time.
const lists = 256

// list is the content of scopes/XX.json: which scopes have a document.
type list struct {
	Version int             `json:"bellpull"`
	Bucket  string          `json:"bucket"`
	Scopes  []schemas.Scope `json:"scopes"` // sorted
}

// listOf returns the number of the list that a scope belongs to.
func listOf(scope schemas.Scope) int { return int(sha256.Sum256([]byte(scope))[0]) }

func listName(n int) string { return filepath.Join(listDir, fmt.Sprintf("%02x.json", n)) }

// listed returns a list as it stands on the disk; nil for none and for a bad one.
func (d *directory) listed(n int) []schemas.Scope {
	text, err := os.ReadFile(filepath.Join(d.path, listName(n)))
	var l list
	if err != nil || json.Unmarshal(text, &l) != nil || l.Version != 1 {
		return nil
	}
	return l.Scopes
}

// list writes a list that is not as it should be.
func (d *directory) list(n int, bucket string, scopes []schemas.Scope) error {
	slices.Sort(scopes)
	text, err := json.Marshal(list{Version: 1, Bucket: bucket, Scopes: scopes})
	if err != nil {
		return fmt.Errorf("encode %s: %w", listName(n), err)
	}
	return d.ensure(listName(n), append(text, '\n'), false)
}
