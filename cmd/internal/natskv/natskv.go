// Package natskv keeps bellpull's documents in a NATS JetStream bucket. It is
// the only reading and writing package that knows NATS: it speaks scopes,
// documents and the errors of package schemas to everybody else.
//
//   - [Dial] is for one question and its answer, as the fact and the command
//     line ask it; [Connect] is for daemons and comes back by itself.
//   - [Bucket.Read] fetches the documents of some scopes in one round trip,
//     [Bucket.All] all of them; [Bucket.Changes] tells when to read again.
//   - [Bucket.Put] writes one document, if its scope is still at the revision
//     that the writer has seen.
//   - [Bucket.Init] makes the streams, [Bucket.Check] says what differs.
//
// Every call ends by its context's deadline, whatever the server does, or after
// [CallTimeout] where the context has none. Errors match
// [schemas.ErrUnavailable] when NATS gave no answer, refused the credentials or
// has no such bucket; the text says which and what to do. No error or warning
// holds a secret.
package natskv

import (
	"time"
)

// CallTimeout bounds a call whose context has no deadline.
const CallTimeout = 5 * time.Second

// DefaultTimeout is the time for one server to answer a connection attempt.
const DefaultTimeout = time.Second

// Config says where the bucket is and who asks. Its zero value means the bucket
// "desired" on nats://127.0.0.1:4222, without credentials.
type Config struct {
	// Servers are URLs such as tls://nats.example.com:4222, tried in random order.
	Servers []string
	// TLS names PEM files. Any of them set makes TLS a must.
	TLS TLS
	// Creds is the path of a NATS .creds file, NKey that of an nkey seed file. For
	// each, and for TLS.CA, env:NAME is a variable that holds what the file would.
	Creds, NKey string
	// Timeout is the time for one server to accept a connection, handshake
	// included; 0 = [DefaultTimeout].
	Timeout time.Duration
	// Ping is how often a lasting connection asks whether the server is there; one
	// that is silent for two of them is left. 0 = 30 s.
	Ping time.Duration
	// Prompt lets a lasting connection come back within 2 s, for the few that
	// publish. A fleet's connections must not: they would all come at once. Such a
	// connection asks for the bucket's id once a second at most.
	Prompt bool
	// Name is shown in the server's list of connections: "bellpull-fact".
	Name string
	// Node is the certname of the node that asks, "" for everybody else. A node's
	// credentials receive replies below the node's own inbox prefix only.
	Node string
	// Bucket is the bucket's name: 1 to 64 of A-Z a-z 0-9 _ -; "" = "desired".
	Bucket string
	// Warn is told, in a fixed message and key-value pairs, what a daemon's log
	// should hold: lost connections, refused subscriptions. nil = nobody.
	Warn func(msg string, args ...any)
}

// TLS names PEM files: the authority that the server's certificate must come
// from, and the client's own certificate and key.
type TLS struct{ CA, Cert, Key string }
