// The client, whatever protocol it speaks.

package tollgate

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"time"
)

// Client asks a service. Make one for the whole program: it keeps connections, and any number of
// goroutines may use it. Open makes one.
//
// No call is sent twice, since the service may have charged the first one. An answer takes at most
// the time of WithTimeout, and ends earlier when the context does.
type Client interface {
	// Check charges the cost if every limit admits it. A denial is a Decision, not an error.
	Check(ctx context.Context, question Question) (*Decision, error)
	// Peek answers as Check would, or as Kind says, and charges nothing.
	Peek(ctx context.Context, question Question) (*Decision, error)
	// Charge charges without a check, also beyond the limits.
	Charge(ctx context.Context, question Question) ([]Charged, error)
	// Refund gives back what the decision with this receipt charged, once; or these units of it.
	Refund(ctx context.Context, receipt string, units Units) (*Refund, error)
	// Reserve sets the cost aside for TTL, until Commit says what was used.
	Reserve(ctx context.Context, question Question) (*Hold, error)
	// Acquire takes slots of limits such as `20 at once`, until Release.
	Acquire(ctx context.Context, question Question) (*Hold, error)
	// Commit charges what was used of a hold, and gives the rest back. A second one does nothing.
	Commit(ctx context.Context, token string, used Units) (*Settled, error)
	// Renew begins the time of a hold anew; ttl is for units.
	Renew(ctx context.Context, token string, ttl time.Duration) (*Renewed, error)
	// Release gives back what a hold keeps, without a charge.
	Release(ctx context.Context, token string) error
	// Close ends the connections. Calls that are under way fail.
	Close() error
}

// DefaultTimeout is more than the 500 ms that the service gives its store.
const DefaultTimeout = 750 * time.Millisecond

// idleTime is less than the 60 s after which the service closes a connection.
const idleTime = 50 * time.Second

type settings struct {
	timeout     time.Duration
	connections int
	tls         *tls.Config
	http        *http.Client
}

// Option is an option of Open.
type Option func(*settings)

// WithTimeout sets how long a call may take; without it, DefaultTimeout.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithConnections sets how many connections there may be; without it, 64. Over the Redis protocol
// further calls share them, and over HTTP they wait.
func WithConnections(most int) Option {
	return func(s *settings) { s.connections = most }
}

// WithTLS sets the certificates, for https and rediss.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls = config }
}

// WithHTTPClient takes a client of HTTP of yours, with its own connections and certificates.
func WithHTTPClient(client *http.Client) Option {
	return func(s *settings) { s.http = client }
}

// Open makes a client of the service at this URL: http://HOST:PORT or https://HOST:PORT; for the
// Redis protocol (`serve --resp`) redis://[USER:PASSWORD@]HOST:PORT, or rediss:// with TLS. It
// connects at the first call.
func Open(address string, options ...Option) (Client, error) {
	set := settings{timeout: DefaultTimeout, connections: 64}
	for _, option := range options {
		option(&set)
	}
	if set.timeout <= 0 || set.connections <= 0 {
		return nil, wrong("", "a timeout and a number of connections are more than 0")
	}
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return nil, wrong("url", "%.100q is not a URL such as http://127.0.0.1:8700", address)
	}
	switch at.Scheme {
	case "http", "https":
		return newHTTP(at, set), nil
	case "redis", "rediss":
		return newRESP(at, set), nil
	}
	return nil, wrong("url", "%q: use http, https, redis or rediss", at.Scheme)
}
