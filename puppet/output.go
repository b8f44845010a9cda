package puppet

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	maxOutput  = 1 << 20  // bytes of stdout, and of stderr, on disk before they are cut
	tailOutput = 16 << 10 // bytes of each that a result carries
)

// output is where a run's stdout or stderr goes. It is a file and no pipe, so
// that the run survives the watcher; it is cut from outside, so that a command
// that never stops talking does not fill the disk.
type output struct {
	path string
	tail []byte // what stood at the end when the file was last cut
}

// open makes the file empty for a new run. Every write of the child goes to the
// file's end, wherever that is after a cut.
func (o *output) open() (*os.File, error) {
	// Unlinked first: a process that an earlier run left behind keeps its own file.
	if err := os.Remove(o.path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("make file for the run's output: %w", err)
	}
	f, err := os.OpenFile(o.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make file for the run's output: %w", err)
	}
	return f, nil
}

// cut empties the file when it has grown over its bound.
func (o *output) cut() {
	if info, err := os.Stat(o.path); err != nil || info.Size() <= maxOutput {
		return
	}
	o.tail = readTail(o.path)
	// A file that cannot be cut is looked at again the next time.
	_ = os.Truncate(o.path, 0)
}

// String returns the last of what was written, as valid text.
func (o *output) String() string {
	text := append(o.tail, readTail(o.path)...)
	return strings.ToValidUTF8(string(text[max(0, len(text)-tailOutput):]), "�")
}

func readTail(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailOutput {
		if _, err := f.Seek(-tailOutput, io.SeekEnd); err != nil {
			return nil
		}
	}
	text, _ := io.ReadAll(io.LimitReader(f, tailOutput))
	return text
}
