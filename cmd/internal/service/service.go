// Package service tells the service manager, by the protocol of sd_notify(3), how a
// daemon is. Without a service manager nothing is told.
package service

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
)

// Manager is the service manager, such as systemd. Its methods may be called from
// several goroutines.
type Manager struct {
	log hclog.Logger

	mu       sync.Mutex
	watchdog time.Duration // 0 = there is none
	next     time.Time     // of the next sign of life
	failed   bool
}

// New returns the manager that the environment names. What goes wrong with it is
// logged once, and never stops a daemon.
func New(log hclog.Logger) *Manager {
	m := &Manager{log: log}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not understood", "error", err)
	}
	m.watchdog = interval
	return m
}

// Ready says that the daemon does its work.
func (m *Manager) Ready() { m.tell(daemon.SdNotifyReady) }

// Reloading says that it takes a configuration over; Ready ends it.
func (m *Manager) Reloading() {
	// Type=notify-reload wants the time too.
	m.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping says that it ends because it was told to.
func (m *Manager) Stopping() { m.tell(daemon.SdNotifyStopping) }

// Alive is called by a loop as often as it goes round: a daemon that hangs is
// restarted by a manager with a watchdog.
func (m *Manager) Alive() {
	if m.watchdog <= 0 {
		return
	}
	m.mu.Lock()
	now := time.Now()
	due := !now.Before(m.next)
	if due {
		m.next = now.Add(m.watchdog / 4)
	}
	m.mu.Unlock()
	if due {
		m.tell(daemon.SdNotifyWatchdog)
	}
}

// Status shows a line in systemctl status.
func (m *Manager) Status(line string) {
	m.tell("STATUS=" + strings.Join(strings.Fields(line), " ")) // a second line would be another message
}

func (m *Manager) tell(what string) {
	_, err := daemon.SdNotify(false, what)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.failed {
		m.log.Warn("the service manager was not told", "error", fmt.Errorf("notify: %w", err))
	}
	m.failed = err != nil
}
