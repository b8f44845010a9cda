package puppetserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client speaks to the server as one of its nodes.
type Client struct {
	name string
	base string
	http *http.Client
}

// anonymous is a client without a certificate, which may ask for the status only.
func (s *Server) anonymous() (*Client, error) {
	pool, err := s.pool()
	if err != nil {
		return nil, err
	}
	return s.client("", &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
}

func (s *Server) pool() (*x509.CertPool, error) {
	pem, err := os.ReadFile(s.path("ca/ca_crt.pem"))
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the authority's certificate is none")
	}
	return pool, nil
}

func (s *Server) client(name string, config *tls.Config) *Client {
	// Its Jetty wants the name of the request's host to be the certificate's.
	return &Client{name: name, base: fmt.Sprintf("https://localhost:%d", s.Port), http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: config,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", s.Port))
		},
	}}}
}

// Client speaks as the node, which has to be enrolled.
func (s *Server) Client(a *Agent) (*Client, error) {
	pool, err := s.pool()
	if err != nil {
		return nil, err
	}
	ssl := filepath.Join(a.Dir, "ssldir")
	pair, err := tls.LoadX509KeyPair(filepath.Join(ssl, "certs", a.Name+".pem"), filepath.Join(ssl, "private_keys", a.Name+".pem"))
	if err != nil {
		return nil, fmt.Errorf("load the certificate of %s: %w", a.Name, err)
	}
	return s.client(a.Name, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}), nil
}

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, "", nil)
}

// Catalog has the server compile a catalog of the environment for the node, with
// these facts besides its name, and tells how long the answer took.
func (c *Client) Catalog(ctx context.Context, environment string, facts map[string]any) (catalog Catalog, took time.Duration, err error) {
	values := map[string]any{"clientcert": c.name, "fqdn": c.name, "environment": environment}
	for name, value := range facts {
		values[name] = value
	}
	text, err := json.Marshal(map[string]any{
		"name": c.name, "values": values,
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return Catalog{}, 0, err
	}
	// Facts are encoded twice: the value of a form field is itself URL-encoded JSON.
	form := url.Values{"environment": {environment}, "facts_format": {"application/json"}, "facts": {url.QueryEscape(string(text))}}
	begun := time.Now()
	answer, err := c.do(ctx, http.MethodPost, "/puppet/v3/catalog/"+c.name+"?environment="+url.QueryEscape(environment),
		"application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	took = time.Since(begun)
	if err != nil {
		return Catalog{}, took, err
	}
	return catalog, took, json.Unmarshal(answer, &catalog)
}

// Catalog is what is of interest in a compiled catalog.
type Catalog struct {
	Version   any
	Resources []Resource
}

// Resource is one resource of a catalog.
type Resource struct {
	Type, Title string
	Parameters  map[string]any
}

// Parameter returns a resource's parameter, or nil.
func (c Catalog) Parameter(kind, title, name string) any {
	for _, r := range c.Resources {
		if r.Type == kind && r.Title == title {
			return r.Parameters[name]
		}
	}
	return nil
}

// Forget has the server read all environments anew.
func (c *Client) Forget(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/puppet-admin-api/v1/environment-cache", "", nil)
	return err
}

func (c *Client) do(ctx context.Context, method, path, contentType string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/plain")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}
