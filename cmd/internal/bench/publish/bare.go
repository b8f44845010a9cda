package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// bare serves the handler that the gateway is compared with. It reads the
// document and writes another one, if nobody else has written since, as the
// gateway does; it authenticates nobody, checks nothing and keeps nothing that
// stands.
//
// POST /set/SCOPE takes the same request, and writes a document of about the same
// size: with the request's body for its value. POST /add/SCOPE/ENTRY brings the
// entry into the document that stands, with a compare-and-set of its own for each
// event.
func bare(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /set/{scope}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		subject := subject(r.PathValue("scope"))
		_, revision, err := get(r.Context(), nc, subject)
		if err == nil {
			_, err = put(r.Context(), nc, subject, fmt.Appendf(nil, `{"bellpull":1,"entries":{"x":{"value":%s}}}`, body), revision)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /add/{scope}/{entry}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := add(r.Context(), nc, subject(r.PathValue("scope")), r.PathValue("entry"), body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(listener)
}

func subject(scope string) string { return "$KV.desired.group." + scope }

// get reads a subject's last message: its body and its sequence, 0 = none.
func get(ctx context.Context, nc *nats.Conn, subject string) ([]byte, uint64, error) {
	m, err := nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.KV_desired."+subject, nil)
	if err != nil {
		return nil, 0, err
	}
	if m.Header.Get("Status") == "404" {
		return nil, 0, nil
	}
	sequence, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return m.Data, sequence, err
}

// put writes if the subject's last message is still expect; written is false else.
func put(ctx context.Context, nc *nats.Conn, subject string, body []byte, expect uint64) (written bool, err error) {
	m := nats.NewMsg(subject)
	m.Data = body
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(expect, 10))
	answer, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return false, err
	}
	switch {
	case strings.Contains(string(answer.Data), `"err_code":10071`):
		return false, nil
	case strings.Contains(string(answer.Data), `"error"`):
		return false, fmt.Errorf("%s", answer.Data)
	}
	return true, nil
}

func add(ctx context.Context, nc *nats.Conn, subject, entry string, value []byte) error {
	for {
		body, revision, err := get(ctx, nc, subject)
		if err != nil {
			return err
		}
		doc := struct {
			Version int                                   `json:"bellpull"`
			Entries map[string]map[string]json.RawMessage `json:"entries"`
		}{Version: 1, Entries: map[string]map[string]json.RawMessage{}}
		if len(body) > 0 {
			if err := json.Unmarshal(body, &doc); err != nil {
				return err
			}
		}
		doc.Entries[entry] = map[string]json.RawMessage{"value": value}
		if body, err = json.Marshal(doc); err != nil {
			return err
		}
		if written, err := put(ctx, nc, subject, body, revision); written || err != nil {
			return err
		}
	}
}
