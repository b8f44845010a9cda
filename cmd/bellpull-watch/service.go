package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// service is the service manager, told by the protocol of sd_notify(3). Without
// one, nothing is told.
type service struct {
	log hclog.Logger

	mu       sync.Mutex
	watchdog time.Duration // 0 = there is none
	next     time.Time     // of the next sign of life
	failed   bool
}

func newService(log hclog.Logger) *service {
	s := &service{log: log}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not understood", "error", err)
	}
	s.watchdog = interval
	return s
}

// ready says that the watcher works. It does so without NATS: it waits for it.
func (s *service) ready() { s.tell(daemon.SdNotifyReady) }

// stopping says that the watcher ends because it was told to.
func (s *service) stopping() { s.tell(daemon.SdNotifyStopping) }

// alive is called by the loop, as long as it works: a loop that hangs is restarted
// by the service manager, and the run that it has started goes on.
func (s *service) alive() {
	if s.watchdog <= 0 {
		return
	}
	s.mu.Lock()
	now := time.Now()
	due := !now.Before(s.next)
	if due {
		s.next = now.Add(s.watchdog / 4)
	}
	s.mu.Unlock()
	if due {
		s.tell(daemon.SdNotifyWatchdog)
	}
}

// status shows in systemctl status where the node stands.
func (s *service) status(st schemas.Status) {
	line := string(st.State)
	if st.Why != "" {
		line += ": " + st.Why
	}
	s.tell("STATUS=" + strings.Join(strings.Fields(line), " ")) // a second line would be another message
}

func (s *service) tell(what string) {
	_, err := daemon.SdNotify(false, what)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.failed {
		s.log.Warn("the service manager was not told", "error", fmt.Errorf("notify: %w", err))
	}
	s.failed = err != nil
}
