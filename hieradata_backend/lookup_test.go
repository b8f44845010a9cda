package hieradata_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

func layer(tb testing.TB, scope schemas.Scope, text string) schemas.Layer {
	tb.Helper()
	d, err := schemas.ParseDocument([]byte(entries(text)))
	if err != nil {
		tb.Fatal(err)
	}
	return schemas.Layer{Scope: scope, Revision: 1, Document: d}
}

func TestLookup(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	layers := []schemas.Layer{
		layer(t, "node/a", `"k":{"value":null},"m[x]":{"value":1},"c[x]":{"value":1},"gone":{"value":1,"expires":"2026-12-01T10:00:00Z"}`),
		layer(t, "common", `"k":{"value":"lower"},"m":{"value":{"x":2,"y":1.50}},"c":{"value":"plain"},"gone":{"value":"below"}`),
	}
	for _, test := range []struct {
		key     string
		want    string
		wantErr error
		says    string
	}{
		{key: "k", want: "null"},
		{key: "m", want: `{"x":1,"y":1.50}`},
		{key: "gone", want: `"below"`},
		{key: "m[x]", wantErr: schemas.ErrNotFound, says: `"m[x]"`},
		{key: "none", wantErr: schemas.ErrNotFound, says: `"none"`},
		{key: "c", wantErr: schemas.ErrInvalid, says: "common holds a value that is no hash, while node/a"},
	} {
		got, err := hieradata.Lookup(layers, test.key, now)
		if !errors.Is(err, test.wantErr) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got error %v, want %v that says %q", test.key, err, test.wantErr, test.says)
		}
		if string(got.Value) != test.want {
			t.Errorf("%s: got %s, want %s", test.key, got.Value, test.want)
		}
	}
}

func ExampleLookup() {
	document, _ := schemas.ParseDocument([]byte(`{"bellpull":1,"entries":{"fw::rules[tcp-8443]":{"value":{"port":8443}}}}`))
	value, _ := hieradata.Lookup([]schemas.Layer{{Scope: "common", Document: document}}, "fw::rules", time.Now())
	fmt.Println(value.Value)
	// Output: {"tcp-8443":{"port":8443}}
}
