package kinds_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// load returns the embedded kinds and those given by name.
func load(t testing.TB, files map[string]string) (*kinds.Set, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return kinds.Load(dir)
}

func mustLoad(t testing.TB, files map[string]string) *kinds.Set {
	t.Helper()
	set, err := load(t, files)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func value(t testing.TB, text string) schemas.Value {
	t.Helper()
	v, err := schemas.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// faults writes the faults of an error as "pointer: message".
func faults(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	if !errors.Is(err, schemas.ErrInvalid) {
		t.Fatalf("got %v, want an error that is ErrInvalid", err)
	}
	invalid, ok := errors.AsType[*schemas.InvalidError](err)
	if !ok {
		t.Fatalf("got %T, want a *schemas.InvalidError", err)
	}
	var all []string
	for _, f := range invalid.Faults {
		all = append(all, f.Pointer+": "+f.Message)
	}
	return all
}

func TestFirstKinds(t *testing.T) {
	set := mustLoad(t, nil)
	if got, want := set.Names(), []string{"app_pool", "blocked_address", "firewall_rule"}; !slices.Equal(got, want) {
		t.Errorf("names: got %q, want %q", got, want)
	}
	for _, tt := range []struct {
		name, kind, value string
		want              []string
	}{
		{"open a port", "firewall_rule", `{"port": 8443, "protocol": "tcp", "action": "allow"}`, nil},
		{"lowest port", "firewall_rule", `{"port": 1024, "protocol": "udp", "action": "deny"}`, nil},
		{"highest port", "firewall_rule", `{"port": 65535, "protocol": "udp", "action": "deny"}`, nil},
		{"port too low", "firewall_rule", `{"port": 1023, "protocol": "tcp", "action": "allow"}`, []string{"/port: must be at least 1024"}},
		{"port too high", "firewall_rule", `{"port": 65536, "protocol": "tcp", "action": "allow"}`, []string{"/port: must be at most 65535"}},
		{"every fault", "firewall_rule", `{"port": "8443", "protocol": "icmp", "action": "drop", "a/b~c": 1}`, []string{
			`/action: must be one of "allow", "deny"`,
			"/a~1b~0c: is not a known member here",
			"/port: must be an integer, not a string",
			`/protocol: must be one of "tcp", "udp"`,
		}},
		{"nothing in it", "firewall_rule", `{}`, []string{"/action: is missing", "/port: is missing", "/protocol: is missing"}},
		{"no object", "firewall_rule", `null`, []string{": must be an object, not null"}},
		{"ban an address", "blocked_address", `{"address": "203.0.113.7", "reason": "port scan"}`, nil},
		{"ban an IPv6 address", "blocked_address", `{"address": "2001:db8::7"}`, nil},
		{"ban a network", "blocked_address", `{"address": "203.0.113.0/24"}`, nil},
		{"ban an IPv6 network", "blocked_address", `{"address": "2001:db8::/32"}`, nil},
		{"five parts", "blocked_address", `{"address": "1.1.1.1.1"}`, []string{
			"/address: must be an IPv4 address such as 192.0.2.10, or must be an IPv6 address such as 2001:db8::10," +
				" or must be a network by its first address, such as 192.0.2.0/24",
		}},
		{"no address", "blocked_address", `{"address": 7}`, []string{"/address: must be a string, not a number"}},
		{"pool", "app_pool", `{"name": "web", "size": 40}`, nil},
		{"half a worker", "app_pool", `{"name": "web", "size": 0.5}`, []string{"/size: must be an integer, not a number"}},
		{"odd name", "app_pool", `{"name": "web pool", "size": 1}`, []string{"/name: must match the pattern ^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"}},
		{"a kind that is none", "document", `{"bellpull": 1, "entries": {}}`, []string{": is not known; the kinds are app_pool, blocked_address, firewall_rule"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := faults(t, set.Validate(tt.kind, value(t, tt.value)))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	set := mustLoad(t, nil)
	for _, address := range []string{
		"", "1.1.1", "1.1.1.1.1", "1.1.1.256", "+1.1.1.1", "01.1.1.1", "1.1.1.1 ", "fe80::1%eth0", "2001:db8:::1", "host.example.com",
		"10.1.2.3/8", "10.0.0.0/33", "10.0.0.0/08", "2001:db8::1/64", "fe80::%eth0/64", "10.0.0.0/", "/8",
	} {
		v := value(t, `{"address": "`+address+`"}`)
		if err := set.Validate("blocked_address", v); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%q: got %v, want it refused", address, err)
		}
	}
}

// SCHEMA-01: "format" rejects, and formats that nobody knows are named when the schema is loaded.
func TestFormatIsAsserted(t *testing.T) {
	set := mustLoad(t, map[string]string{"site.schema.json": `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["listen", "since", "host"],
		"properties": {
			"listen": {"type": "string", "format": "ipv4"}, "since": {"type": "string", "format": "date-time"},
			"host": {"type": "string", "format": "hostname"}, "mail": {"type": "string", "format": "email"},
			"colour": {"type": "string", "format": "colour"}, "format": {"enum": [{"format": "no schema"}]}}}`})
	for _, tt := range []struct {
		name, value string
		want        []string
	}{
		{"good", `{"listen": "192.0.2.10", "since": "2026-12-01T00:00:00Z", "host": "web01.example.test", "mail": "ops@example.test"}`, nil},
		{"bad", `{"listen": "1.1.1.1.1", "since": "someinvalid datetime", "host": "-bad-.example", "mail": "nobody"}`, []string{
			"/host: must be a host name such as web1.example.com",
			"/listen: must be an IPv4 address such as 192.0.2.10",
			"/mail: must be an e-mail address such as ops@example.com",
			"/since: must be a date and time such as 2026-12-01T10:00:00Z (RFC 3339)",
		}},
		// What the library's own checks let through.
		{"a sign in an address", `{"listen": "+1.2.3.4", "since": "2026-12-01T00:00:00Z", "host": "a.example"}`,
			[]string{"/listen: must be an IPv4 address such as 192.0.2.10"}},
		{"a later label of a host", `{"listen": "192.0.2.10", "since": "2026-12-01T00:00:00Z", "host": "a.-bad.example"}`,
			[]string{"/host: must be a host name such as web1.example.com"}},
		{"a sign in an hour", `{"listen": "192.0.2.10", "since": "2026-12-01T+1:00:00Z", "host": "a.example"}`,
			[]string{"/since: must be a date and time such as 2026-12-01T10:00:00Z (RFC 3339)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := faults(t, set.Validate("site", value(t, tt.value)))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	got := set.Warnings()
	if len(got) != 1 || !strings.Contains(got[0], "site.schema.json: /properties/colour/format:") {
		t.Errorf("warnings: got %q, want one that names the file and /properties/colour/format", got)
	}
}

// SCHEMA-02: a member that stands twice, or in another case, does not slip past.
func TestDuplicateAndWrongCaseMembers(t *testing.T) {
	set := mustLoad(t, map[string]string{"app.schema.json": `{"type": "object", "required": ["replicas"], "additionalProperties": false,
		"properties": {"replicas": {"type": "integer", "maximum": 5}}}`})
	got := faults(t, set.Validate("app", value(t, `{"Replicas": 3}`)))
	want := []string{`/Replicas: is not a known member here; it is spelt "replicas"`, "/replicas: is missing"}
	if !slices.Equal(got, want) {
		t.Errorf("wrong case: got %q, want %q", got, want)
	}
	for _, body := range []string{`{"replicas": 500, "replicas": 3}`, `{"replicas": 3, "replicas": 500}`} {
		_, err := schemas.ParseValue([]byte(body))
		if got, want := faults(t, err), []string{"/replicas: stands twice in its object"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	// Whole bodies are read as strictly.
	for _, tt := range []struct {
		body string
		want string
	}{
		{`{"bellpull": 1, "entries": {}, "entries": {"a": {"value": 1}}}`, "/entries: stands twice in its object"},
		{`{"bellpull": 1, "Entries": {}}`, `/Entries: is not a known member here; it is spelt "entries"`},
	} {
		if got := faults(t, set.ValidateDocument([]byte(tt.body))); !slices.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.body, got, tt.want)
		}
	}
	event := `{"id": "1", "scope": "common", "entry": "app::safe", "entry": "app::root_password", "action": "set", "value": 1}`
	if got, want := faults(t, set.ValidateEvent([]byte(event))), []string{"/entry: stands twice in its object"}; !slices.Equal(got, want) {
		t.Errorf("event: got %q, want %q", got, want)
	}
}

func TestNumbersAreExact(t *testing.T) {
	set := mustLoad(t, map[string]string{"n.schema.json": `{"type": "integer", "maximum": 9007199254740992}`,
		"f.schema.json": `{"enum": [0.1]}`})
	for _, tt := range []struct {
		kind, value string
		want        []string
	}{
		{"n", "9007199254740992", nil},
		{"n", "9007199254740993", []string{": must be at most 9007199254740992"}}, // the same float64
		{"n", "1.00000000000000000000001", []string{": must be an integer, not a number"}},
		{"n", "1e3", nil},
		{"f", "0.1", nil},
		{"f", "0.10000000000000000001", []string{": must be one of 0.1"}},
		{"n", "1e999999", []string{": a number of this size cannot be checked"}},
		{"n", "1e9999999999999999999", []string{": a number of this size cannot be checked"}},
		{"n", "[1, 1e-999999]", []string{"/1: a number of this size cannot be checked"}},
	} {
		if got := faults(t, set.Validate(tt.kind, value(t, tt.value))); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.value, got, tt.want)
		}
	}
}

// A fault is logged and sent to whoever asked; the value may be a secret.
func TestFaultsDoNotHoldTheValue(t *testing.T) {
	const secret = "hunter2"
	for _, schema := range []string{
		`{"type": "integer"}`, `{"enum": ["a", 1]}`, `{"const": "a"}`, `{"format": "ipv4"}`, `{"format": "uuid"}`, `{"pattern": "^x"}`,
		`{"maxLength": 1}`, `{"minLength": 99}`, `{"not": {"type": "string"}}`, `{"anyOf": [{"const": 1}, {"format": "date"}]}`,
		`{"oneOf": [{"type": "string"}, {"minLength": 1}]}`, `{"allOf": [{"pattern": "^x"}]}`, `false`, `{"if": true, "then": {"const": 1}}`,
		`{"$ref": "#/properties/p/$defs/x", "$defs": {"x": {"const": 1}}}`, `{"contentEncoding": "base64", "minLength": 99}`,
	} {
		set := mustLoad(t, map[string]string{"k.schema.json": `{"properties": {"p": ` + schema + `}}`})
		err := set.Validate("k", value(t, `{"p": "`+secret+`"}`))
		if got := faults(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "/p: ") {
			t.Errorf("%s: got %q, want one fault at /p", schema, got)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the value stands in %q", schema, err)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"exclusiveMinimum": 1}`, `1`, ": must be more than 1"},
		{`{"exclusiveMaximum": 1}`, `1`, ": must be less than 1"},
		{`{"multipleOf": 5}`, `7`, ": must be a multiple of 5"},
		{`{"minItems": 2}`, `[1]`, ": must hold at least 2 items"},
		{`{"maxItems": 0}`, `[1]`, ": must hold at most 0 items"},
		{`{"uniqueItems": true}`, `[1, 1]`, ": must not hold the same item twice"},
		{`{"contains": {"const": 1}}`, `[2]`, ": must hold at least 1 items of the wanted form"},
		{`{"contains": true, "maxContains": 1}`, `[2, 3]`, ": must hold at most 1 items of the wanted form"},
		{`{"minProperties": 1}`, `{}`, ": must hold at least 1 members"},
		{`{"maxProperties": 0}`, `{"a": 1}`, ": must hold at most 0 members"},
		{`{"dependentRequired": {"a": ["b"]}}`, `{"a": 1}`, `/b: is missing, and "a" needs it`},
		{`{"propertyNames": {"pattern": "^a"}}`, `{"b": 1}`, "/b: the name must match the pattern ^a"},
		{`{"unevaluatedProperties": false}`, `{"b": 1}`, "/b: is not allowed here"},
		{`{"patternProperties": {"^a": true}, "additionalProperties": false}`, `{"ab": 1, "b": 1}`, "/b: is not a known member here"},
		{`{"type": ["string", "boolean"]}`, `null`, ": must be a string or true or false, not null"},
		{`{"items": {"type": "string"}}`, `["a", 1]`, "/1: must be a string, not a number"},
		{`{"oneOf": [true, true]}`, `1`, ": fits more than one of the forms it must fit only one of"},
		{`{"properties": {"a b/c": {"minimum": 1}}}`, `{"a b/c": 0}`, "/a b~1c: must be at least 1"},
		{`{"anyOf": [{"type": "string"}, {"properties": {"a": {"const": 1}}}]}`, `{"a": 2}`, ": must be a string, not an object, or /a must be 1"},
	} {
		set := mustLoad(t, map[string]string{"k.schema.json": tt.schema})
		if got := faults(t, set.Validate("k", value(t, tt.value))); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s of %s: got %q, want %q", tt.schema, tt.value, got, tt.want)
		}
	}
}

func TestEndlessSchemaIsAnError(t *testing.T) {
	set, err := load(t, map[string]string{"k.schema.json": `{"$ref": "#"}`})
	if err == nil {
		err = set.Validate("k", value(t, `1`))
	}
	if !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("got %v, want an error that is ErrInvalid", err)
	}
}
