// Connect is the bench's yardstick: a program that connects to NATS and ends.
package main

import (
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

func main() {
	nc, err := nats.Connect(os.Args[1], nats.NoReconnect())
	if err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
	nc.Close()
}
