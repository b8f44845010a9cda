package natskv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// names makes and reads every stream name, subject and key of one bucket.
// Nothing else in bellpull joins or splits one.
type names struct{ bucket string }

const (
	defaultBucket = "desired"
	maxBucketName = 64
)

// newNames checks the bucket's name, which becomes a part of stream names and
// subjects.
func newNames(bucket string) (names, error) {
	if bucket == "" {
		return names{defaultBucket}, nil
	}
	legal := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}
	if len(bucket) > maxBucketName || strings.TrimFunc(bucket, legal) != "" {
		return names{}, &schemas.InvalidError{What: fmt.Sprintf("bucket %q", bucket), Faults: []schemas.Fault{
			{Message: "is not a bucket name: 1 to 64 characters of A-Z a-z 0-9 _ -"},
		}}
	}
	return names{bucket}, nil
}

// The documents' stream, its subjects, and where it announces changes.
func (n names) stream() string            { return "KV_" + n.bucket }
func (n names) keyPrefix() string         { return "$KV." + n.bucket + "." }
func (n names) subject(key string) string { return n.keyPrefix() + key }
func (n names) changedPrefix() string     { return "bellpull.changed." + n.bucket + "." }
func (n names) changed(key string) string { return n.changedPrefix() + key }

// key is the inverse of subject and of changed.
func (n names) key(subject string) string {
	for _, prefix := range []string{n.keyPrefix(), n.changedPrefix()} {
		if key, ok := strings.CutPrefix(subject, prefix); ok {
			return key
		}
	}
	return ""
}

// lastMessage asks for a key's last message. It is the one request that NATS
// can allow key by key.
func (n names) lastMessage(key string) string {
	return "$JS.API.DIRECT.GET." + n.stream() + "." + n.subject(key)
}

// anyMessage takes the sequence wanted in its body.
func (n names) anyMessage() string { return "$JS.API.DIRECT.GET." + n.stream() }

// The nodes' statuses.
func (n names) statusStream() string { return "BELLPULL_STATUS_" + n.bucket }
func (n names) statuses() string     { return "bellpull.status." + n.bucket + ".>" }

// The permits: the limit, the tokens with their consumer, the key of the handles.
func (n names) permitsStream() string { return "BELLPULL_PERMITS_" + n.bucket }
func (n names) permits() string       { return "bellpull.permits." + n.bucket + ".>" }
func (n names) permitLimit() string   { return "bellpull.permits." + n.bucket + ".limit" }
func (n names) permitKey() string     { return "bellpull.permits." + n.bucket + ".key" }
func (n names) permitTokens() string  { return "bellpull.permits." + n.bucket + ".token.*" }
func (n names) permitToken(id uint64) string {
	return fmt.Sprintf("bellpull.permits.%s.token.%d", n.bucket, id)
}
func (n names) permitConsumer() string { return "permits" }

// tokenID is the inverse of permitToken; 0 is no token.
func (n names) tokenID(subject string) uint64 {
	text, ok := strings.CutPrefix(subject, strings.TrimSuffix(n.permitTokens(), "*"))
	id, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return id
}

// nextToken asks the consumer for a token.
func (n names) nextToken() string {
	return "$JS.API.CONSUMER.MSG.NEXT." + n.permitsStream() + "." + n.permitConsumer()
}

// lastPermitMessage asks for the last message of one of the permits' subjects.
func (n names) lastPermitMessage(subject string) string {
	return "$JS.API.DIRECT.GET." + n.permitsStream() + "." + subject
}

// What a node asks keepers, and what it says of itself. token is [nodeToken].
func (n names) permitRequest(token string) string { return "bellpull.permit." + n.bucket + "." + token }
func (n names) status(token string) string        { return "bellpull.status." + n.bucket + "." + token }

// lastStatus asks for a node's last status.
func (n names) lastStatus(token string) string {
	return "$JS.API.DIRECT.GET." + n.statusStream() + "." + n.status(token)
}

// nodeIn is the certname at the end of a subject that permitRequest or status made.
func (n names) nodeIn(subject string) (string, error) {
	for _, prefix := range []string{n.permitRequest(""), n.status("")} {
		if token, ok := strings.CutPrefix(subject, prefix); ok {
			scope, err := schemas.ScopeFromKey("node." + token)
			if err != nil || strings.Contains(token, ".") {
				break
			}
			return strings.TrimPrefix(string(scope), "node/"), nil
		}
	}
	return "", &schemas.InvalidError{What: fmt.Sprintf("subject %q", subject), Faults: []schemas.Fault{{Message: "ends in no certname"}}}
}

// inbox is the prefix of the subjects on which a node receives replies; its
// credentials allow no other.
func inbox(node string) (string, error) {
	token, err := nodeToken(node)
	return "_INBOX_" + token, err
}

// nodeToken is a certname as one token of a subject: web1/example/com.
func nodeToken(node string) (string, error) {
	scope, err := schemas.ParseScope("node/" + node)
	if err != nil || strings.Contains(node, "/") {
		return "", &schemas.InvalidError{What: fmt.Sprintf("certname %q", node), Faults: []schemas.Fault{
			{Message: "is not a certname: letters, digits and . _ : - only"},
		}}
	}
	return strings.TrimPrefix(scope.Key(), "node."), nil
}
