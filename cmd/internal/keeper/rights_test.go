package keeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// What the package's comment says that a keeper needs is enough, and a node needs
// only its own subject.
func TestRights(t *testing.T) {
	const stream = "BELLPULL_PERMITS_desired"
	node := func(name, token string) *server.User {
		return &server.User{Username: name, Password: "x", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"bellpull.permit.desired." + token}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_" + token + ".>"}},
		}}
	}
	f := &fleet{t: t, server: natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "keeper", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.MSG.DELETE." + stream, "$JS.API.DIRECT.GET." + stream + ".>",
					"$JS.API.CONSUMER.*." + stream + ".>", "$JS.API.CONSUMER.MSG.NEXT." + stream + ".permits", "$JS.ACK." + stream + ".permits.>",
					"bellpull.permits.desired.token.*",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{
					"_INBOX.>", "bellpull.permit.desired.*", "bellpull.permits.desired.limit",
				}},
				Response: &server.ResponsePermission{MaxMsgs: 1000, Expires: 2 * time.Hour},
			}},
			node("web1", "web1/example/com"), node("web2", "web2/example/com"),
		}
	})}
	as := func(user, certname string) *natskv.Bucket {
		return f.connect(certname, strings.Replace(f.server.URL(), "nats://", "nats://"+user+":x@", 1))
	}
	f.admin = as("admin", "")
	must(f.admin.Init(f.ctx(), natskv.InitOptions{}))
	f.limit(3)
	for range 2 {
		k := keeper.New(keeper.Config{Bucket: as("keeper", ""), Mend: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	f.tokens(3)
	f.limit(1)
	f.tokens(1)
	ask := func(user string) *asker {
		a := &asker{f: f, bucket: as(user, user+".example.com")}
		a.Permits = a.bucket.Permits()
		a.answers = a.Ask(t.Context())
		return a
	}
	first := ask("web1")
	permit := must(first.Renew(f.ctx(), first.granted()))
	second := ask("web2").waiting()
	first.release(permit)
	second.release(second.granted())

	other := as("web1", "web2.example.com").Permits()
	if _, err := other.Renew(f.ctx(), schemas.Permit{Handle: permit.Handle, Until: time.Now().Add(time.Minute)}); !errors.Is(err, schemas.ErrUnavailable) {
		t.Errorf("a request in another node's name: %v, want it refused", err)
	}
}
