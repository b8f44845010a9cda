// Fact measures what bellpull-fact costs, beside programs that do less or the
// same in other ways, in one run and in turn. `make bench-fact` runs it, from
// the top of the tree; it wants go, ruby and facter.
//
// Every bar is one line that ends in met or not met.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

func main() {
	rounds := flag.Int("rounds", 41, "whole processes of each kind")
	facterRounds := flag.Int("facter-rounds", 41, "whole runs of facter, with and without the fact")
	flag.Parse()
	var err error
	if flag.NArg() == 2 && flag.Arg(0) == "serve" {
		err = serve(flag.Arg(1))
	} else {
		err = run(*rounds, *facterRounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-fact:", err)
		os.Exit(1)
	}
}

func run(rounds, facterRounds int) error {
	dir, err := os.MkdirTemp("", "bench-fact-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		return err
	}
	natsURL, stop, err := startServer(dir)
	if err != nil {
		return err
	}
	defer stop()
	configFile := filepath.Join(dir, "bellpull.yaml")
	if err := os.WriteFile(configFile, []byte(settings(dir, natsURL)), 0o600); err != nil {
		return err
	}
	if err := processes(rounds, dir, natsURL, configFile); err != nil {
		return err
	}
	if err := facter(facterRounds, dir, configFile); err != nil {
		return err
	}
	size(filepath.Join(dir, "bellpull-fact"))
	watcher(dir, configFile)
	return nil
}

func settings(dir, natsURL string) string {
	hierarchy := make([]string, 0, len(scopes()))
	for _, scope := range scopes() {
		hierarchy = append(hierarchy, string(scope))
	}
	return fmt.Sprintf("nats: {servers: [%q]}\nnode: {certname: web1.example.com, hierarchy: [%s]}\n"+
		"watch: {command: [/bin/true], quiet: 50ms}\nstate: %s\n", natsURL, strings.Join(hierarchy, ", "), filepath.Join(dir, "state"))
}

// build makes the programs as `make build` does.
func build(dir string) error {
	for name, pkg := range map[string]string{
		"bellpull-fact": "./cmd/bellpull-fact", "connect": "./cmd/internal/bench/fact/connect", "kvget": "./cmd/internal/bench/fact/kvget",
	} {
		if out, err := compile(dir, name, pkg); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

func compile(dir, name, pkg string) ([]byte, error) {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.CombinedOutput()
}

func startServer(dir string) (natsURL string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "serve", filepath.Join(dir, "store"))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { input.Close(); cmd.Wait() }
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

func processes(rounds int, dir, natsURL, configFile string) error {
	u, err := url.Parse(natsURL)
	if err != nil {
		return err
	}
	var keys []string
	for _, scope := range scopes() {
		keys = append(keys, scope.Key())
	}
	a := &candidate{name: "a: Go program that only connects", argv: []string{filepath.Join(dir, "connect"), natsURL}}
	b := &candidate{
		name: "b: bellpull-fact", argv: []string{filepath.Join(dir, "bellpull-fact")},
		env: []string{"BELLPULL_CONFIG=" + configFile}, want: `"source": "live"`,
	}
	c := &candidate{
		name: "c: the same read by the KeyValue API", argv: append([]string{filepath.Join(dir, "kvget"), natsURL}, keys...), want: `"bellpull"`,
	}
	d := &candidate{
		name: "d: Ruby over a raw socket", want: `"source":"live"`,
		argv: append([]string{"ruby", "cmd/internal/bench/fact/fact.rb", u.Hostname(), u.Port()}, keys...),
	}
	if err := interleave(rounds, a, b, c, d); err != nil {
		return err
	}
	for _, candidate := range []*candidate{a, b, c, d} {
		candidate.report()
	}
	fmt.Printf("b by a %.3f, b by c %.3f, b by d %.3f (medians of the rounds' ratios)\n", ratio(b.wall, a.wall), ratio(b.wall, c.wall), ratio(b.wall, d.wall))
	bar.Print("wall time of b by a", float64(bar.Median(b.wall))/float64(bar.Median(a.wall)), 1.15, "")
	bar.Print("wall time of b by c", float64(bar.Median(b.wall))/float64(bar.Median(c.wall)), 0.8, "")
	return nil
}

// facter measures whole runs of facter, with the fact in its external directory
// and with an empty one.
func facter(rounds int, dir, configFile string) error {
	with, without := filepath.Join(dir, "with"), filepath.Join(dir, "without")
	for _, d := range []string{with, without} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join(dir, "bellpull-fact"), filepath.Join(with, "bellpull-fact")); err != nil {
		return err
	}
	e0 := &candidate{name: "e: facter without the fact", argv: []string{"facter", "--external-dir", without, "-j"}, want: "os", lenient: true}
	e1 := &candidate{
		name: "e: facter with the fact", argv: []string{"facter", "--external-dir", with, "-j"}, want: `"bellpull"`, lenient: true,
		env: []string{"BELLPULL_CONFIG=" + configFile},
	}
	if err := interleave(rounds, e0, e1); err != nil {
		return err
	}
	e0.report()
	e1.report()
	fmt.Printf("cpu with by without %.3f (median of the rounds' ratios)\n", ratio(e1.cpu, e0.cpu))
	bar.Print("CPU time of facter with the fact by without", float64(bar.Median(e1.cpu))/float64(bar.Median(e0.cpu)), 1.05, "")
	return nil
}

func size(file string) {
	const text = "size of bellpull-fact, stripped"
	info, err := os.Stat(file)
	if err != nil {
		bar.Unmeasured(text, err)
		return
	}
	bar.Print(text, float64(info.Size())/(1<<20), 8, " MiB")
}
