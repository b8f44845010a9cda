// Package datadir reads and writes desired state as a directory of data files, laid out as Puppet people lay out their Hiera
// data: common.yaml is the scope common, node/web1.example.com.yaml is node/web1.example.com.
//
//   - [Read] reads every *.yaml, *.yml and *.json below a directory and tells every fault of every file, with file and line.
//   - [Marshal] gives the text of one scope's file, [Path] its place.
//
// What YAML leaves open is read as Puppet reads it (Psych, YAML 1.1): yes is true and 0644 is 420. What would surprise, because
// Puppet refuses it, reads it as something else than text, or has no JSON for it, is refused with what to write instead.
//
// Numbers keep their digits. A file stays a plain Hiera data file: what bellpull knows beside the data stands in the same file
// under the key [MetaKey].
package datadir

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// MetaKey is the top-level key under which a file says more of its entries:
//
//	bellpull::meta:
//	  db::password: {sensitive: true}
//	  my_firewall::rules[tcp-8443]: {kind: firewall_rule, ttl: 20m, run: {trigger: next}}
//
// The members are kind, sensitive, ttl or expires, run and owner.
const MetaKey = "bellpull::meta"

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 4 << 20

// Tree is what a directory holds.
type Tree struct {
	Files []File   // sorted by scope
	Notes []string // what is odd or was left alone, a line each
}

// File is one scope's file. One without entries is a scope without entries.
type File struct {
	Path    string // below the directory, with slashes
	Scope   schemas.Scope
	Entries []Entry // sorted by name
}

// Entry is one entry of a file.
type Entry struct {
	Name  string
	Value schemas.Value
	Place string // where it stands, for messages: common.yaml:12, or common.json: /name
	Meta
}

// Meta is what a file says of an entry under [MetaKey].
type Meta struct {
	Kind      string
	Sensitive bool
	TTL       time.Duration // counted from when the entry is written; 0 = none
	Expires   time.Time     // the moment itself; zero = none
	Run       schemas.RunPolicy
	Owner     string
	HasOwner  bool // the file names the owner, if only as "": nobody
}

// maxShown is how many faults an error's text tells.
const maxShown = 50

// invalid makes one error of all faults, each of which begins with its place.
func invalid(what string, faults []string) error {
	e := &schemas.InvalidError{What: what}
	for i, fault := range faults {
		if i == maxShown {
			e.Faults = append(e.Faults, schemas.Fault{Message: fmt.Sprintf("and %d more faults", len(faults)-i)})
			break
		}
		e.Faults = append(e.Faults, schemas.Fault{Message: fault})
	}
	return e
}

// Invalid returns the error for faults of a tree that somebody else found, such as a value that its kind does not allow. Each
// fault begins with its [Entry]'s place.
func Invalid(dir string, faults []string) error { return invalid(dir, faults) }

// extensions are those of data files.
func dataFile(name string) (base string, ok bool) {
	for _, extension := range []string{".yaml", ".yml", ".json"} {
		if base, ok := strings.CutSuffix(name, extension); ok {
			return base, true
		}
	}
	return "", false
}
