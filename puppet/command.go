package puppet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// Proof says by what a run proves that it has used a state.
type Proof string

// The kinds of proof.
const (
	ProofAgent Proof = "agent" // exit status, the report with this run's job id, the fact's record, the compile's record
	ProofApply Proof = "apply" // the same with a report that was begun after the start: puppet apply knows no job ids
	ProofExit  Proof = "exit"  // exit status 0: what was handed over at the start is applied
)

// CompiledTag is the Puppet tag of the file in which class bellpull keeps what
// the compile used. A run that is limited to tags always includes it.
const CompiledTag = "bellpull_compiled"

// DefaultCommand is the run of a node with an agent. It is to the point: no
// cached catalog, no splay of Puppet's own, no diff that could show a secret.
func DefaultCommand() []string {
	return []string{
		"puppet", "agent", "--onetime", "--no-daemonize", "--detailed-exitcodes", "--no-usecacheonfailure",
		"--no-splay", "--color=false", "--no-show_diff",
	}
}

// ParseProof checks the setting watch.proof. An empty one is told from the
// command; an empty command stands for [DefaultCommand].
func ParseProof(setting string, command []string) (Proof, error) {
	proof := Proof(setting)
	switch {
	case slices.Contains([]Proof{ProofAgent, ProofApply, ProofExit}, proof):
		return proof, nil
	case proof != "":
		return "", fmt.Errorf("watch.proof %q: must be agent, apply or exit: %w", setting, schemas.ErrInvalid)
	case len(command) == 0, len(command) > 1 && filepath.Base(command[0]) == "puppet" && command[1] == "agent":
		return ProofAgent, nil
	case len(command) > 1 && filepath.Base(command[0]) == "puppet" && command[1] == "apply":
		return ProofApply, nil
	}
	return ProofExit, nil
}

// arguments returns the command for one run. Only Puppet is given arguments; any
// other command finds the same in its environment.
func (p Proof) arguments(command []string, o Order) []string {
	args := slices.Clone(command)
	if p == ProofExit {
		return args
	}
	if p == ProofAgent {
		args = append(args, "--job-id", o.ID)
	}
	if len(o.Tags) > 0 {
		args = append(args, "--tags", strings.Join(append(slices.Clone(o.Tags), CompiledTag), ","))
	}
	if o.Noop {
		args = append(args, "--noop")
	}
	return args
}

// environment is the clean environment of a run: who, where and in which
// language, and nothing of the service's own, such as its credentials or its
// notify socket. Puppet's vendor packages put puppet where no PATH looks.
func environment() []string {
	var out []string
	for _, name := range []string{"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			out = append(out, name+"="+value)
		}
	}
	return append(out, "PATH="+searchPath())
}

func searchPath() string {
	const vendor = "/opt/puppetlabs/bin"
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if slices.Contains(filepath.SplitList(path), vendor) {
		return path
	}
	return path + ":" + vendor
}
