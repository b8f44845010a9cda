package main

import (
	"slices"
	"testing"
)

// The fact of a run reads the configuration that the watcher has read, however
// that was given.
func TestRunEnvironment(t *testing.T) {
	t.Setenv("BELLPULL_CONFIG", "/etc/one.yaml")
	t.Setenv("BELLPULL_NATS_SERVERS", "[nats://127.0.0.1:1]")
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	for _, test := range []struct{ flag, want string }{{"", "BELLPULL_CONFIG=/etc/one.yaml"}, {"/etc/two.yaml", "BELLPULL_CONFIG=/etc/two.yaml"}} {
		got, err := runEnvironment(test.flag)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(got, test.want) || !slices.Contains(got, "BELLPULL_NATS_SERVERS=[nats://127.0.0.1:1]") || slices.Contains(got, "NOTIFY_SOCKET=/run/notify") {
			t.Errorf("with --config %q: %q, want %s and the other settings alone", test.flag, got, test.want)
		}
		if slices.Contains(got, "BELLPULL_CONFIG=/etc/one.yaml") && test.flag != "" {
			t.Errorf("with --config %q the variable is still there: %q", test.flag, got)
		}
	}
}
