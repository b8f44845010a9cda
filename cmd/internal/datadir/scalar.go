package datadir

import (
	"math/big"
	"regexp"
	"strings"
)

// A plain scalar is read as Puppet's YAML library reads it (Psych's ScalarScanner).
var (
	reDate        = regexp.MustCompile(`^\d{4}-(?:1[012]|0\d|\d)-(?:[12]\d|3[01]|0\d|\d)$`)
	reTime        = regexp.MustCompile(`^-?\d{4}-\d{1,2}-\d{1,2}(?:[Tt]|\s+)\d{1,2}:\d\d:\d\d(?:\.\d*)?(?:\s*(?:Z|[-+]\d{1,2}:?(?:\d\d)?))?$`)
	reInfinite    = regexp.MustCompile(`(?i)^(?:[-+]?\.inf|\.nan)$`)
	reSymbol      = regexp.MustCompile(`^:.`)
	reSexagesimal = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9]){1,2}(?:\.[0-9_]*)?$`)
	reFloat       = regexp.MustCompile(`^[-+]?(?:[0-9][0-9_,]*)?\.[0-9]*(?:[eE][-+][0-9]+)?$`)
	reInteger     = regexp.MustCompile(`^[-+]?(?:0b[01_,]+|0[0-7_,]+|0|[1-9](?:[0-9]|,[0-9]|_[0-9])*|0x[0-9a-fA-F_,]+)$`)
	reNumber      = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`) // JSON's
)

// scalar is what a plain scalar stands for.
type scalar struct {
	kind byte   // '"' a string, '0' a number, 't', 'f', 'n'; '!' something that JSON has no word for
	text string // a number as JSON writes it; for '!' what it is
}

func plain(s string) scalar {
	switch strings.ToLower(s) {
	case "", "~", "null":
		return scalar{kind: 'n'}
	case "yes", "true", "on":
		return scalar{kind: 't'}
	case "no", "false", "off":
		return scalar{kind: 'f'}
	}
	if !strings.ContainsRune("+-.:0123456789", rune(s[0])) {
		return scalar{kind: '"'} // most of them
	}
	switch {
	case s[0] >= '1' && s[0] <= '9' && strings.Trim(s, "0123456789") == "": // most of the rest
		return scalar{'0', s}
	case reTime.MatchString(s), reDate.MatchString(s):
		return scalar{'!', "a date, which Puppet refuses"}
	case reInfinite.MatchString(s):
		return scalar{'!', "no number that JSON has"}
	case reSymbol.MatchString(s):
		return scalar{'!', "a Ruby symbol"}
	case reSexagesimal.MatchString(s):
		return scalar{'!', "a number to base 60"}
	case s != "." && s != "-." && s != "+." && reFloat.MatchString(s):
		return number(float(s))
	case reInteger.MatchString(s):
		return number(integer(s))
	}
	return scalar{kind: '"'}
}

func number(text string) scalar {
	if text == "" {
		return scalar{'!', "a number without digits"}
	}
	return scalar{'0', text}
}

// float writes as JSON what [reFloat] matches, and changes as little as it can; "" is none, such as .e+3.
func float(s string) string {
	if reNumber.MatchString(s) {
		return s
	}
	sign, digits := "", strings.NewReplacer(",", "", "_", "").Replace(strings.TrimPrefix(s, "+"))
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	whole, rest, _ := strings.Cut(digits, ".")
	if whole == "" && (rest[0] < '0' || rest[0] > '9') {
		return ""
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if rest == "" || rest[0] == 'e' || rest[0] == 'E' {
		rest = "0" + rest
	}
	return sign + whole + "." + rest
}

// integer writes as JSON what [reInteger] matches; "" is none, such as 0x_.
func integer(s string) string {
	if reNumber.MatchString(s) {
		return s
	}
	digits := strings.NewReplacer(",", "", "_", "").Replace(s)
	n, ok := new(big.Int).SetString(digits, 0) // 0x, 0b and a leading 0 as in Ruby
	if !ok {
		return ""
	}
	return n.String()
}
