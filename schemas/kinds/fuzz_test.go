package kinds_test

import (
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

// Whatever a stranger sends as the value of an embedded kind, it passes or is ErrInvalid, and what passes goes on passing.
func FuzzValidate(f *testing.F) {
	for _, v := range []string{
		`{"port": 8443, "protocol": "tcp", "action": "allow"}`, `{"address": "203.0.113.0/24", "reason": "\u0000\ud83d\ude00"}`,
		`{"name": "web", "size": 1e3}`, `{"name": "web", "size": 1e999999999}`, `{"": {"/": {"~": [null, true, -0.0]}}}`, `"\ud800"`,
		`{"port": 8443, "port": 22}`, `[[[[[[]]]]]]`, `{"address": "::ffff:1.2.3.4%eth0/0"}`, `{"name": "%2f~1%zz", "size": {}}`, ``, `{`,
		`{"a%b": 1, "%": 2, "%41": 3, "/~0~1": 4}`,
	} {
		f.Add(v)
	}
	set := mustLoad(f, nil)
	names := set.Names()
	f.Fuzz(func(t *testing.T, text string) {
		v, err := schemas.ParseValue([]byte(text))
		if err != nil {
			faults(t, err) // fails unless it is ErrInvalid
			return
		}
		for _, kind := range names {
			err := set.Validate(kind, v)
			if got := faults(t, err); err != nil && len(got) == 0 {
				t.Errorf("kind %s: an error without a fault: %v", kind, err)
			}
			ev, again := set.Complete(schemas.Event{Kind: kind, Scope: "common", Value: v})
			if (err == nil) != (again == nil) || err == nil && ev.Value != v {
				t.Errorf("kind %s: Validate says %v, Complete %v with the value %s", kind, err, again, ev.Value)
			}
		}
	})
}
