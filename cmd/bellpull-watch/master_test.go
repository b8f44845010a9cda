package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// master stands in for Puppet Server: it answers a real agent's request for a
// catalog with the resources that the test names, and keeps the facts it was sent.
type master struct {
	t         testing.TB
	server    *httptest.Server
	mu        sync.Mutex
	resources func(facts map[string]any) map[string]map[string]any // parameters by Type[title]
}

// newMaster starts the server, and writes a CA and the node's certificate below ssl.
func newMaster(s *site, certname string) *master {
	m := &master{t: s.t}
	now := time.Now()
	caKey := s.key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Puppet CA: test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1},
	}
	caDER := s.sign(ca, ca, &caKey.PublicKey, caKey)
	leaf := func(serial int64, name string) (der []byte, key *ecdsa.PrivateKey) {
		key = s.key()
		return s.sign(&x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
			DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, AuthorityKeyId: []byte{1},
		}, ca, &key.PublicKey, caKey), key
	}
	serverDER, serverKey := leaf(2, "localhost")
	nodeDER, nodeKey := leaf(3, certname)
	nodeKeyDER, err := x509.MarshalECPrivateKey(nodeKey)
	if err != nil {
		s.t.Fatal(err)
	}
	crl, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour)}, ca, caKey)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("ssldir/certs/ca.pem", text("CERTIFICATE", caDER))
	s.write("ssldir/crl.pem", text("X509 CRL", crl))
	s.write("ssldir/certs/"+certname+".pem", text("CERTIFICATE", nodeDER))
	s.write("ssldir/private_keys/"+certname+".pem", text("EC PRIVATE KEY", nodeKeyDER))

	m.server = httptest.NewUnstartedServer(m)
	m.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{serverDER}, PrivateKey: serverKey}}}
	m.server.StartTLS()
	s.t.Cleanup(m.server.Close)
	return m
}

func (s *site) key() *ecdsa.PrivateKey {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

func (s *site) sign(cert, by *x509.Certificate, key *ecdsa.PublicKey, with *ecdsa.PrivateKey) []byte {
	s.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, by, key, with)
	if err != nil {
		s.t.Fatal(err)
	}
	return der
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (m *master) port() string {
	return m.server.URL[strings.LastIndexByte(m.server.URL, ':')+1:]
}

// serve sets what the catalogs to come hold.
func (m *master) serve(resources func(facts map[string]any) map[string]map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resources = resources
}

func (m *master) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/puppet/v3/catalog/") {
		if r.Method != http.MethodPut { // a report is taken; what the node is, nobody knows
			http.NotFound(w, r)
		}
		return
	}
	var facts struct{ Values map[string]any }
	encoded, err := url.QueryUnescape(r.PostFormValue("facts"))
	if err == nil {
		err = json.Unmarshal([]byte(encoded), &facts)
	}
	if err != nil {
		m.t.Errorf("facts: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	type resource = map[string]any
	resources := []resource{
		{"type": "Stage", "title": "main", "tags": []string{"stage"}, "parameters": resource{"name": "main"}},
		{"type": "Class", "title": "main", "tags": []string{"class"}, "parameters": resource{"name": "main"}},
	}
	edges := []map[string]string{{"source": "Stage[main]", "target": "Class[main]"}}
	for name, parameters := range m.resources(facts.Values) {
		kind, title, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		tags := []string{strings.ToLower(kind), "class"}
		if tag, ok := parameters["tag"].(string); ok {
			tags = append(tags, tag)
		}
		resources = append(resources, resource{"type": kind, "title": title, "tags": tags, "exported": false, "parameters": parameters})
		edges = append(edges, map[string]string{"source": "Class[main]", "target": name})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{
		"name": "web1.example.com", "version": time.Now().Unix(), "environment": "production", "catalog_format": 1,
		"catalog_uuid": fmt.Sprint(time.Now().UnixNano()), "tags": []string{}, "classes": []string{}, "resources": resources, "edges": edges,
	}); err != nil {
		m.t.Error(err)
	}
}
