// A web server in Go that asks `tollgate serve` before each request:
//
//	TOLLGATE_URL=http://127.0.0.1:8700 LISTEN=127.0.0.1:8080 go run middleware/main.go
//
// The policies of the service decide. FAIL=open lets requests through while it does not answer.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

var (
	tollgate = env("TOLLGATE_URL", "http://127.0.0.1:8700")
	// While there is no answer: open lets requests through uncounted, closed refuses them with 503.
	failOpen = env("FAIL", "closed") == "open"
	// More than the 500 ms that the service gives its store.
	deadline = milliseconds(env("DEADLINE_MS", "750"))
	// One client for the whole server: it keeps connections.
	client = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: 50 * time.Second},
	}
)

// Limit serves the requests that the policies admit.
func Limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, answer, err := ask(r)
		if err == nil {
			answer.headers(w.Header())
		}
		switch {
		case err == nil && status == http.StatusOK:
			next.ServeHTTP(w, r)
		case err == nil && status == http.StatusTooManyRequests:
			http.Error(w, "too many requests", status)
		case err == nil:
			// The service does not judge this request, such as a path that can be read in two
			// ways. That is not an outage: nobody gets past a limit by sending one.
			http.Error(w, "bad request", http.StatusBadRequest)
		case failOpen:
			log.Print("uncounted: no answer: ", err)
			next.ServeHTTP(w, r)
		default:
			log.Print("refused: no answer: ", err)
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
}

// answer is the part of an answer that clients see: the numbers of the limit that binds.
type answer struct {
	Limit      *uint64 `json:"limit"`
	Remaining  uint64  `json:"remaining"`
	ResetAfter *wait   `json:"reset_after"`
	RetryAfter *wait   `json:"retry_after"`
}

// wait is a time from now.
type wait struct {
	Seconds float64 `json:"seconds"`
}

// headers tells a client of its limit. A banned client has none, and nobody while the store is away.
func (a answer) headers(h http.Header) {
	seconds := func(w *wait) string { return strconv.FormatInt(int64(math.Ceil(w.Seconds)), 10) }
	reset := a.ResetAfter
	if a.RetryAfter != nil {
		reset = a.RetryAfter
		h.Set("Retry-After", seconds(reset))
	}
	if a.Limit != nil && reset != nil {
		h.Set("X-RateLimit-Limit", strconv.FormatUint(*a.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatUint(a.Remaining, 10))
		h.Set("X-RateLimit-Reset", seconds(reset))
	}
}

// ask returns the status of the answer, and the answer.
func ask(r *http.Request) (int, answer, error) {
	none := answer{}
	// Behind a proxy that you trust, take the address from the header that it writes.
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return 0, none, err
	}
	fields := map[string]string{
		"ip": ip, "method": r.Method, "path": r.URL.EscapedPath(), "host": r.Host,
	}
	body, err := json.Marshal(map[string]any{"fields": fields})
	if err != nil {
		return 0, none, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	url := tollgate + "/v1/check?deny_status=429"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, none, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, none, err
	}
	defer response.Body.Close()
	// A connection is used again only when the whole body was read.
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, none, err
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return 0, none, errors.New(response.Status)
	}
	var said answer
	if err = json.Unmarshal(text, &said); err != nil {
		return 0, none, err
	}
	return response.StatusCode, said, nil
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func milliseconds(text string) time.Duration {
	count, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal("DEADLINE_MS: ", err)
	}
	return time.Duration(count) * time.Millisecond
}

func main() {
	listener, err := net.Listen("tcp", env("LISTEN", "127.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	server := &http.Server{Handler: Limit(pages), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
