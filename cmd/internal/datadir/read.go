package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bellpull/bellpull/schemas"
)

// Read reads the directory. Files that are not *.yaml, *.yml or *.json, what begins with a dot, and a hiera.yaml at the top are
// left alone. Links may lead to files within the directory.
//
// The error matches [schemas.ErrInvalid] and lists every fault of every file, each with its place, for what is no data file of a
// scope, and for a directory without any data file: that is a mistyped path rather than the wish for no data.
func Read(dir string) (Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Tree{}, fmt.Errorf("read data files: %w", err)
	}
	defer root.Close()
	found, err := find(root)
	if err != nil {
		return Tree{}, fmt.Errorf("read data files of %s: %w", dir, err)
	}
	read := make([]parsed, len(found.files))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				read[i] = readFile(root, found.files[i])
			}
		})
	}
	for i := range found.files {
		next <- i
	}
	close(next)
	wg.Wait()

	tree := Tree{Notes: found.notes}
	faults := found.faults
	for i, p := range read {
		if p.err != nil {
			return Tree{}, fmt.Errorf("read data file %s: %w", found.files[i].Path, p.err)
		}
		faults = append(faults, p.faults...)
		tree.Files = append(tree.Files, p.file)
		if p.note != "" {
			tree.Notes = append(tree.Notes, p.note)
		}
	}
	if len(faults) > 0 {
		return Tree{}, invalid(dir, faults)
	}
	if len(tree.Files) == 0 {
		return Tree{}, invalid(dir, []string{"holds no data file: *.yaml, *.yml or *.json"})
	}
	slices.SortFunc(tree.Files, func(a, b File) int { return strings.Compare(string(a.Scope), string(b.Scope)) })
	return tree, nil
}

// ReadFile reads a single data file, whose scope is not known: it is "" in what is
// returned. The error is that of [Read].
func ReadFile(name string) (File, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return File{}, fmt.Errorf("read data file: %w", err)
	}
	defer root.Close()
	p := readFile(root, File{Path: filepath.Base(name)})
	switch {
	case p.err != nil:
		return File{}, fmt.Errorf("read data file %s: %w", name, p.err)
	case len(p.faults) > 0:
		return File{}, invalid(filepath.Dir(name), p.faults)
	}
	return p.file, nil
}

// IsDataFile reports whether a file of this name is read.
func IsDataFile(name string) bool {
	_, ok := dataFile(name)
	return ok
}

// List returns the data files of a directory without reading them. A directory that is not there is [fs.ErrNotExist].
func List(dir string) ([]File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("list data files: %w", err)
	}
	defer root.Close()
	found, err := find(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list data files of %s: %w", dir, err)
	case len(found.faults) > 0:
		return nil, invalid(dir, found.faults)
	}
	return found.files, nil
}

type parsed struct {
	file   File
	note   string
	faults []string
	err    error // of the disk
}

type listing struct {
	files         []File // path and scope
	notes, faults []string
}

// find lists the data files.
func find(root *os.Root) (listing, error) {
	var l listing
	byScope := map[schemas.Scope]string{}
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(path.Base(name), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		base, isData := dataFile(name)
		mode := d.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := root.Stat(name)
			switch {
			case err == nil && info.IsDir():
				l.faults = append(l.faults, name+": is a link to a directory, which is not followed; a scope has a file of its own")
				return nil
			case err != nil && isData:
				l.faults = append(l.faults, name+": is a link that leads nowhere, or out of the directory")
				return nil
			case err == nil:
				mode = info.Mode().Type()
			}
		}
		switch {
		case strings.HasSuffix(name, ".eyaml"):
			l.notes = append(l.notes, name+": left alone, what is encrypted for hiera-eyaml cannot be read here")
		case !isData:
		case name == "hiera.yaml":
			l.notes = append(l.notes, name+": left alone, it is Hiera's configuration and no data")
		case mode != 0:
			l.faults = append(l.faults, name+": is no file")
		default:
			scope, err := schemas.ParseScope(base)
			if other, twice := byScope[scope]; err != nil {
				l.faults = append(l.faults, name+": "+err.Error())
			} else if twice {
				l.faults = append(l.faults, fmt.Sprintf("%s: scope %s has the file %s too", name, scope, other))
			} else {
				byScope[scope] = name
				l.files = append(l.files, File{Path: name, Scope: scope})
			}
		}
		return nil
	})
	return l, err
}

func readFile(root *os.Root, f File) (p parsed) {
	p.file = f
	text, err := slurp(root, f.Path)
	if err != nil {
		p.err = err
		return p
	}
	if len(text) > MaxFile {
		p.faults = []string{fmt.Sprintf("%s: has more than %d bytes, the most that is read", f.Path, MaxFile)}
		return p
	}
	parse := parseYAML
	if strings.HasSuffix(f.Path, ".json") {
		parse = parseJSON
	}
	c, faults := parse(f.Path, text)
	p.note = c.note
	p.file.Entries, p.faults = entries(f.Path, c, faults)
	return p
}

// slurp reads a file, and one byte more than is allowed of one that is too large.
func slurp(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// parseJSON is parseYAML for a file of JSON, whose faults have no line.
func parseJSON(path string, text []byte) (content, []string) {
	if len(strings.TrimSpace(string(text))) == 0 {
		return content{}, nil
	}
	value, err := schemas.ParseValue(text)
	var bad *schemas.InvalidError
	switch {
	case errors.As(err, &bad) && len(bad.Faults) == 1:
		return content{}, []string{place(path, 0, bad.Faults[0].Pointer) + ": " + bad.Faults[0].Message}
	case err != nil:
		return content{}, []string{path + ": " + err.Error()}
	case value.Kind() != '{':
		return content{}, []string{path + ": a data file holds an object of keys and values"}
	}
	var c content
	for name, v := range value.Members() {
		if name == MetaKey {
			c.meta = v
		} else {
			c.members = append(c.members, member{name, v, place(path, 0, pointer(name))})
		}
	}
	return c, nil
}
