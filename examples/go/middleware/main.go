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
		status, retryAfter, err := ask(r)
		switch {
		case err == nil && status == http.StatusOK:
			next.ServeHTTP(w, r)
		case err == nil && status == http.StatusTooManyRequests:
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
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

// ask returns the status of the answer, and its Retry-After.
func ask(r *http.Request) (int, string, error) {
	// Behind a proxy that you trust, take the address from the header that it writes.
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return 0, "", err
	}
	fields := map[string]string{
		"ip": ip, "method": r.Method, "path": r.URL.EscapedPath(), "host": r.Host,
	}
	body, err := json.Marshal(map[string]any{"fields": fields})
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	url := tollgate + "/v1/check?deny_status=429"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	// A connection is used again only when the whole body was read.
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return 0, "", err
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return 0, "", errors.New(response.Status)
	}
	return response.StatusCode, response.Header.Get("Retry-After"), nil
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
