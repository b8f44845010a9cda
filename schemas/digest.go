package schemas

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// DigestKeySize is the size of a node's digest key, in bytes.
const DigestKeySize = 32

// Digester makes the digests by which a node tells whether an entry's data is
// equal. They are keyed, with a key that never leaves the node, so that a digest
// on disk does not give a short secret away.
type Digester struct{ key [DigestKeySize]byte }

// NewDigester returns a digester; key has [DigestKeySize] random bytes.
func NewDigester(key [DigestKeySize]byte) Digester { return Digester{key: key} }

// Entry returns the digest of what counts as an entry's data: its value and
// whether it is sensitive. Event, time and expiry do not count.
func (d Digester) Entry(e Entry) string {
	mac := hmac.New(sha256.New, d.key[:])
	if e.Sensitive {
		mac.Write([]byte("sensitive\n"))
	} else {
		mac.Write([]byte("plain\n"))
	}
	mac.Write([]byte(e.Value))
	return "h1:" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

// Entries returns the digests of the document's entries that are live at now, by name.
func (d Digester) Entries(doc Document, now time.Time) map[string]string {
	out := map[string]string{}
	for name, e := range doc.Live(now) {
		out[name] = d.Entry(e)
	}
	return out
}
