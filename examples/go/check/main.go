// Asks `tollgate serve` over HTTP, with Go's standard library alone:
//
//	TOLLGATE_URL=http://127.0.0.1:8700 go run check/main.go user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// One client for the whole program: it keeps connections. Of idle ones Go keeps two for each host,
// too few for many checks at once. The service closes idle ones after 60 s.
var client = &http.Client{
	Transport: &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: 50 * time.Second},
}

// Answer has the fields of an answer that this program reads.
type Answer struct {
	Allowed   bool   `json:"allowed"`
	Limit     uint64 `json:"limit"`
	Remaining uint64 `json:"remaining"`
	// RetryAfter is nil on a denial when no wait would help.
	RetryAfter *struct {
		Seconds float64 `json:"seconds"`
	} `json:"retry_after"`
}

// Check charges one unit to the count of the subject when the limit admits it.
func Check(ctx context.Context, url, subject, limit string) (answer Answer, err error) {
	body, err := json.Marshal(map[string]string{"subject": subject, "limit": limit})
	if err != nil {
		return answer, err
	}
	url += "/v1/check"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	// Go sends no POST a second time once it was written, so nothing is charged twice.
	response, err := client.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	// A connection is used again only when the whole body was read.
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	// A denial is a 200. Anything else is a mistake in the question, or no answer.
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: %s", response.Status, text)
	}
	return answer, json.Unmarshal(text, &answer)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check SUBJECT")
		os.Exit(2)
	}
	url := os.Getenv("TOLLGATE_URL")
	if url == "" {
		url = "http://127.0.0.1:8700"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := Check(ctx, url, os.Args[1], "3/h")
	switch {
	case err != nil:
		// Here the caller decides: to go on uncounted, or not to.
		fmt.Fprintln(os.Stderr, "no answer:", err)
		os.Exit(2)
	case answer.Allowed:
		fmt.Printf("admitted: %d of %d remain\n", answer.Remaining, answer.Limit)
	case answer.RetryAfter == nil:
		fmt.Println("denied: no wait would help")
		os.Exit(1)
	default:
		fmt.Printf("denied: retry in %.0f s\n", answer.RetryAfter.Seconds)
		os.Exit(1)
	}
}
