package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// serverTimeout is for the embedded server to come up, and to make the bucket.
const serverTimeout = 30 * time.Second

type serverOptions struct {
	listen string
	store  string
	level  string
}

func (a *app) serverCommand() *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run NATS with JetStream and the bucket in this process",
		Long: `server runs a NATS server with JetStream in this process, keeps its data in a
directory, makes the bucket if it is missing, and hands out permits to run where
there is a limit (bellpull permits). When it is ready it writes its URL to
stdout; it ends cleanly on SIGTERM. It has no users yet, so it listens on
the loopback address only.`,
		Example: `  bellpull server
  bellpull server --listen 127.0.0.1:4333 --store /srv/bellpull`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:4222", "`address` to listen on; port 0 takes a free one")
	flags.StringVar(&o.store, "store", "", "`directory` of the data (default <state>/server)")
	flags.StringVar(&o.level, "log-level", "info", cli.Levels)
	return cmd
}

func (a *app) serve(ctx context.Context, o serverOptions) error {
	host, port, err := loopback(o.listen)
	if err != nil {
		return err
	}
	log, err := cli.Logger("bellpull server", o.level, a.streams.Err)
	if err != nil {
		return err
	}
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	if o.store == "" {
		o.store = filepath.Join(cfg.State, "server")
	}
	// Only the store is private: beside it, below state, lie the data files that Puppet Server reads.
	if err := errors.Join(os.MkdirAll(filepath.Dir(o.store), 0o755), os.MkdirAll(o.store, 0o700)); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	unlock, err := lockStore(o.store)
	if err != nil {
		return err
	}
	defer unlock()

	nats, err := startServer(host, port, o.store, log)
	if err != nil {
		return err
	}
	defer nats.stop()
	url := nats.ClientURL()
	if err := makeBucket(ctx, url, cfg.Bucket, log); err != nil {
		if ctx.Err() != nil { // told to stop before it was ready
			return nil
		}
		return err
	}
	stopKeeping, err := keepPermits(ctx, url, cfg.Bucket, log)
	if err != nil {
		return err
	}
	defer stopKeeping()
	log.Info("ready", "url", url, "bucket", cfg.Bucket, "store", o.store)
	if _, err := fmt.Fprintln(a.streams.Out, url); err != nil {
		return fmt.Errorf("write the URL: %w", err)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
		return nil
	case <-nats.ended:
		return errors.New("the NATS server ended by itself; its log says why")
	}
}

// loopback refuses an address that others can reach: there are no users yet,
// and who reaches the server changes what nodes do.
func loopback(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, cli.Usage(fmt.Errorf("--listen %q: must be an address and a port, such as 127.0.0.1:4222", listen))
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, cli.Usage(fmt.Errorf("--listen %q: %q is no port", listen, text))
	}
	if address, err := netip.ParseAddr(host); err != nil || !address.IsLoopback() {
		return "", 0, cli.Usage(fmt.Errorf("--listen %q: the server has neither TLS nor users yet, so it listens on a loopback address only, such as 127.0.0.1:%d", listen, n))
	}
	if n == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return host, int(n), nil
}

// embedded is a NATS server in this process.
type embedded struct {
	*server.Server
	ended chan struct{} // closed when it has shut down
}

func startServer(host string, port int, store string, log hclog.Logger) (*embedded, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "bellpull", Host: host, Port: port,
		JetStream: true, StoreDir: store,
		SyncAlways: true, // an acknowledged change survives a power cut
		NoSigs:     true, // SIGTERM is this program's to handle
	})
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	fatal := make(chan string, 1)
	srv.SetLoggerV2(&serverLog{log: log.Named("nats"), fatal: fatal}, log.IsDebug(), log.IsTrace(), false)
	s := &embedded{Server: srv, ended: make(chan struct{})}
	srv.Start()
	go func() {
		defer close(s.ended)
		srv.WaitForShutdown()
	}()
	ready := make(chan bool, 1)
	go func() { ready <- srv.ReadyForConnections(serverTimeout) }()
	select {
	case ok := <-ready:
		if ok {
			return s, nil
		}
		err = fmt.Errorf("start NATS: it is not ready after %v", serverTimeout)
	case text := <-fatal:
		err = fmt.Errorf("start NATS: %s", text)
	}
	s.stop()
	return nil, err
}

func (s *embedded) stop() {
	s.Shutdown()
	<-s.ended
}

func makeBucket(ctx context.Context, url, name string, log hclog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{url}, Name: "bellpull server", Bucket: name})
	if err != nil {
		return err
	}
	defer bucket.Close()
	result, err := bucket.Init(ctx, natskv.InitOptions{})
	if errors.Is(err, schemas.ErrConflict) { // somebody's own settings: the bucket may well be usable
		log.Warn("the bucket is not as it should be", "error", err)
		return nil
	}
	if err == nil && result.NewID {
		log.Info("made the bucket", "bucket", name, "id", result.Bucket.ID)
	}
	return err
}

// keepPermits starts a keeper, which works until stop is called.
func keepPermits(ctx context.Context, url, name string, log hclog.Logger) (stop func(), err error) {
	log = log.Named("keeper")
	bucket, err := natskv.Connect(ctx, natskv.Config{Servers: []string{url}, Name: "bellpull server", Bucket: name, Warn: log.Warn})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := keeper.New(keeper.Config{Bucket: bucket, Logger: log}).Run(ctx); err != nil {
			log.Error("permits are not kept any more", "error", err)
		}
	}()
	return func() { cancel(); <-done; bucket.Close() }, nil
}

// serverLog hands what the NATS server says to our log.
type serverLog struct {
	log   hclog.Logger
	fatal chan<- string
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Trace(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }

// Fatalf is called for what the server cannot start with, such as a port that is
// taken. It must not end the process: the store has to be closed.
func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
