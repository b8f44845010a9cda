package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret is the largest file of secrets, in bytes.
const maxSecret = 64 << 10

// readSecret returns what env:NAME or file:PATH holds, without the line end that
// editors leave. No error shows any of it.
func readSecret(ref string) (string, error) {
	sort, place, err := splitRef(ref)
	if err != nil {
		return "", err
	}
	var text string
	switch sort {
	case "env":
		text = os.Getenv(place)
	default:
		f, err := os.Open(place)
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		defer f.Close()
		all, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		if len(all) > maxSecret {
			return "", fmt.Errorf("%s: has more than %d bytes", ref, maxSecret)
		}
		text = string(all)
	}
	if text = strings.TrimRight(text, "\r\n"); strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("%s: is empty or not set", ref)
	}
	return text, nil
}

// splitRef parts env:NAME and file:PATH.
func splitRef(ref string) (sort, place string, err error) {
	sort, place, _ = strings.Cut(ref, ":")
	if place == "" || sort != "env" && sort != "file" {
		return "", "", errors.New("must be env:NAME or file:PATH; a secret itself does not belong here")
	}
	return sort, place, nil
}

// hashPrefix begins the hash of a token.
const hashPrefix = "sha256:"

// HashToken returns what stands for a bearer token in the configuration. The
// token must be random: SHA-256 does not protect what can be guessed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// tokenHash is the SHA-256 of a bearer token.
type tokenHash [sha256.Size]byte

// readHashes reads hashes from the configuration itself, or from where it points:
// several are parted by blanks or line ends, and # begins a comment line.
func readHashes(ref string) ([]tokenHash, error) {
	text := ref
	if !strings.HasPrefix(ref, hashPrefix) {
		var err error
		if text, err = readSecret(ref); err != nil {
			return nil, err
		}
	}
	var hashes []tokenHash
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, word := range strings.Fields(line) {
			digits, ok := strings.CutPrefix(word, hashPrefix)
			sum, err := hex.DecodeString(digits)
			if !ok || err != nil || len(sum) != sha256.Size {
				return nil, errors.New("must hold hashes, sha256: and 64 hexadecimal digits, as `bellpull-gateway token` makes them")
			}
			hashes = append(hashes, tokenHash(sum))
		}
	}
	if len(hashes) == 0 {
		return nil, errors.New("holds no hash")
	}
	return hashes, nil
}

func (h tokenHash) is(sum [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(sum[:], h[:]) == 1
}

// hubSignature reports whether header is GitHub's X-Hub-Signature-256 for body.
// Digits may be upper-case.
func hubSignature(header, secret string, body []byte) bool {
	digits, ok := strings.CutPrefix(header, "sha256=")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), sum)
}
