// The client over HTTP.

package tollgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswerBytes is far above the longest answer: that of a question with 1,024 limits.
const maxAnswerBytes = 8 << 20

type httpClient struct {
	base    string
	timeout time.Duration
	client  *http.Client
}

func newHTTP(at *url.URL, set settings) Client {
	client := set.http
	if client == nil {
		client = &http.Client{
			Transport: &http.Transport{
				MaxIdleConnsPerHost: set.connections,
				MaxConnsPerHost:     set.connections,
				IdleConnTimeout:     idleTime,
				TLSClientConfig:     set.tls,
			},
			// An answer comes from the service, and from nobody that it names.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		}
	}
	base := at.Scheme + "://" + at.Host + strings.TrimSuffix(at.Path, "/")
	return &httpClient{base, set.timeout, client}
}

func (c *httpClient) Check(ctx context.Context, question Question) (*Decision, error) {
	return c.decide(ctx, "/v1/check", question, true)
}

func (c *httpClient) Peek(ctx context.Context, question Question) (*Decision, error) {
	return c.decide(ctx, "/v1/peek", question, false)
}

func (c *httpClient) decide(
	ctx context.Context, path string, question Question, charges bool,
) (*Decision, error) {
	answer, err := c.ask(ctx, path, &question, nil, charges)
	if err != nil {
		return nil, err
	}
	decision := answer.decision()
	return &decision, nil
}

func (c *httpClient) Charge(ctx context.Context, question Question) ([]Charged, error) {
	answer, err := c.ask(ctx, "/v1/charge", &question, nil, true)
	if err != nil {
		return nil, err
	}
	return answer.charged(), nil
}

func (c *httpClient) Refund(ctx context.Context, receipt string, units Units) (*Refund, error) {
	body := map[string]any{"receipt": receipt}
	if units != nil {
		body["units"] = units
	}
	answer, err := c.send(ctx, "/v1/refund", body, true)
	if err != nil {
		return nil, err
	}
	return answer.refund(), nil
}

func (c *httpClient) Reserve(ctx context.Context, question Question) (*Hold, error) {
	more := map[string]any{}
	if question.TTL > 0 {
		more["ttl"] = milliseconds(question.TTL) + "ms"
	}
	if question.ChargeAtEnd {
		more["at_end"] = "charge"
	}
	return c.hold(ctx, "/v1/reserve", question, more)
}

func (c *httpClient) Acquire(ctx context.Context, question Question) (*Hold, error) {
	return c.hold(ctx, "/v1/acquire", question, nil)
}

func (c *httpClient) hold(
	ctx context.Context, path string, question Question, more map[string]any,
) (*Hold, error) {
	answer, err := c.ask(ctx, path, &question, more, true)
	if err != nil {
		return nil, err
	}
	return answer.hold(), nil
}

func (c *httpClient) Commit(ctx context.Context, token string, used Units) (*Settled, error) {
	answer, err := c.send(ctx, "/v1/commit", map[string]any{"hold": token, "actual": used}, true)
	if err != nil {
		return nil, err
	}
	return answer.settled(), nil
}

func (c *httpClient) Renew(
	ctx context.Context, token string, ttl time.Duration,
) (*Renewed, error) {
	body := map[string]any{"hold": token}
	if ttl > 0 {
		body["ttl"] = milliseconds(ttl) + "ms"
	}
	answer, err := c.send(ctx, "/v1/renew", body, true)
	if err != nil {
		return nil, err
	}
	return answer.renewed(), nil
}

func (c *httpClient) Release(ctx context.Context, token string) error {
	_, err := c.send(ctx, "/v1/release", map[string]any{"hold": token}, true)
	return err
}

func (c *httpClient) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

func (c *httpClient) ask(
	ctx context.Context, path string, question *Question, more map[string]any, charges bool,
) (fields, error) {
	if err := question.check(); err != nil {
		return nil, err
	}
	body := question.body()
	for name, value := range more {
		body[name] = value
	}
	return c.send(ctx, path, body, charges)
}

// send returns the fields of the answer. With charges a lost answer may have been a charge.
func (c *httpClient) send(
	ctx context.Context, path string, body map[string]any, charges bool,
) (fields, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// The body of a POST is sent once: Go repeats no request that may have been read.
	request, err := http.NewRequestWithContext(
		ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, wrong("url", "%v", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, lost(err, charges)
	}
	defer response.Body.Close()
	// A connection is used again only when the whole body was read.
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, lost(err, charges)
	}
	answer := fields{}
	decoder := json.NewDecoder(bytes.NewReader(read))
	decoder.UseNumber()
	notJSON := decoder.Decode(&answer)
	if response.StatusCode != http.StatusOK {
		return nil, ofStatus(response.StatusCode, answer, charges)
	}
	if notJSON != nil {
		return nil, lost(fmt.Errorf("this is not an answer of Tollgate: %w", notJSON), charges)
	}
	return answer, nil
}

// lost is the error of a call that got no answer.
func lost(err error, charges bool) error {
	// Where nothing could be dialled, nothing was asked.
	var dial *net.OpError
	unsent := errors.As(err, &dial) && dial.Op == "dial"
	return &StoreError{Transient: true, Ambiguous: charges && !unsent, Err: err}
}
