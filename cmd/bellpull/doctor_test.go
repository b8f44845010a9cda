package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// FACT-06: a setting of Facter's that makes runs see an old state is named.
func TestFacterNames(t *testing.T) {
	for _, tt := range []struct {
		name, text      string
		cached, blocked []string
	}{
		{"nothing", ``, nil, nil},
		{"cached", "facts : {\n  ttls : [ { \"bellpull-fact\" : 1 hour } ]\n}", []string{"bellpull-fact"}, nil},
		{"among others", `facts: { ttls: [ {"uptime" = 1 hour}, { bellpull.sh: 5 days } ] }`, []string{"bellpull.sh"}, nil},
		{"blocked", `facts : { blocklist : [ "file system", "bellpull-fact" ] }`, nil, []string{"bellpull-fact"}},
		{"in a comment", "facts : {\n # ttls : [ { \"bellpull-fact\" : 1 hour } ]\n // ttls : [ \"bellpull\" ]\n}", nil, nil},
		{"another's", `facts : { ttls : [ { "ec2" : 1 hour } ] }`, nil, nil},
		{"quoted list", `"facts" { "ttls" = [ { "bellpull" = 30 minutes } ] }`, []string{"bellpull"}, nil},
	} {
		if got := facterNames(tt.text, "ttls"); !slices.Equal(got, tt.cached) {
			t.Errorf("%s: got %q cached, want %q", tt.name, got, tt.cached)
		}
		if got := facterNames(tt.text, "blocklist"); !slices.Equal(got, tt.blocked) {
			t.Errorf("%s: got %q blocked, want %q", tt.name, got, tt.blocked)
		}
	}
}

func TestClocksApart(t *testing.T) {
	for _, tt := range []struct {
		check natskv.StreamCheck
		want  string
	}{
		{natskv.StreamCheck{ClockAhead: 4e9}, statusOK},
		{natskv.StreamCheck{ClockAhead: -6e9}, statusWarn},
		{natskv.StreamCheck{ClockAhead: 6e9}, statusWarn},
		{natskv.StreamCheck{ClockAhead: 6e9, RoundTrip: 2e9}, statusOK}, // it may be the way
	} {
		var f findings
		if f.clock(tt.check); f[0].Status != tt.want {
			t.Errorf("%v ahead, answer in %v: got %v, want %s", tt.check.ClockAhead, tt.check.RoundTrip, f, tt.want)
		}
	}
}

func TestRealPrograms(t *testing.T) {
	tools.Need(t, "puppet", "facter")
	for _, name := range []string{"puppet", "facter"} {
		var f findings
		if !f.program(t.Context(), name) || !strings.HasPrefix(f[0].Message, "version ") {
			t.Errorf("%s: got %v, want its version", name, f)
		}
	}
}
