package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

const suffix = ".schema.json"

// file is one schema as it was read.
type file struct {
	path     string // as an operator knows it
	embedded bool
	text     []byte
}

// readFiles returns the embedded files and those of dir, by name, and those that cannot be read. The error is about dir itself.
func readFiles(dir string) (files map[string]file, bad map[string]error, err error) {
	files, bad = map[string]file{}, map[string]error{}
	entries, err := embedded.ReadDir(".")
	if err != nil {
		return nil, nil, fmt.Errorf("read the embedded kinds: %w", err)
	}
	for _, e := range entries {
		text, err := embedded.ReadFile(e.Name())
		if err != nil {
			return nil, nil, fmt.Errorf("read the embedded kind %q: %w", e.Name(), err)
		}
		files[strings.TrimSuffix(e.Name(), suffix)] = file{path: "embedded " + e.Name(), embedded: true, text: text}
	}
	if dir == "" {
		return files, bad, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kinds: %w", err)
	}
	defer root.Close()
	entries, err = fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read the kinds: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if reserved(name) || strings.HasPrefix(name, "=") {
			// Under a key that no kind has: the embedded one stays.
			bad["="+name] = &schemas.InvalidError{What: path, Faults: []schemas.Fault{{
				Message: fmt.Sprintf("%q cannot be the name of a kind", name),
			}}}
			continue
		}
		text, err := readFile(root, e.Name())
		if err != nil {
			// The embedded kind of this name, if any, is not what was meant.
			delete(files, name)
			bad[name] = &schemas.InvalidError{What: path, Faults: []schemas.Fault{{Message: err.Error()}}}
			continue
		}
		files[name] = file{path: path, text: text}
	}
	return files, bad, nil
}

// readFile reads a file of the directory of kinds. os.Root keeps symbolic links from leading out of it.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		if _, outside := os.Stat(filepath.Join(root.Name(), name)); outside == nil {
			return nil, errors.New("is a symbolic link that leads out of the directory of kinds, or is absolute; copy the file, or link to a file below the directory by a relative path")
		}
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() { // a named pipe would be waited for
		return nil, errors.New("is no regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	// One byte more than is allowed is enough to see that it is too much.
	text, err := io.ReadAll(io.LimitReader(f, schemas.MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return text, nil
}

// decode returns a value as the library wants it: numbers keep their digits.
func decode(v schemas.Value) any {
	switch v.Kind() {
	case '{':
		out := map[string]any{}
		for name, member := range v.Members() {
			out[name] = decode(member)
		}
		return out
	case '[':
		out := []any{}
		for item := range v.Elements() {
			out = append(out, decode(item))
		}
		return out
	case '"':
		return v.Text()
	case '0':
		return json.Number(v)
	case 't', 'f':
		return v.Kind() == 't'
	}
	return nil
}
