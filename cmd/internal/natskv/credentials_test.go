package natskv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func TestCredentials(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "s3cret"},
			{Username: "web1", Password: "pw1", Permissions: nodePermissions("web1/example/com", "common")},
		}
	})
	as := func(user string) string { return strings.Replace(srv.URL(), "nats://", "nats://"+user+"@", 1) }
	admin := natstest.Dial(t, natskv.Config{Servers: []string{as("admin:s3cret")}})
	if _, err := admin.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	revision := put(t, admin, "common", doc(`1`), 0)

	t.Run("wrong password", func(t *testing.T) {
		start := time.Now()
		_, err := natskv.Dial(within(t, 5*time.Second), natskv.Config{Servers: []string{as("admin:wr0ng")}})
		wantError(t, err, schemas.ErrUnavailable, "credentials", "refused")
		wantTook(t, start, 100*time.Millisecond)
		if strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("error = %q, shows the password", err)
		}
	})
	t.Run("wrong password of a daemon", func(t *testing.T) {
		b, err := natskv.Connect(within(t, 5*time.Second), natskv.Config{Servers: []string{as("admin:wr0ng")}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Read(within(t, 300*time.Millisecond), []schemas.Scope{"common"})
		wantError(t, err, schemas.ErrUnavailable, "credentials", "refused")
	})
	node := natskv.Config{Servers: []string{as("web1:pw1")}, Node: "web1.example.com"}
	t.Run("a node reads its own", func(t *testing.T) {
		b := natstest.Dial(t, node)
		if got := read(t, b, "common", "node/web1.example.com"); got.Bucket == "" || got.Scopes[0].Revision != revision || got.Scopes[1].Err != nil {
			t.Errorf("read = %+v", got)
		}
	})
	t.Run("another's scope fails at once and alone", func(t *testing.T) {
		b := natstest.Dial(t, node)
		start := time.Now()
		got := read(t, b, "common", "node/web2.example.com")
		wantTook(t, start, 100*time.Millisecond)
		if got.Scopes[0].Err != nil || got.Scopes[0].Revision != revision {
			t.Errorf("common = %+v", got.Scopes[0])
		}
		wantError(t, got.Scopes[1].Err, schemas.ErrUnavailable, "refused the credentials", "node.web2/example/com")
	})
	t.Run("another's inbox", func(t *testing.T) {
		other := node
		other.Node = "web2.example.com"
		start := time.Now()
		_, err := natstest.Dial(t, other).Read(within(t, 5*time.Second), []schemas.Scope{"common"})
		wantError(t, err, schemas.ErrUnavailable, "refused the credentials")
		wantTook(t, start, 100*time.Millisecond)
	})
	t.Run("what a node may not do", func(t *testing.T) {
		b := natstest.Dial(t, node)
		for what, call := range map[string]func(context.Context) error{
			"write":   func(ctx context.Context) error { _, err := b.Put(ctx, "common", doc(`2`), revision); return err },
			"list":    func(ctx context.Context) error { _, err := b.Scopes(ctx, ""); return err },
			"history": func(ctx context.Context) error { _, err := b.At(ctx, "common", revision); return err },
			"init":    func(ctx context.Context) error { _, err := b.Init(ctx, natskv.InitOptions{}); return err },
		} {
			start := time.Now()
			err := call(within(t, 5*time.Second))
			wantError(t, err, schemas.ErrUnavailable, "refused the credentials")
			if took := time.Since(start); took > slack {
				t.Errorf("%s took %v, want it at once", what, took)
			}
		}
	})
}

// nodePermissions is what DESIGN §7 lets a node do.
func nodePermissions(token string, more ...string) *server.Permissions {
	p := &server.Permissions{
		Publish:   &server.SubjectPermission{},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_" + token + ".>"}},
	}
	for _, key := range append(more, "node."+token, "=bucket") {
		p.Publish.Allow = append(p.Publish.Allow, "$JS.API.DIRECT.GET.KV_desired.$KV.desired."+key)
		p.Subscribe.Allow = append(p.Subscribe.Allow, "bellpull.changed.desired."+key)
	}
	return p
}

func TestTLS(t *testing.T) {
	authority, other := natstest.NewAuthority(t), natstest.NewAuthority(t)
	srv := natstest.Start(t, func(o *server.Options) { o.TLSConfig, o.TLSVerify = authority.Server(), true })
	plain := natstest.Start(t)
	cert, key := authority.Issue("web1.example.com")
	otherCert, otherKey := other.Issue("web1.example.com")
	tests := []struct {
		name string
		url  string
		tls  natskv.TLS
		want string // "" = connects
	}{
		{"certificate", srv.URL(), natskv.TLS{CA: authority.File, Cert: cert, Key: key}, ""},
		{"no certificate", srv.URL(), natskv.TLS{CA: authority.File}, "tls"},
		{"another authority's certificate", srv.URL(), natskv.TLS{CA: authority.File, Cert: otherCert, Key: otherKey}, "tls"},
		{"another authority's server", srv.URL(), natskv.TLS{CA: other.File, Cert: cert, Key: key}, "unknown authority"},
		{"server without TLS, scheme", strings.Replace(plain.URL(), "nats:", "tls:", 1), natskv.TLS{}, "secure connection not available"},
		{"server without TLS, authority", plain.URL(), natskv.TLS{CA: authority.File}, "secure connection not available"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := natskv.Dial(within(t, 5*time.Second), natskv.Config{Servers: []string{tt.url}, TLS: tt.tls})
			if tt.want != "" {
				wantError(t, err, schemas.ErrUnavailable, tt.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b.Close()
		})
	}
}
