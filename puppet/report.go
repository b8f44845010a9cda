package puppet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxReport bounds the report that is read, in bytes. 10,000 resources make about 10 MB.
const maxReport = 128 << 20

// Report is what bellpull reads of Puppet's last_run_report.yaml.
type Report struct {
	Status    string    `yaml:"status"` // failed, changed or unchanged
	Time      time.Time `yaml:"time"`   // when the run began
	JobID     string    `yaml:"job_id"` // what --job-id said; "" for runs of others and for puppet apply
	Version   string    `yaml:"puppet_version"`
	Completed bool      `yaml:"transaction_completed"`
	// Cached is not_used unless the catalog came from the agent's cache.
	Cached    string                    `yaml:"cached_catalog_status"`
	Noop      bool                      `yaml:"noop"` // the whole run was a preview
	Resources map[string]ResourceStatus `yaml:"resource_statuses"`
	Logs      []Log                     `yaml:"logs"`
}

// Log is one line that Puppet logged in the run.
type Log struct {
	Level   string `yaml:"level"` // err, warning, notice, …
	Message string `yaml:"message"`
}

// ResourceStatus is how one resource of a catalog fared.
type ResourceStatus struct {
	Tags            []string `yaml:"tags"`
	Failed          bool     `yaml:"failed"`
	FailedToRestart bool     `yaml:"failed_to_restart"`
	Skipped         bool     `yaml:"skipped"`
}

// ReadReport reads the report at path. An absent one is [os.ErrNotExist]; one
// that is cut off or is no report is an error that names path.
func ReadReport(path string) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("read puppet's report: %w", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return Report{}, fmt.Errorf("read puppet's report: %w", err)
	}
	if len(body) > maxReport {
		return Report{}, fmt.Errorf("puppet's report %s has more than %d bytes", path, maxReport)
	}
	report, err := ParseReport(body)
	if err != nil {
		return Report{}, fmt.Errorf("puppet's report %s: %w", path, err)
	}
	return report, nil
}

var (
	errNoReport = errors.New("is no report: it has no status, or no time")
	errCutOff   = errors.New("is cut off")
)

// ParseReport reads the text of a report. Puppet writes YAML with Ruby's tags,
// which carry nothing that is needed and are passed over.
func ParseReport(body []byte) (Report, error) {
	var report Report
	if err := yaml.Load(body, &report); err != nil {
		return Report{}, fmt.Errorf("is damaged: %w", err)
	}
	if report.Status == "" || report.Time.IsZero() {
		return Report{}, errNoReport
	}
	if report.Cached == "" { // Puppet's last line
		return Report{}, errCutOff
	}
	return report, nil
}

// FailedResources returns the resources that failed, such as Package[nginx], sorted.
func (r Report) FailedResources() []string {
	var failed []string
	for _, title := range slices.Sorted(maps.Keys(r.Resources)) {
		if s := r.Resources[title]; s.Failed || s.FailedToRestart {
			failed = append(failed, title)
		}
	}
	return failed
}

// SkippedResource returns the first resource that was skipped, such as
// Service[nginx]: the catalog was not applied as a whole. "" = none was.
func (r Report) SkippedResource() string {
	for _, title := range slices.Sorted(maps.Keys(r.Resources)) {
		if r.Resources[title].Skipped {
			return title
		}
	}
	return ""
}

// Complaint is why there was no catalog: the last error that Puppet logged,
// but for the one with which it always closes. "" = it logged none.
func (r Report) Complaint() string {
	for _, log := range slices.Backward(r.Logs) {
		if log.Level == "err" && !strings.HasSuffix(log.Message, "skipping run") {
			return firstLine(log.Message)
		}
	}
	return ""
}

// Matched reports whether a resource carries one of the tags and was not skipped.
// Those that class bellpull adds to every run do not count: a run limited to tags
// that match nothing else ends with success and has applied nothing.
func (r Report) Matched(tags []string) bool {
	for _, s := range r.Resources {
		if s.Skipped || slices.Contains(s.Tags, CompiledTag) {
			continue
		}
		for _, tag := range tags {
			if slices.Contains(s.Tags, strings.ToLower(tag)) {
				return true
			}
		}
	}
	return false
}

func fileResource(path string) string { return "File[" + path + "]" }
