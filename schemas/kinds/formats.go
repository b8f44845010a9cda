package kinds

import (
	"net/netip"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/bellpull/bellpull/schemas"
)

// formats are the formats that bellpull checks itself: those that the library lets too much through for (an IPv4 address of
// "+1.2.3.4", a host name with a label of "-bad"), date-time, which must mean what the readers take it for, and two that JSON
// Schema does not have: cidr, a network by its first address, and
// go-duration, a length of time above 0.
func formats() map[string]func(any) bool {
	return map[string]func(any) bool{
		"ipv4":        ofText(isIPv4),
		"ipv6":        ofText(isIPv6),
		"cidr":        ofText(isCIDR),
		"hostname":    ofText(isHostname),
		"date-time":   ofText(isDateTime),
		"time":        ofText(func(s string) bool { return isDateTime("2000-01-01T" + s) }),
		"go-duration": ofText(isGoDuration),
	}
}

// ofText makes a check of strings one that, as JSON Schema wants it, lets anything else pass.
func ofText(check func(string) bool) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return !ok || check(s)
	}
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

// isCIDR refuses 10.1.2.3/8: whoever wrote it meant either one address or sixteen million, and a ban must not guess.
func isCIDR(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p == p.Masked()
}

func isHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", c) {
				return false
			}
		}
	}
	return true
}

func isDateTime(s string) bool {
	_, err := schemas.ParseTime(s)
	return err == nil
}

func isGoDuration(s string) bool {
	d, err := time.ParseDuration(s)
	return err == nil && d > 0
}

// unknownFormats returns the places in a schema whose "format" nothing checks.
func unknownFormats(doc any, pointer string) []string {
	var places []string
	own := formats()
	walk(doc, pointer, func(pointer string, schema map[string]any) {
		name, ok := schema["format"].(string)
		if !ok {
			return
		}
		if _, known := own[name]; known {
			return
		}
		if _, known := jsonschema.Formats[name]; !known {
			places = append(places, pointer+"/format")
		}
	})
	return places
}
