package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// An agent that writes 100 MB: neither the disk nor the log nor the watcher's
// memory has them, and the run counts as any other.
func TestAgentFloods(t *testing.T) {
	r := newRig(t)
	r.serve("store")
	r.write("bellpull.yaml", strings.Replace(r.read("bellpull.yaml"), "[fakepuppet, ",
		`[sh, -c, 'head -c 100000000 /dev/zero | tr "\0" x; head -c 100000000 /dev/zero | tr "\0" y >&2; exec fakepuppet "$@"', sh, `, 1))
	r.start()
	r.applied(r.put("group/web", `{"fw":{"value":1}}`))
	r.quietly("nothing more", 1)
	for _, name := range []string{"state/node/run.out", "state/node/run.err", "log"} {
		info, err := os.Stat(r.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 4<<20 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	var peak int
	for line := range strings.Lines(r.memory()) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &peak); err == nil {
			break
		}
	}
	if peak == 0 || peak > 200<<10 { // the race detector takes several times what the watcher does
		t.Errorf("the watcher had %d kB at its peak", peak)
	}
}

func (r *rig) memory() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.watch.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}
