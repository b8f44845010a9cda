package kinds_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A process that links the JSON Schema library pays for it at every start: bellpull-fact is started in every Puppet run. So only
// those who write may link it.
func TestOnlyWritersLinkTheLibrary(t *testing.T) {
	const module = "github.com/bellpull/bellpull/"
	const library = "github.com/santhosh-tekuri/jsonschema/v5"
	may := []string{"schemas/kinds", "cmd/internal/publish", "cmd/internal/webhook", "cmd/internal/gateway", "cmd/bellpull", "cmd/bellpull-gateway"}

	out, err := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		if !slices.Contains(deps[1:], library) {
			continue
		}
		linked++
		if name := strings.TrimPrefix(deps[0], module); !slices.Contains(may, name) {
			t.Errorf("%s links %s; only %s may", name, library, strings.Join(may, ", "))
		}
	}
	if linked == 0 {
		t.Error("go list shows no package that links the library; the test sees nothing")
	}
}
