package schemas

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CompiledKey is the Hiera key under which a compile tells what it used. No
// entry may have this name.
const CompiledKey = "bellpull::compiled"

// CheckName checks an entry's name: 1 to [MaxEntryName] bytes of UTF-8 without
// control characters, neither "<<" nor [CompiledKey], and a member that is
// neither empty nor "<<". The error matches [ErrInvalid].
func CheckName(name string) error {
	if fault := nameFault(name); fault != "" {
		return invalid(fmt.Sprintf("entry name %q", clip(name)), "", fault)
	}
	return nil
}

func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxEntryName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxEntryName)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "holds a control character"
	}
	key, member, isMember := SplitName(name)
	switch {
	case key == "<<" || isMember && member == "<<":
		return `is or holds "<<", which YAML would merge`
	case key == CompiledKey:
		return "is reserved"
	case isMember && member == "":
		return "has an empty member between [ and ]"
	}
	return ""
}

// SplitName parts x[y] into the Hiera key x and the member y: what stands
// between the first [ and a final ]. Any other name is a key as a whole.
func SplitName(name string) (key, member string, isMember bool) {
	open := strings.IndexByte(name, '[')
	if open <= 0 || !strings.HasSuffix(name, "]") {
		return name, "", false
	}
	return name[:open], name[open+1 : len(name)-1], true
}

// JoinName is the inverse of [SplitName] for a member.
func JoinName(key, member string) string { return key + "[" + member + "]" }
