package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/service"
)

// defaultListen is where the gateway listens when nothing says otherwise.
const defaultListen = "127.0.0.1:8080"

// Times of the HTTP server. A body's own time is shorter than readTime.
const (
	headerTime   = 5 * time.Second
	readTime     = 20 * time.Second
	writeTime    = 30 * time.Second
	idleTime     = 60 * time.Second
	shutdownTime = 15 * time.Second
	maxHeader    = 16 << 10
	gcPercent    = 300
)

type options struct {
	file, listen, level string
}

// serve works until ctx ends, and then finishes what it has begun.
func serve(ctx context.Context, o options, streams cli.Streams, logger hclog.Logger) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	// What lives long is small, so that it would be collected for every few events.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	cfg, err := config.Load(o.file)
	if err != nil {
		return err
	}
	bucket, err := natskv.Connect(ctx, natskv.Config{
		Servers: cfg.NATS.Servers,
		TLS:     natskv.TLS{CA: cfg.NATS.TLS.CA, Cert: cfg.NATS.TLS.Cert, Key: cfg.NATS.TLS.Key},
		Creds:   cfg.NATS.Creds, NKey: cfg.NATS.NKey, Timeout: cfg.NATS.Timeout,
		Name: "bellpull-gateway", Bucket: cfg.Bucket, Prompt: true, Warn: logger.Warn,
	})
	if err != nil {
		return err
	}
	defer bucket.Close()
	l, err := newLive(o.file, cfg, &store{bucket: bucket}, logger)
	if err != nil {
		return err
	}
	listener, err := listen(o, cfg.Gateway)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: l, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), // clients that break off, and the like
	}
	scheme := "http"
	if cfg.Gateway.TLS.Cert != "" {
		scheme = "https"
		if server.TLSConfig, err = l.tls(cfg.Gateway.TLS); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	url := scheme + "://" + listener.Addr().String()
	logger.Info("ready", "url", url, "bucket", cfg.Bucket, "senders", len(cfg.Gateway.Senders), "routes", len(cfg.Gateway.Routes))
	if _, err := fmt.Fprintln(streams.Out, url); err != nil {
		logger.Warn("the URL was not written", "error", err)
	}
	manager := service.New(logger)
	manager.Ready()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("serve HTTP: %w", err)
		case <-hangups:
			manager.Reloading()
			l.reload()
			manager.Ready()
		case <-ctx.Done():
			manager.Stopping()
			return finish(ctx, server, logger)
		}
	}
}

// finish takes no new requests, and waits for those that were taken.
func finish(ctx context.Context, server *http.Server, logger hclog.Logger) error {
	logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finish what was begun: %w", err)
	}
	return nil
}

func listen(o options, g config.Gateway) (net.Listener, error) {
	address := cmp.Or(o.listen, g.Listen)
	if port := os.Getenv("PORT"); address == "" && port != "" {
		address = ":" + port
	}
	listener, err := net.Listen("tcp", cmp.Or(address, defaultListen))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}
