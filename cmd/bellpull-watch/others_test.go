package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A person's run, by hand, with a real agent: with --noop, or with --tags that
// match nothing, it proves nothing; a whole one is booked, and the watcher, whose
// own run would come in an hour, has none left to start.
func realOthers(t *testing.T, s *site, command []string) {
	config := s.read("bellpull.yaml")
	s.write("bellpull.yaml", strings.Replace(config, "watch: {", "watch: {splay: 1h, ", 1))
	defer s.write("bellpull.yaml", config)
	stop := s.start("others.log", "bellpull-watch", "--log-level", "debug")
	defer stop()
	s.put(`{"my::text":{"value":"third"}}`)
	s.until("splay", func() bool { return strings.Contains(s.read("others.log"), "splay: group/web: my::text changed") })
	before := s.applied()
	looks := 0 // at reports of others
	for _, more := range [][]string{{"--noop"}, {"--tags", "no_such_tag"}, nil} {
		run := exec.Command(command[0], append(command[1:], more...)...)
		run.Env = append(os.Environ(), "BELLPULL_CONFIG="+s.dir+"/bellpull.yaml")
		if out, err := run.CombinedOutput(); err != nil && run.ProcessState.ExitCode() != 2 {
			t.Fatalf("puppet agent %v: %v\n%s", more, err, out)
		}
		looks++
		s.until("look at the report", func() bool { return strings.Count(s.read("others.log"), "a run of somebody else") == looks })
		if more == nil { // what is booked is written after the look
			s.until("the run is booked", func() bool { return s.applied().Revision != before.Revision })
		}
		if got := s.applied(); (got.Revision != before.Revision) != (more == nil) {
			t.Errorf("puppet agent %v: revision %d is booked, before it was %d", more, got.Revision, before.Revision)
		}
	}
	if got := s.read("from-fact"); got != "third" {
		t.Errorf("the file holds %q, want third", got)
	}
	stop()
	if log := s.read("others.log"); strings.Contains(log, "run ended") {
		t.Errorf("the watcher started a run of its own:\n%s", log)
	}
}
