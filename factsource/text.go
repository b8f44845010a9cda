package factsource

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bellpull/bellpull/schemas"
)

// text builds JSON that means the same when it is read as YAML 1.1, which is how
// Facter reads it: what YAML would refuse, fold or turn into another type is
// escaped or rewritten. The first thing that neither allows stands in fault.
type text struct {
	buf    []byte
	leaves int    // members of hashes and elements of arrays, as Puppet counts facts
	fault  string // why the value cannot be shown; "" = it can
}

// value appends v. It goes over the text by hand, because the fact's start-up
// pays for every decoder; v is compact and was checked when it was parsed.
func (t *text) value(v schemas.Value) {
	if rest := t.next(string(v)); rest != "" {
		t.fail("is no JSON")
	}
}

// next appends the value at the beginning of s and returns what follows it.
func (t *text) next(s string) string {
	switch kind := schemas.Value(s).Kind(); {
	case t.fault != "" || kind == 0:
		t.fail("is no JSON")
		return ""
	case kind == '{' || kind == '[':
		return t.container(s, kind == '{')
	case kind == '"':
		text, rest := t.string(s)
		if len(text) > MaxString {
			t.fail("holds a string of %d bytes", len(text))
		}
		t.quote(text)
		return rest
	default:
		end := strings.IndexAny(s, ",]}")
		if end < 0 {
			end = len(s)
		}
		if kind == '0' {
			t.number(s[:end])
		} else {
			t.buf = append(t.buf, s[:end]...) // null, true, false
		}
		return s[end:]
	}
}

func (t *text) container(s string, object bool) string {
	t.buf = append(t.buf, s[0])
	closing := s[0] + 2 // ] and } stand two places behind [ and {
	s = s[1:]
	for first := true; s != "" && s[0] != closing; first = false {
		if !first {
			s = s[1:] // the comma
			t.buf = append(t.buf, ',', ' ')
		}
		if object {
			var name string
			if name, s = t.string(s); s == "" {
				break
			}
			s = s[1:] // the colon
			t.key(name)
		}
		s = t.next(s)
		t.leaves++
	}
	if s == "" {
		t.fail("is no JSON")
		return ""
	}
	t.buf = append(t.buf, closing)
	return s[1:]
}

// string reads the JSON string at the beginning of s.
func (t *text) string(s string) (text, rest string) {
	for end := 1; end < len(s); end++ {
		switch s[end] {
		case '\\':
			end++
		case '"':
			if text = s[1:end]; strings.IndexByte(text, '\\') < 0 {
				return text, s[end+1:]
			}
			unquoted, err := jsontext.AppendUnquote(nil, s[:end+1])
			if err != nil {
				t.fail("is no JSON")
			}
			return string(unquoted), s[end+1:]
		}
	}
	t.fail("is no JSON")
	return "", ""
}

// key appends the name of a member and the colon. YAML merges the hash below a
// key "<<" into its parent, and gives a key up at 1,024 characters.
func (t *text) key(name string) {
	start := len(t.buf)
	t.quote(name)
	if name == "<<" {
		t.fail(`holds a member "<<", which YAML would merge`)
	}
	if n := utf8.RuneCount(t.buf[start:]); n > maxKey {
		t.fail("holds a member's name of %d characters", n)
	}
	t.buf = append(t.buf, ':', ' ')
}

// quote appends s as a string. Beside what JSON asks for it escapes what a YAML
// reader refuses (DEL, C1 controls, byte order mark, noncharacters) and the line
// breaks that it would fold into a blank. Runes above U+FFFF stay as they are:
// YAML reads no surrogate pairs.
func (t *text) quote(s string) {
	t.buf = append(t.buf, '"')
	plain := 0
	for plain < len(s) && ' ' <= s[plain] && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\' {
		plain++
	}
	t.buf = append(t.buf, s[:plain]...)
	for _, r := range s[plain:] {
		switch {
		case r == 0:
			t.fail("holds a null character, for which Facter 4.10 gives the whole fact up")
		case r == '"' || r == '\\':
			t.buf = append(t.buf, '\\', byte(r))
		case r == '\n':
			t.buf = append(t.buf, '\\', 'n')
		case r == '\t':
			t.buf = append(t.buf, '\\', 't')
		case r == '\r':
			t.buf = append(t.buf, '\\', 'r')
		case r < ' ', 0x7f <= r && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff,
			0xfdd0 <= r && r <= 0xfdef, r == 0xfffe, r == 0xffff:
			t.buf = fmt.Appendf(t.buf, `\u%04x`, r)
		default:
			t.buf = utf8.AppendRune(t.buf, r)
		}
	}
	t.buf = append(t.buf, '"')
}

// number appends a JSON number without an exponent, which YAML 1.1 takes for a
// string in most of its forms: the same digits, with the point moved. What had an
// exponent stays a float.
func (t *text) number(digits string) {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(digits), "e")
	if !scaled {
		if strings.Contains(digits, ".") && !finite(digits) || len(digits) > MaxString {
			t.fail("holds a number beyond the range of a float")
		}
		t.buf = append(t.buf, digits...)
		return
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := strings.TrimLeft(whole+fraction, "0")
	if all == "" {
		t.buf = append(t.buf, sign+"0.0"...)
		return
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil || shift < -maxShift || shift > maxShift || len(mantissa) > maxKey {
		t.fail("holds a number beyond the range of a float")
		return
	}
	point := len(all) - len(fraction) + shift // digits before the point
	switch {
	case point <= 0:
		all = "0." + strings.Repeat("0", -point) + all
	case point >= len(all):
		all += strings.Repeat("0", point-len(all)) + ".0"
	default:
		all = all[:point] + "." + all[point:]
	}
	if !finite(all) {
		t.fail("holds a number beyond the range of a float")
	}
	t.buf = append(t.buf, sign+all...)
}

// maxShift is the largest exponent that is written out: no float needs more.
const maxShift = 400

func finite(digits string) bool {
	_, err := strconv.ParseFloat(digits, 64)
	return err == nil
}

func (t *text) fail(format string, args ...any) {
	if t.fault == "" {
		t.fault = fmt.Sprintf(format, args...)
	}
}
