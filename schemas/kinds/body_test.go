package kinds_test

import (
	"errors"
	"testing"

	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

func TestBodyFillsInDefaults(t *testing.T) {
	set, err := kinds.Load("")
	if err != nil {
		t.Fatal(err)
	}
	body, err := set.Body("route", []byte(`{"type": "object", "required": ["port"], "properties": {
		"port": {"type": "integer"}, "protocol": {"enum": ["tcp", "udp"], "default": "tcp"},
		"metadata": {"type": "object", "default": {}, "properties": {"level": {"default": 1.0}}},
		"rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}}},
		"$defs": {"rule": {"allOf": [{"properties": {"on": {"default": true}}}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, in, want string }{
		{"missing", `{"port": 1}`, `{"metadata":{"level":1.0},"port":1,"protocol":"tcp"}`},
		{"given", `{"port": 1, "protocol": "udp", "metadata": {"level": 2}}`, `{"metadata":{"level":2},"port":1,"protocol":"udp"}`},
		{"below a list", `{"port": 1, "metadata": {"level": null}, "rules": [{}]}`, `{"metadata":{"level":null},"port":1,"protocol":"tcp","rules":[{"on":true}]}`},
		{"exact digits", `{"port": 1e0, "protocol": "udp", "metadata": {"level": 12345678901234567890.10}}`,
			`{"metadata":{"level":12345678901234567890.10},"port":1e0,"protocol":"udp"}`},
	} {
		value, err := schemas.ParseValue([]byte(test.in))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first must leave the schema as it is
			if got, err := body.Check(value); err != nil || string(got) != test.want {
				t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
			}
		}
	}
	if _, err := body.Check(`{"protocol":1}`); !errors.Is(err, schemas.ErrInvalid) || len(err.(*schemas.InvalidError).Faults) != 2 {
		t.Errorf("a bad body: %v, want two faults", err)
	}
}

func TestBodySchemas(t *testing.T) {
	set, err := kinds.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := set.Body("route", []byte(`{"properties": {"rule": {"$ref": "firewall_rule.schema.json"}}}`)); err != nil {
		t.Errorf("a schema that refers to a kind: %v", err)
	} else if _, err := body.Check(`{"rule":{"port":80}}`); !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("a rule for port 80: %v, want ErrInvalid", err)
	}
	if _, err := set.BodyFile("firewall_rule.schema.json"); err != nil {
		t.Errorf("an embedded file: %v", err)
	}
	for _, name := range []string{"nowhere.schema.json", "firewall_rule", "../kinds/firewall_rule.schema.json"} {
		if _, err := set.BodyFile(name); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("file %q: %v, want ErrInvalid", name, err)
		}
	}
	for _, schema := range []string{`{"type": "nothing"}`, `[]`, `{"$ref": "http://example.com/x"}`, `{"pattern": "(?!x)"}`, `{`} {
		if _, err := set.Body("route", []byte(schema)); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("schema %s: %v, want ErrInvalid", schema, err)
		}
	}
}
