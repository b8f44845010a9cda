package natstest

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster starts n servers that form one JetStream cluster, and waits until it
// has a leader and every server is current.
func Cluster(t testing.TB, n int) []*Server {
	t.Helper()
	ports, routes := make([]int, n), make([]*url.URL, n)
	for i := range n {
		ports[i] = freePort(t)
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])}
	}
	servers := make([]*Server, n)
	for i := range n {
		s := &Server{t: t, opts: &server.Options{
			ServerName: fmt.Sprintf("n%d", i+1),
			Host:       "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(),
			NoLog: true, NoSigs: true,
			Cluster: server.ClusterOpts{Name: "bellpull", Host: "127.0.0.1", Port: ports[i]},
			Routes:  routes,
		}}
		t.Cleanup(s.Stop)
		s.launch()
		servers[i] = s
	}
	deadline := time.Now().Add(startTimeout)
	for !formed(servers) {
		if time.Now().After(deadline) {
			t.Fatalf("the cluster has no leader after %v", startTimeout)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return servers
}

// formed reports whether every server is current and the leader sees them all.
func formed(servers []*Server) bool {
	led := false
	for _, s := range servers {
		if !s.srv.JetStreamIsCurrent() {
			return false
		}
		if s.srv.JetStreamIsLeader() {
			led = len(s.srv.JetStreamClusterPeers()) == len(servers)
		}
	}
	return led
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
