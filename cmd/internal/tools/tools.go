// Package tools is how a test asks for programs that are not bellpull's own,
// such as puppet, facter or npm. A missing one is a loud skip on a developer's
// machine and a failure where everything has to be there.
package tools

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Need ends the test unless every named program is in PATH: as failed if $CI is
// set or $BELLPULL_REQUIRE_TOOLS is 1, as skipped elsewhere.
func Need(t testing.TB, names ...string) {
	t.Helper()
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == 0:
	case os.Getenv("CI") != "" || os.Getenv("BELLPULL_REQUIRE_TOOLS") == "1":
		t.Fatalf("this test needs %s, which `make test` installs", strings.Join(missing, ", "))
	default:
		t.Skipf("NOT TESTED, for want of %s: run `make test`, or install it", strings.Join(missing, ", "))
	}
}
