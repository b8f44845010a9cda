// Package puppetserver starts a real Puppet Server of the distribution's package
// for tests and benches: on loopback, without systemd, everything in a directory
// of its own, with a certificate authority that signs every agent.
//
//   - [Start] starts one and waits until it answers, which takes it one to three
//     minutes; [Server.Stop] ends it.
//   - [Server.Write] puts manifests, modules and data where it finds them.
//   - [Server.Agent] is a node with a Puppet of its own; [Agent.Run] is one
//     `puppet agent` run.
//   - [Server.Client] speaks to it as a node does.
//
// As root the server runs as user puppet, as the package has it, and otherwise as
// whoever started it.
package puppetserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Config shapes a server. The zero value is one JRuby instance and 768 MiB of heap.
type Config struct {
	Instances int    // JRuby instances: compiles at the same time; default 1
	Heap      int    // Java's heap in MiB; default 512, and 256 for each instance
	Timeout   string // environment_timeout; default unlimited
	// Install puts modules and environments in their place before the server starts:
	// what it finds missing then, a server that never looks again goes on missing.
	Install func(*Server) error
}

// Server is a running Puppet Server.
type Server struct {
	Dir  string // everything that is its own; world-readable
	Port int    // on 127.0.0.1; its certificate's name is localhost

	cfg     Config
	account *user.User // whom it runs as
	java    *exec.Cmd
	leash   io.Closer
	ended   chan struct{} // closed when java has ended
}

// BootPatience is how long a server may take to answer: machines with two busy
// cores were seen to need three minutes.
const BootPatience = 6 * time.Minute

// Start starts a server and waits for it. On an error nothing is left.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.Instances = max(cfg.Instances, 1)
	if cfg.Heap == 0 {
		cfg.Heap = 512 + 256*cfg.Instances
	}
	if cfg.Timeout == "" {
		cfg.Timeout = "unlimited"
	}
	account, err := account()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, account: account, ended: make(chan struct{})}
	// Not below a test's own directory, which other users may not enter.
	if s.Dir, err = os.MkdirTemp("", "bellpull-puppetserver-"); err != nil {
		return nil, fmt.Errorf("make a directory for Puppet Server: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func account() (*user.User, error) {
	if os.Getuid() != 0 {
		return user.Current()
	}
	return user.Lookup("puppet")
}

func (s *Server) start(ctx context.Context) error {
	if err := os.Chmod(s.Dir, 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return fmt.Errorf("configure Puppet Server: %w", err)
	}
	if s.cfg.Install != nil {
		if err := s.cfg.Install(s); err != nil {
			return fmt.Errorf("install what Puppet Server serves: %w", err)
		}
	}
	if out, err := s.Command(ctx, "puppetserver", "ca", "setup", "--config", s.path("puppet/puppet.conf")).CombinedOutput(); err != nil {
		return fmt.Errorf("puppetserver ca setup: %w\n%s", err, out)
	}
	if err := s.boot(); err != nil {
		return fmt.Errorf("start Puppet Server: %w", err)
	}
	return s.await(ctx)
}

// Command is a command that runs as the server's user, with the server's directory
// as its home: the user's own may not exist.
func (s *Server) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"HOME=" + s.Dir, "LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	if os.Getuid() == 0 {
		uid, _ := strconv.ParseUint(s.account.Uid, 10, 32) // they come out of /etc/passwd
		gid, _ := strconv.ParseUint(s.account.Gid, 10, 32)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

// leash ends a command when its standard input ends: with whoever holds the other
// end of it, be he killed.
const leash = `exec 3<&0 </dev/null; "$@" 3<&- & pid=$!; { cat <&3 >/dev/null; kill -KILL $pid; } 2>/dev/null & exec 3<&-; wait $pid`

func (s *Server) boot() error {
	heap := strconv.Itoa(s.cfg.Heap) + "m"
	args := []string{
		"-c", leash, "sh", "java",
		"-Xms" + heap, "-Xmx" + heap,
		// Without these JRuby's Open3 on Java 17 returns an empty text, and no error.
		"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens", "java.base/java.io=ALL-UNNAMED",
		"-Djruby.logger.class=com.puppetlabs.jruby_utils.jruby.Slf4jLogger", "-Djruby.lib=/usr/share/jruby/lib",
		"-Djava.io.tmpdir=" + s.path("run"),
		"-jar", "/usr/share/puppetserver/puppetserver.jar",
		"--config", s.path("conf.d"), "--bootstrap-config", s.path("services.d"), "--restart-file", s.path("run/restart"),
	}
	// No context: a server outlives the call that starts it.
	s.java = s.Command(context.Background(), "sh", args...)
	log, err := os.Create(s.path("log/stdout.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.java.Stdout, s.java.Stderr = log, log
	if s.leash, err = s.java.StdinPipe(); err != nil {
		return err
	}
	if err := s.java.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.java.Wait() // it is told to end, or its log says why
		close(s.ended)
	}()
	return nil
}

// await returns when the server answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, BootPatience)
	defer cancel()
	client, err := s.anonymous()
	if err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := client.get(ctx, "/status/v1/simple")
		if err == nil && bytes.Equal(text, []byte("running")) {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("wait for Puppet Server, which has ended:\n%s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for Puppet Server: %w\n%s", errors.Join(ctx.Err(), err), s.tail())
		case <-tick.C:
		}
	}
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() error {
	var err error
	if s.java != nil && s.java.Process != nil {
		// Killing it is quick, and everything of it is removed.
		err = s.leash.Close()
		<-s.ended
		if errors.Is(err, os.ErrClosed) {
			err = nil // it had ended by itself
		}
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.path("log/puppetserver.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// tail is the end of the logs, for an error message.
func (s *Server) tail() string {
	const most = 4 << 10
	var all []byte
	for _, name := range []string{"log/stdout.log", "log/puppetserver.log"} {
		text, _ := os.ReadFile(s.path(name)) // it may not have come so far
		all = append(all, text[max(0, len(text)-most):]...)
	}
	return string(all)
}

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }
