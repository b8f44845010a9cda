package natskv_test

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// Where there are variables and no files, env:NAME stands for a file.
func TestProofInVariables(t *testing.T) {
	t.Run("nkey", func(t *testing.T) {
		public, seed := keyPair(t, nkeys.CreateUser)
		srv := natstest.Start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
		t.Setenv("NATS_SEED", seed+"\n")
		natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}, NKey: "env:NATS_SEED"})
		_, other := keyPair(t, nkeys.CreateUser)
		t.Setenv("NATS_SEED", other)
		_, err := natskv.Dial(within(t, 5*time.Second), natskv.Config{Servers: []string{srv.URL()}, NKey: "env:NATS_SEED"})
		wantError(t, err, schemas.ErrUnavailable, "refused the credentials")
	})
	t.Run("creds", func(t *testing.T) {
		srv, creds := operated(t)
		t.Setenv("NATS_CREDS", creds)
		natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}, Creds: "env:NATS_CREDS"})
		_, err := natskv.Dial(within(t, 5*time.Second), natskv.Config{Servers: []string{srv.URL()}})
		wantError(t, err, schemas.ErrUnavailable, "refused the credentials")
	})
	t.Run("authority", func(t *testing.T) {
		authority := natstest.NewAuthority(t)
		srv := natstest.Start(t, func(o *server.Options) { o.TLSConfig = authority.Server() })
		cert, key := authority.Issue("web1.example.com")
		for _, tt := range []struct {
			ca string
			ok bool
		}{{authority.File, true}, {natstest.NewAuthority(t).File, false}} {
			text, err := os.ReadFile(tt.ca)
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("NATS_CA", string(text))
			b, err := natskv.Dial(within(t, 5*time.Second), natskv.Config{
				Servers: []string{srv.URL()}, TLS: natskv.TLS{CA: "env:NATS_CA", Cert: cert, Key: key},
			})
			if err == nil {
				b.Close()
			}
			if (err == nil) != tt.ok {
				t.Errorf("authority of the server's own %v: got %v", tt.ok, err)
			}
		}
	})
}

// operated is a server that believes an operator, and credentials of a user of its.
func operated(t *testing.T) (srv *natstest.Server, creds string) {
	t.Helper()
	must := func(text string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountKey := must(account.PublicKey())
	userKey, seed := keyPair(t, nkeys.CreateUser)
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, must(jwt.NewAccountClaims(accountKey).Encode(operator))); err != nil {
		t.Fatal(err)
	}
	srv = natstest.Start(t, func(o *server.Options) {
		o.JetStream, o.TrustedKeys, o.AccountResolver = false, []string{must(operator.PublicKey())}, resolver
	})
	text, err := jwt.FormatUserConfig(must(jwt.NewUserClaims(userKey).Encode(account)), []byte(seed))
	return srv, must(string(text), err)
}

func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) (public, seed string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	text, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return public, string(text)
}
