//go:build linux

package natstest

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// Dropped returns the URL of a place that answers no packet, as behind a
// firewall: a socket whose queue of connections is full.
func Dropped(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	local, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", local.(*syscall.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return "nats://" + address
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of connections does not fill up")
	return ""
}
