package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bellpull.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, file string) config.Config {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadOverridesInOrder(t *testing.T) {
	c := load(t, write(t, ""))
	if c.Bucket != "desired" || c.Fact.Deadline != 1500*time.Millisecond || c.State != "/var/lib/bellpull" || c.Hiera.Dir != "/var/lib/bellpull/hiera" {
		t.Errorf("defaults = %+v", c)
	}
	file := write(t, "bucket: from_file\nwatch: {quiet: 1s, command: [puppet, agent]}\nfact: {state: none}\nstate: /srv/b\n")
	if c = load(t, file); c.Bucket != "from_file" || c.Watch.Quiet != time.Second || len(c.Fact.State) != 0 || c.Hiera.Dir != "/srv/b/hiera" {
		t.Errorf("with a file = %+v", c)
	}
	if c.Watch.QuietMax != 2*time.Second {
		t.Errorf("quiet_max = %v, want the default beside a set quiet", c.Watch.QuietMax)
	}
	t.Setenv("BELLPULL_CONFIG_YAML", "bucket: from_yaml\nnats: {servers: [nats://a:1]}")
	t.Setenv("BELLPULL_CONFIG", file)
	if c = load(t, ""); c.Bucket != "from_yaml" || c.Watch.Quiet != time.Second {
		t.Errorf("with $BELLPULL_CONFIG_YAML = %+v", c)
	}
	t.Setenv("BELLPULL_BUCKET", "from_env")
	t.Setenv("BELLPULL_NATS_SERVERS", "[nats://b:2, nats://c:3]")
	t.Setenv("BELLPULL_WATCH_MIN_INTERVAL", "1m")
	t.Setenv("BELLPULL_FACT_STATE", "[my_firewall::*]")
	t.Setenv("BELLPULL_NATS_NKEY", "")
	c = load(t, "")
	if c.Bucket != "from_env" || fmt.Sprint(c.NATS.Servers) != "[nats://b:2 nats://c:3]" || c.Watch.MinInterval != time.Minute || c.Watch.Quiet != time.Second || fmt.Sprint(c.Fact.State) != "[my_firewall::*]" {
		t.Errorf("with variables = %+v", c)
	}
}

func TestLoadNamesTheFault(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown key", "bucket: x\nnats:\n  sever: [a]\n", `bellpull.yaml:3: unknown key "sever"`},
		{"wrong type", "fact:\n  deadline: soon\n", "bellpull.yaml:2: must be a duration such as"},
		{"no list", "nats:\n  servers: nats://a:1\n", "bellpull.yaml:2: must be a list"},
		{"twice", "bucket: a\nbucket: b\n", "bellpull.yaml:2: "},
		{"no YAML", "bucket: [a\n", "bellpull.yaml:"},
		{"bucket name", "bucket: a.b\n", "bucket: must be made of"},
		{"no bucket", "bucket: ''\n", "bucket: must be made of"},
		{"fact name that is a number", "fact: {name: '1st'}\n", "fact.name: must be a lower-case fact name"},
		{"fact name", "fact: {name: Bell}\n", "fact.name: must be a lower-case fact name"},
		{"half a key pair", "nats: {tls: {cert: /c.pem}}\n", "nats.tls: cert and key go together"},
		{"no deadline", "fact: {deadline: 0s}\n", "fact.deadline: must be a duration above 0"},
		{"negative quiet", "watch: {quiet: -1s}\n", "watch.quiet: must be"},
		{"proof", "watch: {proof: hope}\n", "watch.proof: must be agent, apply or exit"},
		{"relative state", "state: lib\n", "state: must be an absolute path"},
		{"metrics for everybody", "watch: {metrics: {listen: '0.0.0.0:9469'}}\n", "watch.metrics.listen: must be a loopback address"},
		{"metrics without a port", "watch: {metrics: {listen: '127.0.0.1'}}\n", "watch.metrics.listen: must be a loopback address"},
		{"metrics file", "watch: {metrics: {textfile: /var/lib/x.txt}}\n", "watch.metrics.textfile: must be an absolute path that ends in .prom"},
		{"patience", "watch:\n  permits_unavailable: soon\n", "must be a duration such as 10m, or never"},
		{"state patterns", "fact: {state: some}\n", "must be all, none, or a list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(write(t, test.text))
			if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "config.") {
				t.Errorf("%v speaks of Go types", err)
			}
		})
	}
	t.Setenv("BELLPULL_WATCH_QUIET", "soon")
	if _, err := config.Load(write(t, "")); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "$BELLPULL_WATCH_QUIET: ") {
		t.Errorf("bad variable: got %v, want ErrInvalid that names it", err)
	}
}

func TestPatience(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Minute, "watch: {permits_unavailable: 0s}": 0, "watch: {permits_unavailable: 1h}": time.Hour, "watch: {permits_unavailable: never}": -1} {
		if got := time.Duration(load(t, write(t, text)).Watch.PermitsUnavailable); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	t.Setenv("BELLPULL_WATCH_PERMITS_UNAVAILABLE", "never")
	t.Setenv("BELLPULL_WATCH_METRICS_LISTEN", "localhost:9469")
	if got := load(t, ""); got.Watch.PermitsUnavailable >= 0 || got.Watch.Metrics.Listen != "localhost:9469" {
		t.Errorf("by variables: %+v", got.Watch)
	}
}

func TestLoadWantsANamedFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.yaml")
	if _, err := config.Load(missing); !errors.Is(err, schemas.ErrNotFound) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want ErrNotFound that names the file", err)
	}
	t.Setenv("BELLPULL_CONFIG", missing)
	if _, err := config.Load(""); !errors.Is(err, schemas.ErrNotFound) {
		t.Errorf("with $BELLPULL_CONFIG: got %v, want ErrNotFound", err)
	}
}

func TestScopesComeFromTheCertificate(t *testing.T) {
	cert := certificate(t, "web1.example.com", "webservers-prod")
	for _, test := range []struct {
		name, text, want string
		err              error
	}{
		{"defaults without a certificate", "node: {certname: web1.example.com}", "[node/web1.example.com common]", nil},
		{"defaults with one", "nats: {tls: {cert: " + cert + ", key: k}}", "[node/web1.example.com group/webservers-prod common]", nil},
		{"no name at all", "", "", schemas.ErrInvalid},
		{"fixed lines", "node: {hierarchy: [group/web, common, common]}", "[group/web common]", nil},
		{"unknown name left out", "node: {certname: a, hierarchy: ['dc/{pp_datacenter}', 'node/{certname}']}", "[node/a]", nil},
		{"nothing left", "node: {certname: a, hierarchy: ['dc/{pp_datacenter}']}", "", schemas.ErrInvalid},
		{"a name that would be another level", "node: {certname: 'a/../common'}", "", schemas.ErrInvalid}, // SEC-01
		{"an odd name", "node: {certname: 'web *'}", "", schemas.ErrInvalid},
		{"missing certificate", "nats: {tls: {cert: /nonexistent.pem, key: k}}", "", os.ErrNotExist},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := load(t, write(t, test.text)).Scopes()
			if !errors.Is(err, test.err) || test.err == nil && (err != nil || fmt.Sprint(got) != test.want) {
				t.Errorf("Scopes() = %v, %v; want %s, %v", got, err, test.want, test.err)
			}
		})
	}
}

// certificate writes a self-signed certificate with Puppet's pp_role extension.
func certificate(t *testing.T, name, role string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	value, err := asn1.MarshalWithParams(role, "utf8")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 34380, 1, 1, 13}, Value: value}},
	}, &x509.Certificate{Subject: pkix.Name{CommonName: name}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
