package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/bellpull/bellpull/schemas"
)

// Load reads the configuration. file is what --config says; "" leaves it to
// $BELLPULL_CONFIG and [DefaultFile]. A fault in the text matches
// [schemas.ErrInvalid], a named file that does not exist [schemas.ErrNotFound].
func Load(file string) (Config, error) {
	c := defaults()
	named := file != ""
	if !named {
		file, named = os.LookupEnv("BELLPULL_CONFIG")
		if file == "" {
			file, named = DefaultFile, false
		}
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, fmt.Errorf("configuration file %s: %w", file, schemas.ErrNotFound)
	case err != nil:
		return Config{}, fmt.Errorf("read configuration: %w", err)
	default:
		if err := c.add(file, text); err != nil {
			return Config{}, err
		}
	}
	if text := os.Getenv("BELLPULL_CONFIG_YAML"); text != "" {
		if err := c.add("$BELLPULL_CONFIG_YAML", []byte(text)); err != nil {
			return Config{}, err
		}
	}
	if err := c.override(); err != nil {
		return Config{}, err
	}
	if c.Hiera.Dir == "" {
		c.Hiera.Dir = filepath.Join(c.State, "hiera")
	}
	return c, c.check()
}

func (c *Config) add(place string, text []byte) error {
	if len(strings.TrimSpace(string(text))) == 0 {
		return nil
	}
	return explain(place, yaml.Load(text, c, yaml.WithKnownFields()))
}

// override lets $BELLPULL_A_B stand for the key a.b.
func (c *Config) override() error {
	given := map[string]string{}
	for _, variable := range os.Environ() {
		if name, text, ok := strings.Cut(variable, "="); ok && strings.HasPrefix(name, "BELLPULL_") {
			given[name] = text
		}
	}
	if len(given) == 0 {
		return nil
	}
	for _, path := range keys(reflect.TypeFor[Config](), nil) {
		name := "BELLPULL_" + strings.ToUpper(strings.Join(path, "_"))
		text, set := given[name]
		if !set {
			continue
		}
		node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		if strings.TrimSpace(text) != "" {
			var value yaml.Node
			if err := yaml.Load([]byte(text), &value); err != nil {
				return explain("$"+name, err)
			}
			if node = &value; value.Kind == yaml.DocumentNode {
				node = value.Content[0]
			}
		}
		for i := len(path) - 1; i >= 0; i-- {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[i]}
			node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, node}}
		}
		if err := node.Decode(c); err != nil {
			return explain("$"+name, err)
		}
	}
	return nil
}

// keys lists the paths of all settings below t.
func keys(t reflect.Type, above []string) (paths [][]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		path := append(append([]string(nil), above...), field.Tag.Get("yaml"))
		if field.Type.Kind() == reflect.Struct {
			paths = append(paths, keys(field.Type, path)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

// explain puts the place before each fault and speaks of keys, not of Go types.
func explain(place string, err error) error {
	if err == nil {
		return nil
	}
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = &yaml.LoadErrors{Errors: []*yaml.LoadError{one}}
	default:
		return &schemas.InvalidError{What: "configuration", Faults: []schemas.Fault{{Pointer: place, Message: err.Error()}}}
	}
	plain := func(message string) string {
		message = regexp.MustCompile(`field (\S+) not found in type \S+`).ReplaceAllString(message, `unknown key "$1"`)
		message = regexp.MustCompile(`cannot construct .* into \[\]string`).ReplaceAllString(message, "must be a list, as in [a, b]")
		return regexp.MustCompile(`cannot construct .* into time\.Duration`).ReplaceAllString(message, "must be a duration such as 90s, 5m or 1h30m")
	}
	var faults []schemas.Fault
	for _, e := range all.Errors {
		at := place
		if e.Mark.Line > 0 && !strings.HasPrefix(place, "$") {
			at = fmt.Sprintf("%s:%d", place, e.Mark.Line)
		}
		faults = append(faults, schemas.Fault{Pointer: at, Message: plain(e.Message)})
	}
	return &schemas.InvalidError{What: "configuration", Faults: faults}
}

// UnmarshalYAML takes all, none, or a list.
func (p *Patterns) UnmarshalYAML(node *yaml.Node) error {
	switch {
	case node.Kind == yaml.ScalarNode && node.Value == "all":
		*p = Patterns{"*"}
		return nil
	case node.Kind == yaml.ScalarNode && node.Value == "none":
		*p = nil
		return nil
	case node.Kind != yaml.SequenceNode:
		return fmt.Errorf("line %d: must be all, none, or a list of names and patterns", node.Line)
	}
	return node.Decode((*[]string)(p))
}

// By hand and not by regular expression: the fact reads its configuration in every run.
const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// loopback reports whether only this machine reaches the address.
func loopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func bucketName(name string) bool {
	return name != "" && strings.Trim(name, letters+strings.ToUpper(letters)+digits+"_-") == ""
}

func (c *Config) check() error {
	var faults []schemas.Fault
	fault := func(key, message string) { faults = append(faults, schemas.Fault{Pointer: key, Message: message}) }
	if len(c.NATS.Servers) == 0 {
		fault("nats.servers", "is empty")
	}
	if !bucketName(c.Bucket) {
		fault("bucket", "must be made of A-Z a-z 0-9 _ -")
	}
	if c.Fact.Name == "" || strings.Trim(c.Fact.Name, letters+digits+"_") != "" || strings.Contains(digits+"_", c.Fact.Name[:1]) {
		fault("fact.name", "must be a lower-case fact name: a letter, then a-z 0-9 _")
	}
	if (c.NATS.TLS.Cert == "") != (c.NATS.TLS.Key == "") {
		fault("nats.tls", "cert and key go together")
	}
	if !filepath.IsAbs(c.State) {
		fault("state", "must be an absolute path")
	}
	if at := c.Watch.Metrics.Listen; at != "" && !loopback(at) {
		fault("watch.metrics.listen", "must be a loopback address with a port, such as 127.0.0.1:9469: the figures have neither TLS nor users")
	}
	if file := c.Watch.Metrics.Textfile; file != "" && (!filepath.IsAbs(file) || filepath.Ext(file) != ".prom") {
		fault("watch.metrics.textfile", "must be an absolute path that ends in .prom, in a directory of node_exporter's textfile collector")
	}
	switch c.Watch.Proof {
	case "", "agent", "apply", "exit":
	default:
		fault("watch.proof", "must be agent, apply or exit")
	}
	for _, d := range []struct {
		key  string
		at   time.Duration
		zero bool // whether 0 is allowed
	}{
		{"nats.timeout", c.NATS.Timeout, false}, {"fact.deadline", c.Fact.Deadline, false},
		{"watch.quiet", c.Watch.Quiet, true}, {"watch.quiet_max", c.Watch.QuietMax, true},
		{"watch.splay", c.Watch.Splay, true}, {"watch.min_interval", c.Watch.MinInterval, true},
		{"watch.resync", c.Watch.Resync, false}, {"watch.skew", c.Watch.Skew, true},
		{"watch.timeout", c.Watch.Timeout, false},
	} {
		if d.at < 0 || d.at == 0 && !d.zero {
			fault(d.key, "must be a duration above 0")
		}
	}
	c.checkHiera(fault)
	c.checkGateway(fault)
	if len(faults) > 0 {
		return &schemas.InvalidError{What: "configuration", Faults: faults}
	}
	return nil
}
