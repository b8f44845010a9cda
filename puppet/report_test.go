package puppet_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bellpull/bellpull/puppet"
)

const compiledResource = "File[/var/lib/bellpull/node/compiled.json]"

// Reports of real runs of Puppet 7.23.
func TestReadReport(t *testing.T) {
	tests := []struct {
		file      string
		status    string
		completed bool
		noop      bool
		failed    []string
		matched   bool // a resource with the tag file was looked after
	}{
		{"changed", "changed", true, false, nil, true},
		{"noop", "changed", true, true, nil, true},
		{"tags-unmatched", "unchanged", true, false, nil, false},
		{"failed", "failed", true, false, []string{"Exec[/bin/false]"}, true},
		{"interrupted", "failed", false, false, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			report, err := puppet.ReadReport(filepath.Join("testdata", "reports", tt.file+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if report.Status != tt.status || report.Completed != tt.completed || report.Noop != tt.noop {
				t.Errorf("status %q, completed %v, noop %v, want %q, %v, %v",
					report.Status, report.Completed, report.Noop, tt.status, tt.completed, tt.noop)
			}
			if report.Cached != "not_used" || report.Time.IsZero() {
				t.Errorf("cached %q, time %v, want not_used and a time", report.Cached, report.Time)
			}
			if got := report.FailedResources(); !slices.Equal(got, tt.failed) {
				t.Errorf("failed %q, want %q", got, tt.failed)
			}
			if got := report.Matched([]string{"File"}); got != tt.matched {
				t.Errorf("matched %v, want %v", got, tt.matched)
			}
		})
	}
}

// The file of class bellpull is kept in a preview and in a run limited to tags,
// and does not count as something that a tag has matched.
func TestReportCompiledResource(t *testing.T) {
	for _, file := range []string{"changed", "noop", "tags-unmatched"} {
		report, err := puppet.ReadReport(filepath.Join("testdata", "reports", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		status, listed := report.Resources[compiledResource]
		if !listed || status.Skipped || status.Failed {
			t.Errorf("%s: %s is %+v, listed %v, want it looked after", file, compiledResource, status, listed)
		}
		if report.Matched([]string{puppet.CompiledTag}) {
			t.Errorf("%s: %s counts as a match", file, compiledResource)
		}
	}
}

func TestReadReportRefuses(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "reports", "changed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		body string
	}{
		{"empty", ""},
		{"zeroed", string(make([]byte, 4096))},
		{"other YAML", "a: 1\n"},
		{"a list", "- 1\n"},
		{"cut in its head", string(whole[:120])},
		{"cut in a text", string(whole[:1000]) + `"`},
		{"cut after a line", string(whole[:bytes.Index(whole, []byte("  Schedule[daily]"))])},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.yaml")
			if err := os.WriteFile(file, []byte(tt.body), 0o600); err != nil {
				t.Fatal(err)
			}
			if report, err := puppet.ReadReport(file); err == nil {
				t.Errorf("read as %+v, want an error", report)
			}
		})
	}
	if _, err := puppet.ReadReport(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v, want %v", err, fs.ErrNotExist)
	}
}
