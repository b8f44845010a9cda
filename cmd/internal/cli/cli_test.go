package cli_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/schemas"
)

// CLI-03: each kind of failure has its own documented code.
func TestCLI03_ExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{cli.Usage(errors.New("x")), 2},
		{cli.JSON(cli.Usage(fmt.Errorf("x: %w", schemas.ErrInvalid))), 2},
		{fmt.Errorf("read: %w", schemas.ErrNotFound), 3},
		{&schemas.InvalidError{What: "x"}, 4},
		{fmt.Errorf("put: %w", schemas.ErrConflict), 5},
		{cli.JSON(fmt.Errorf("connect: %w", schemas.ErrUnavailable)), 6},
		{cli.JSON(cli.ErrWouldChange), 7},
		{cli.Usage(nil), 0},
		{cli.JSON(nil), 0},
	} {
		if got := cli.ExitCode(test.err); got != test.want {
			t.Errorf("ExitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

func TestLoggerKnowsItsLevels(t *testing.T) {
	if _, err := cli.Logger("x", "debug", nil); err != nil {
		t.Error(err)
	}
	if _, err := cli.Logger("x", "loud", nil); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("unknown level: got %v, want a usage error", err)
	}
}
