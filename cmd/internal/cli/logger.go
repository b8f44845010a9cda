package cli

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
)

// Levels are the names that [Logger] takes.
const Levels = "trace, debug, info, warn, error"

// Logger returns a daemon's logger. level is one of [Levels]; any other is a
// usage error.
func Logger(name, level string, w io.Writer) (hclog.Logger, error) {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		return nil, Usage(fmt.Errorf("log level %q: must be one of %s", level, Levels))
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: l, Output: w}), nil
}
