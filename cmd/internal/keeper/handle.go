package keeper

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// handle is what a permit's handle says: which token, whose, and until when.
type handle struct {
	Ack   string `json:"ack"`   // subject on which the token is renewed and given back
	Node  string `json:"node"`  // certname
	Until int64  `json:"until"` // milliseconds since 1970
}

func (h handle) end() time.Time { return time.UnixMilli(h.Until) }

// seal returns the handle's text: nobody without the key can make or change one.
func (h handle) seal(key []byte) string {
	body, err := json.Marshal(h)
	if err != nil {
		return "" // of strings and a number: cannot fail
	}
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(sign(key, body))
}

var errHandle = errors.New("is no handle of ours")

func openHandle(key []byte, text string) (handle, error) {
	first, second, _ := strings.Cut(text, ".")
	body, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return handle{}, errHandle
	}
	mac, err := base64.RawURLEncoding.DecodeString(second)
	if err != nil || len(key) == 0 || !hmac.Equal(mac, sign(key, body)) {
		return handle{}, errHandle
	}
	var h handle
	if err := json.Unmarshal(body, &h); err != nil {
		return handle{}, errHandle
	}
	return h, nil
}

func sign(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return mac.Sum(nil)
}
