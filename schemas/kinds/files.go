package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

const suffix = ".schema.json"

// file is one schema as it was read.
type file struct {
	name string // of the kind
	path string // as an operator knows it
	text []byte
}

// readFiles returns the embedded files and those of dir, by name.
func readFiles(dir string) (map[string]file, error) {
	files := map[string]file{}
	entries, err := embedded.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("read the embedded kinds: %w", err)
	}
	for _, e := range entries {
		text, err := embedded.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the embedded kind %q: %w", e.Name(), err)
		}
		name := strings.TrimSuffix(e.Name(), suffix)
		files[name] = file{name: name, path: "embedded " + e.Name(), text: text}
	}
	if dir == "" {
		return files, nil
	}
	entries, err = os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the kinds: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || e.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if name == "" || reserved(name) {
			return nil, &schemas.InvalidError{What: path, Faults: []schemas.Fault{{
				Message: fmt.Sprintf("%q cannot be the name of a kind", name),
			}}}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the kind %q: %w", name, err)
		}
		files[name] = file{name: name, path: path, text: text}
	}
	return files, nil
}

// decode returns JSON text, already known to be strict, as the library wants it: numbers keep their digits.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode a value: %w", err)
	}
	return v, nil
}
