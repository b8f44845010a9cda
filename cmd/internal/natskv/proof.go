package natskv

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bellpull/bellpull/schemas"
)

// proof is by what the server is believed, and by what it believes us. A file is
// read anew for each connection, so that it can be replaced; a variable is not.
func (c Config) proof() ([]nats.Option, error) {
	var options []nats.Option
	ca, inVariable, err := variable("nats.tls.ca", c.TLS.CA)
	switch {
	case err != nil:
		return nil, err
	case inVariable:
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, fmt.Errorf("%w: nats.tls.ca: %s holds no PEM certificate", schemas.ErrInvalid, c.TLS.CA)
		}
		options = append(options, nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	case c.TLS.CA != "":
		options = append(options, nats.RootCAs(c.TLS.CA))
	}
	if c.TLS.Cert != "" || c.TLS.Key != "" {
		options = append(options, nats.ClientCert(c.TLS.Cert, c.TLS.Key))
	}
	creds, inVariable, err := variable("nats.creds", c.Creds)
	switch {
	case err != nil:
		return nil, err
	case inVariable:
		if _, err := nkeys.ParseDecoratedUserNKey([]byte(creds)); err != nil {
			return nil, fmt.Errorf("%w: nats.creds: %s holds no credentials: %w", schemas.ErrInvalid, c.Creds, err)
		}
		options = append(options, nats.UserCredentialBytes([]byte(creds)))
	case c.Creds != "":
		options = append(options, nats.UserCredentials(c.Creds))
	}
	seed, inVariable, err := variable("nats.nkey", c.NKey)
	switch {
	case err != nil:
		return nil, err
	case inVariable:
		option, err := nkey(seed)
		if err != nil {
			return nil, fmt.Errorf("%w: nats.nkey: %s holds no seed of a user: %w", schemas.ErrInvalid, c.NKey, err)
		}
		options = append(options, option)
	case c.NKey != "":
		option, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: nats.nkey %s: %w", schemas.ErrInvalid, c.NKey, err)
		}
		options = append(options, option)
	}
	return options, nil
}

// variable returns what the environment holds where env:NAME stands for a file.
func variable(setting, place string) (text string, inVariable bool, err error) {
	name, inVariable := strings.CutPrefix(place, "env:")
	if !inVariable {
		return "", false, nil
	}
	if text = os.Getenv(name); text == "" {
		return "", true, fmt.Errorf("%w: %s: the variable %s is not set", schemas.ErrInvalid, setting, name)
	}
	return text, true, nil
}

// nkey is nats.NkeyOptionFromSeed for a seed that is no file.
func nkey(seed string) (nats.Option, error) {
	pair, err := nkeys.ParseDecoratedUserNKey([]byte(strings.TrimSpace(seed)))
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(public, pair.Sign), nil
}
