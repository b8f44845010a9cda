package schemas

import (
	"fmt"
	"strings"
)

// Scope is a path that names who is meant: common, group/webservers-prod,
// node/web1.example.com. Make one with [ParseScope]; it has 1 to 16 segments of
// A-Z a-z 0-9 . _ : - parted by /, none of them "." or "..", and a key of at
// most [MaxScopeKey] bytes.
type Scope string

// BucketKey is the key that tells the bucket's id. No scope maps to it.
const BucketKey = "=bucket"

const fileSuffix = ".json"

// ParseScope checks s. The error matches [ErrInvalid] and says which rule s breaks.
func ParseScope(s string) (Scope, error) {
	if fault := scopeFault(s); fault != "" {
		return "", invalid(fmt.Sprintf("scope %q", clip(s)), "", fault)
	}
	return Scope(s), nil
}

func scopeFault(s string) string {
	if s == "" {
		return "is empty"
	}
	segments := strings.Split(s, "/")
	if len(segments) > MaxScopeSegments {
		return fmt.Sprintf("has %d segments, at most %d are allowed", len(segments), MaxScopeSegments)
	}
	for _, segment := range segments {
		switch segment {
		case "":
			return "has an empty segment"
		case ".", "..":
			return fmt.Sprintf("has the segment %q", segment)
		}
		for _, c := range segment {
			if c > 0x7f || !scopeByte(byte(c)) {
				return fmt.Sprintf("holds %q; allowed are A-Z a-z 0-9 . _ : - and / between segments", c)
			}
		}
	}
	if n := len(Scope(s).Key()); n > MaxScopeKey {
		return fmt.Sprintf("has a key of %d bytes, at most %d are allowed", n, MaxScopeKey)
	}
	return ""
}

func scopeByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == ':' || c == '-'
}

// Key returns the scope's key in the bucket: "." and "/" change places, so that
// a certname is one subject token, and ":" is written "=3A".
func (s Scope) Key() string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		switch c := s[i]; c {
		case '/':
			b.WriteByte('.')
		case '.':
			b.WriteByte('/')
		case ':':
			b.WriteString("=3A")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ScopeFromKey is the inverse of [Scope.Key]. A key that no scope maps to, such
// as one that another client wrote, or [BucketKey], gives [ErrInvalid].
func ScopeFromKey(key string) (Scope, error) {
	swapped := strings.Map(func(c rune) rune {
		switch c {
		case '/':
			return '.'
		case '.':
			return '/'
		}
		return c
	}, strings.ReplaceAll(key, "=3A", ":"))
	scope, err := ParseScope(swapped)
	if err != nil || scope.Key() != key {
		return "", invalid(fmt.Sprintf("key %q", clip(key)), "", "is not the key of a scope")
	}
	return scope, nil
}

// FileName returns the name of the scope's file in a directory of data files:
// one path segment, with "/" written "=2F" and ":" written "=3A", and .json.
func (s Scope) FileName() string {
	// A Replacer costs more to make than all of this.
	return strings.ReplaceAll(strings.ReplaceAll(string(s), "/", "=2F"), ":", "=3A") + fileSuffix
}

// ScopeFromFileName is the inverse of [Scope.FileName]; any other name gives [ErrInvalid].
func ScopeFromFileName(name string) (Scope, error) {
	base, ok := strings.CutSuffix(name, fileSuffix)
	scope, err := ParseScope(strings.ReplaceAll(strings.ReplaceAll(base, "=2F", "/"), "=3A", ":"))
	if !ok || err != nil || scope.FileName() != name {
		return "", invalid(fmt.Sprintf("file name %q", clip(name)), "", "is not the file name of a scope")
	}
	return scope, nil
}

// clip keeps error lines short whatever a stranger sends.
func clip(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
