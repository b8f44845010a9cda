// Package servicetest stands in for systemd: it hears what a daemon tells it.
package servicetest

import (
	"net"
	"testing"
	"time"
)

// patience is how long a message may take on a busy machine.
const patience = 30 * time.Second

// Manager makes $NOTIFY_SOCKET, a file or an abstract socket of that name, and
// returns a function that waits for the next message.
func Manager(t *testing.T, name string) func() string {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		buf := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatalf("nothing was told: %v", err)
		}
		return string(buf[:n])
	}
}
