package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/cmd/internal/puppetcert"
	"github.com/bellpull/bellpull/schemas"
)

// Scopes returns the node's hierarchy with its names filled in, most specific
// first. Names come from the node's own certificate and from node.certname,
// never from facts. A hierarchy that leads to no scope, or to an impossible one,
// is [schemas.ErrInvalid].
func (c Config) Scopes() ([]schemas.Scope, error) {
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	placeholder := regexp.MustCompile(`\{([^{}]*)\}`)
	var scopes []schemas.Scope
	for _, line := range c.Node.Hierarchy {
		missing, odd := false, ""
		filled := placeholder.ReplaceAllStringFunc(line, func(text string) string {
			name := text[1 : len(text)-1]
			value, ok := names[name]
			if !ok || value == "" {
				missing = true
			}
			// A value must not reach into another level, whatever a certificate says.
			if strings.Contains(value, "/") {
				odd = name
			}
			return value
		})
		switch {
		case odd != "":
			return nil, fmt.Errorf("node.hierarchy: {%s} is %q, which is no scope segment: %w", odd, names[odd], schemas.ErrInvalid)
		case missing && strings.Contains(line, "{certname}") && names["certname"] == "":
			return nil, fmt.Errorf("node.hierarchy: %q needs node.certname, or a certificate in nats.tls.cert: %w", line, schemas.ErrInvalid)
		case missing:
			continue
		}
		scope, err := schemas.ParseScope(filled)
		if err != nil {
			return nil, fmt.Errorf("node.hierarchy: %w", err)
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		return nil, fmt.Errorf("node.hierarchy: leads to no scope: %w", schemas.ErrInvalid)
	}
	return scopes, nil
}

func (c Config) names() (puppetcert.Names, error) {
	names := puppetcert.Names{}
	if c.NATS.TLS.Cert != "" {
		var err error
		if names, err = puppetcert.Read(c.NATS.TLS.Cert); err != nil && c.Node.Certname == "" {
			return nil, errors.Join(err, errors.New("node.certname is not set either"))
		} else if err != nil {
			return nil, err
		}
	}
	if c.Node.Certname != "" {
		names["certname"] = c.Node.Certname
	}
	return names, nil
}
