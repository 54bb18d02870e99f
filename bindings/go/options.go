// The options of the middleware.

package tollgate

import (
	"log"
	"net/http"
)

// Options are those of Middleware. OnFailure is required. With Limits or Keys the limits are in
// your program; without them the policies of the service decide.
type Options struct {
	// OnFailure says what happens while there is no decision: Allow or Deny.
	OnFailure Rule

	// Limits of each subject: `100/m, 1000/h`. A limit with a name, `api: 100/m`, counts by itself,
	// and headers show the name.
	Limits string
	// LimitsFor gives the limits of a request, as of a tenant; without a text, Limits.
	LimitsFor func(*http.Request) string
	// Key is the subject of a request: `user:42`. A request without one gets a 400. Without Key it
	// is the client's address.
	Key func(*http.Request) string
	// Keys gives several subjects, which are decided together: all or nothing. A part without
	// limits has Limits; no part is no limit.
	Keys func(*http.Request) []Part
	// Client says how the client's address is found.
	Client ClientAddress

	// Policy names the one policy of the service that decides; without it all that apply.
	Policy string
	// Fields gives what policies compare and count beside ip, method, path and host: user, api_key,
	// route, header.NAME, field.NAME.
	Fields func(*http.Request) map[string]string

	// Cost is that of a request; 0 is no limit. Without Cost it is 1, or that of the policies.
	Cost func(*http.Request) uint64
	// Units is the cost as an amount of each unit, in place of Cost; none is no limit.
	Units func(*http.Request) Units
	// Skip is true of requests that are not limited.
	Skip func(*http.Request) bool
	// Headers tell a client about its limits; Draft without it.
	Headers Headers
	// OnDenied answers a request in place of the default. The headers of the refusal are set.
	OnDenied func(http.ResponseWriter, *http.Request, *Refusal)
	// OnDecision hears of each decision: for counts and logs.
	OnDecision func(*http.Request, *Decision)
	// RefundWhen is true of responses whose charge is given back.
	RefundWhen func(r *http.Request, status int, header http.Header) bool
	// ExtraCost is charged in addition after the response, also beyond the limits.
	ExtraCost func(r *http.Request, status int, header http.Header) uint64
	// Log gets one line when the service is lost, one when it is back, and each likely mistake
	// once; log.Print without it.
	Log func(string)
}

// Refusal is the response to a request that was not admitted: 429, 422, 403, 400 or 503.
type Refusal struct {
	Response
	// Decision is nil where there is none.
	Decision *Decision
}

type limiter struct {
	Options
	client   Client
	clients  *Clients
	failures *Failures
}

func newLimiter(client Client, options Options) (*limiter, error) {
	if client == nil {
		return nil, wrong("client", "it is nil: Open makes one")
	}
	if options.Log == nil {
		options.Log = func(line string) { log.Print("tollgate: ", line) }
	}
	if options.Headers == "" {
		options.Headers = Draft
	}
	switch options.Headers {
	case Draft, Legacy, Both, None:
	default:
		return nil, wrong("Headers", "%.40q: give Draft, Legacy, Both or None", options.Headers)
	}
	l := &limiter{Options: options, client: client}
	if err := l.refuseMixed(); err != nil {
		return nil, err
	}
	var err error
	if l.clients, err = options.Client.Clients(options.Log); err != nil {
		return nil, err
	}
	l.failures, err = NewFailures(options.OnFailure, options.Log)
	return l, err
}

// hasLimits is true where the limits are in the program.
func (l *limiter) hasLimits() bool {
	return l.Limits != "" || l.LimitsFor != nil || l.Keys != nil
}

// refuseMixed refuses options that would have no effect.
func (l *limiter) refuseMixed() error {
	switch {
	case l.hasLimits() && (l.Policy != "" || l.Fields != nil):
		return wrong("Policy", "policies have their own limits: leave Policy and Fields out, or "+
			"Limits, LimitsFor and Keys")
	case !l.hasLimits() && l.Key != nil:
		return wrong("Key", "policies count by fields: give Fields, such as user, or Limits")
	case l.Cost != nil && l.Units != nil:
		return wrong("Units", "it gives the whole cost: leave Cost out")
	case l.Key != nil && l.Keys != nil:
		return wrong("Keys", "it gives all subjects: leave Key out")
	case len(l.Limits) > MaxTextBytes:
		return wrong("Limits", "they have %d bytes: at most %d", len(l.Limits), MaxTextBytes)
	}
	return nil
}
