package main

import (
	"fmt"
	"net"
	"os"
)

// notifyReady tells systemd, by the protocol of sd_notify(3), that the watcher is
// ready. It is ready without NATS: it waits for it. Without systemd it does nothing.
func notifyReady() error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
