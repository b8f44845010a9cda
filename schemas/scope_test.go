package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

func TestScopeHasOneKeyAndOneFileName(t *testing.T) {
	for _, test := range []struct{ scope, key, file string }{
		{"common", "common", "common.json"},
		{"group/webservers-prod", "group.webservers-prod", "group=2Fwebservers-prod.json"},
		{"node/web1.example.com", "node.web1/example/com", "node=2Fweb1.example.com.json"},
		{"role/profile::web", "role.profile=3A=3Aweb", "role=2Fprofile=3A=3Aweb.json"},
		{".a/a..b/c.", "/a.a//b.c/", ".a=2Fa..b=2Fc..json"},
	} {
		scope, err := schemas.ParseScope(test.scope)
		if err != nil {
			t.Errorf("ParseScope(%q): %v", test.scope, err)
			continue
		}
		if got := scope.Key(); got != test.key {
			t.Errorf("%q.Key() = %q, want %q", test.scope, got, test.key)
		}
		if got := scope.FileName(); got != test.file {
			t.Errorf("%q.FileName() = %q, want %q", test.scope, got, test.file)
		}
		checkRoundTrip(t, scope)
	}
}

func TestOddScopesAreRefusedWithTheReason(t *testing.T) {
	for _, test := range []struct{ scope, want string }{
		{"", "is empty"},
		{"/common", "empty segment"},
		{"common/", "empty segment"},
		{"a//b", "empty segment"},
		{"../common", `the segment ".."`},
		{"node/.", `the segment "."`},
		{"node/*", "holds '*'"},
		{"node/>", "holds '>'"},
		{"has space", "holds ' '"},
		{"a=3Ab", "holds '='"},
		{"a~b", "holds '~'"},
		{"ключ::имя", "holds 'к'"},
		{"$KV", "holds '$'"},
		{"a\x00b", `holds '\x00'`},
		{strings.Repeat("a/", 16) + "a", "has 17 segments"},
		{strings.Repeat("k", 201), "a key of 201 bytes"},
		{strings.Repeat(":", 67), "a key of 201 bytes"},
	} {
		scope, err := schemas.ParseScope(test.scope)
		if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseScope(%q) = %q, %v; want ErrInvalid with %q", test.scope, scope, err, test.want)
		}
	}
	for _, fits := range []string{strings.Repeat("a/", 15) + "a", strings.Repeat("k", 200)} {
		if _, err := schemas.ParseScope(fits); err != nil {
			t.Errorf("ParseScope of a scope at the limit: %v", err)
		}
	}
}

// NATS-01: Puppet names map to keys without clashes, and no key is a wildcard.
func TestNATS01_ScopesThatLookAlikeHaveDifferentKeys(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"profile::ntp::servers", "a::b", "a.b", "a/b", "a__b", "a--b", "a:b", "a..b", ".a", "a.", "Profile::Upper", "profile::upper"} {
		scope, err := schemas.ParseScope(text)
		if err != nil {
			t.Fatalf("ParseScope(%q): %v", text, err)
		}
		if other, taken := seen[scope.Key()]; taken {
			t.Errorf("%q and %q share the key %q", text, other, scope.Key())
		}
		seen[scope.Key()] = text
		checkRoundTrip(t, scope)
	}
	for _, text := range []string{"a=3A=3Ab", "has space", "ключ::имя", "a~b", "", "a.*", ">"} {
		if scope, err := schemas.ParseScope(text); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("ParseScope(%q) = %q, %v; want ErrInvalid", text, scope, err)
		}
	}
}

func TestForeignKeysAreNoScopes(t *testing.T) {
	for _, key := range []string{"", schemas.BucketKey, "a=b", "a=3a", "a=3", "a:b", "a b", "a~b", "a..b", ".a", "a.", "/", "a.//", "*", "a.>"} {
		if scope, err := schemas.ScopeFromKey(key); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("ScopeFromKey(%q) = %q, %v; want ErrInvalid", key, scope, err)
		}
	}
	for _, name := range []string{"", ".json", "common", "common.JSON", "a=2f.json", "synced.json.tmp", "a:b.json", "../x.json", "=2F.json"} {
		if scope, err := schemas.ScopeFromFileName(name); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("ScopeFromFileName(%q) = %q, %v; want ErrInvalid", name, scope, err)
		}
	}
}

func FuzzScope(f *testing.F) {
	for _, seed := range []string{"common", "group/webservers-prod", "node/web1.example.com", "a::b", "a=3Ab", "..", "a//b", schemas.BucketKey} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if scope, err := schemas.ParseScope(text); err == nil {
			checkRoundTrip(t, scope)
		} else if !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("ParseScope(%q): %v, want ErrInvalid", text, err)
		}
		if scope, err := schemas.ScopeFromKey(text); err == nil && scope.Key() != text {
			t.Errorf("ScopeFromKey(%q) = %q, whose key is %q", text, scope, scope.Key())
		}
		if scope, err := schemas.ScopeFromFileName(text); err == nil && scope.FileName() != text {
			t.Errorf("ScopeFromFileName(%q) = %q, whose file is %q", text, scope, scope.FileName())
		}
	})
}

func checkRoundTrip(t *testing.T, scope schemas.Scope) {
	t.Helper()
	key := scope.Key()
	if back, err := schemas.ScopeFromKey(key); err != nil || back != scope {
		t.Errorf("ScopeFromKey(%q) = %q, %v; want %q", key, back, err, scope)
	}
	if strings.ContainsAny(key, "*> :") || strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, "..") {
		t.Errorf("key %q of %q is no plain subject", key, scope)
	}
	if got, want := strings.Count(key, "."), strings.Count(string(scope), "/"); got != want {
		t.Errorf("key %q has %d dots, want one per slash of %q", key, got, scope)
	}
	name := scope.FileName()
	if back, err := schemas.ScopeFromFileName(name); err != nil || back != scope {
		t.Errorf("ScopeFromFileName(%q) = %q, %v; want %q", name, back, err, scope)
	}
	if strings.ContainsAny(name, "/\\:") || len(name) > 255 {
		t.Errorf("file name %q of %q is no single file", name, scope)
	}
}
