package hieradata

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

// fileHead is the first line of a data file.
type fileHead struct {
	Version  int           `json:"bellpull"`
	Scope    schemas.Scope `json:"scope"`
	Bucket   string        `json:"bucket"`
	Revision uint64        `json:"revision"`
	Checksum string        `json:"checksum"` // of the second line, without its newline
}

// fileBody is the second line. Readers drop what has expired since.
type fileBody struct {
	Entries map[string]fileEntry `json:"entries"`
}

type fileEntry struct {
	Value     schemas.Value `json:"value"`
	Expires   time.Time     `json:"expires,omitzero"`
	Sensitive bool          `json:"sensitive,omitzero"`
}

// encode returns the data file of a document: its entries that are live at now.
func encode(head fileHead, document schemas.Document, now time.Time) ([]byte, error) {
	body := fileBody{Entries: map[string]fileEntry{}}
	for name, e := range document.Live(now) {
		body.Entries[name] = fileEntry{Value: e.Value, Expires: e.Expires, Sensitive: e.Sensitive}
	}
	second, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the data file of %s: %w", head.Scope, err)
	}
	head.Version, head.Checksum = 1, checksum(second)
	first, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("encode the data file of %s: %w", head.Scope, err)
	}
	return bytes.Join([][]byte{first, second, nil}, []byte("\n")), nil
}

// verify checks a data file as its readers will, and returns what it says of itself.
func verify(text []byte) (fileHead, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	second, after, whole := bytes.Cut(rest, []byte("\n"))
	if !whole || len(after) > 0 {
		return fileHead{}, errors.New("is not two whole lines")
	}
	var head fileHead
	if err := json.Unmarshal(first, &head); err != nil {
		return fileHead{}, fmt.Errorf("has a damaged first line: %w", err)
	}
	switch {
	case head.Version != 1:
		return fileHead{}, fmt.Errorf("is of format %d", head.Version)
	case head.Checksum != checksum(second):
		return fileHead{}, errors.New("does not match its checksum")
	}
	return head, nil
}

func checksum(line []byte) string {
	sum := sha256.Sum256(line)
	return "sha256:" + hex.EncodeToString(sum[:])
}
