// Command bellpull is the operator's side of bellpull: it makes the bucket of
// desired state, changes and shows what is in it, and says what is wrong.
//
// stdout is data, stderr is talk. The exit code tells the kind of failure:
// 0 ok, 1 failure, 2 wrong usage, 3 not found, 4 invalid, 5 conflict,
// 6 unavailable, 7 something would change (apply --dry-run --exit-code).
package main

import (
	"os"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

func main() { os.Exit(cli.Main("bellpull", run)) }
