package tools_test

import (
	"fmt"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// recorder is a test that only remembers how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (*recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "failed: " + fmt.Sprintf(format, args...)
}
func (r *recorder) Skipf(format string, args ...any) {
	r.ended = "skipped: " + fmt.Sprintf(format, args...)
}

func TestNeed(t *testing.T) {
	const none = "bellpull-no-such-program"
	for _, test := range []struct {
		name, ci, require string
		tools             []string
		want              string
	}{
		{"all there", "true", "1", []string{"go"}, ""},
		{"missing", "", "", []string{"go", none}, "skipped: NOT TESTED, for want of " + none + ": run `make test`, or install it"},
		{"missing in CI", "true", "", []string{none}, "failed: this test needs " + none + ", which `make test` installs"},
		{"missing in make test", "", "1", []string{none}, "failed: this test needs " + none + ", which `make test` installs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("CI", test.ci)
			t.Setenv("BELLPULL_REQUIRE_TOOLS", test.require)
			var r recorder
			tools.Need(&r, test.tools...)
			if r.ended != test.want {
				t.Errorf("got %q, want %q", r.ended, test.want)
			}
		})
	}
}
