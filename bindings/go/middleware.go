// The middleware for net/http.

package tollgate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type decisionKey struct{}

// DecisionFrom is the decision of a request that was admitted; nil where there was none.
func DecisionFrom(ctx context.Context) *Decision {
	decision, _ := ctx.Value(decisionKey{}).(*Decision)
	return decision
}

// Middleware checks each request, and answers those that are not admitted. It panics where an
// option is wrong, as NewMiddleware says without a panic; a request is never the cause of one.
func Middleware(client Client, options Options) func(http.Handler) http.Handler {
	made, err := NewMiddleware(client, options)
	if err != nil {
		panic("tollgate.Middleware: " + err.Error())
	}
	return made
}

// NewMiddleware is Middleware with an error for options that are wrong.
func NewMiddleware(
	client Client, options Options,
) (func(http.Handler) http.Handler, error) {
	l, err := newLimiter(client, options)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.serve(w, r, next)
		})
	}, nil
}

func (l *limiter) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if l.Skip != nil && l.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	question, refusal := l.question(r)
	if refusal != nil {
		l.refuse(w, r, refusal)
		return
	}
	if question == nil {
		next.ServeHTTP(w, r)
		return
	}
	decision, refusal := l.decide(r, *question)
	switch {
	case refusal != nil:
		l.refuse(w, r, refusal)
	case decision == nil && r.Context().Err() != nil:
		// The client has gone, and nobody reads an answer.
	case decision == nil:
		next.ServeHTTP(w, r)
	default:
		l.pass(w, r, next, *question, decision)
	}
}

// question is what to ask about a request: nothing where it is not limited.
func (l *limiter) question(r *http.Request) (*Question, *Refusal) {
	question := Question{Response: l.Headers, Receipt: l.RefundWhen != nil}
	if l.Cost != nil {
		switch question.Cost = l.Cost(r); {
		case question.Cost == 0:
			return nil, nil
		case question.Cost > MaxCost:
			// The largest cost has the same answer: it is above every limit.
			question.Cost = MaxCost
		}
	}
	if l.Units != nil {
		if question.Units = l.Units(r); len(question.Units) == 0 {
			return nil, nil
		}
	}
	if !l.hasLimits() {
		return l.byPolicies(r, question)
	}
	question.OnFailure = l.OnFailure
	parts, refusal := l.parts(r)
	if refusal != nil || len(parts) == 0 {
		return nil, refusal
	}
	limits := l.Limits
	if l.LimitsFor != nil {
		if given := l.LimitsFor(r); given != "" {
			limits = given
		}
	}
	for i := range parts {
		if parts[i].Limits == "" {
			parts[i].Limits = limits
		}
		if err := checkText("subject", parts[i].Subject); err != nil {
			return nil, unreadable400(err)
		}
	}
	question.Parts = parts
	return &question, nil
}

func (l *limiter) parts(r *http.Request) ([]Part, *Refusal) {
	if l.Keys != nil {
		return append([]Part(nil), l.Keys(r)...), nil
	}
	if l.Key != nil {
		return []Part{{Subject: l.Key(r)}}, nil
	}
	subject := l.clients.Subject(r.RemoteAddr, r.Header)
	if subject == "" {
		return nil, unavailable()
	}
	return []Part{{Subject: subject}}, nil
}

// byPolicies describes a request. One without an address has no `ip`: the policy says what then.
func (l *limiter) byPolicies(r *http.Request, question Question) (*Question, *Refusal) {
	described := map[string]string{
		"method": r.Method, "path": r.URL.EscapedPath(), "host": r.Host,
	}
	if address, found := l.clients.Address(r.RemoteAddr, r.Header); found {
		described["ip"] = address.String()
	}
	if l.Fields != nil {
		for name, value := range l.Fields(r) {
			described[name] = value
		}
	}
	question.Policy, question.Fields = l.Policy, described
	if err := question.check(); err != nil {
		return nil, unreadable400(err)
	}
	return &question, nil
}

// decide asks. Neither a decision nor a refusal is a request that passes by the failure rule, or
// whose client has gone.
func (l *limiter) decide(r *http.Request, question Question) (*Decision, *Refusal) {
	decision, err := l.client.Check(r.Context(), question)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, nil
		}
		var argument *ArgumentError
		if errors.As(err, &argument) && l.isOfCaller(argument) {
			return nil, unreadable400(argument)
		}
		if l.failures.Lost(err) {
			return nil, nil
		}
		return nil, unavailable()
	}
	l.failures.Heard(decision)
	if l.OnDecision != nil {
		l.OnDecision(r, decision)
	}
	if decision.Allowed {
		return decision, nil
	}
	refusal := refusalOf(decision)
	refusal.Decision = decision
	return decision, refusal
}

// refusalOf is the response of the service. A Client of yours, as in a test, may have none.
func refusalOf(decision *Decision) *Refusal {
	if decision.Response != nil {
		return &Refusal{Response: *decision.Response}
	}
	switch decision.Outcome {
	case "denied":
		refusal := problem(http.StatusTooManyRequests,
			"https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota exceeded",
			"Ask again later.")
		if wait := decision.RetryAfter; wait > 0 {
			seconds := strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
			refusal.Headers = append(refusal.Headers, Header{"Retry-After", seconds})
		}
		return refusal
	case "never":
		return problem(http.StatusUnprocessableEntity, "about:blank", "Unprocessable Content",
			"This request costs more than its limit: asking for less helps.")
	case "banned":
		return problem(http.StatusForbidden, "about:blank", "Forbidden", "This client is banned.")
	}
	return unavailable()
}

// isOfCaller is true of a mistake of the client, such as a path that servers read differently. Any
// other is one of the set-up, and no client can fix that.
func (l *limiter) isOfCaller(err *ArgumentError) bool {
	if err.Status != http.StatusBadRequest {
		return false
	}
	switch {
	case l.hasLimits():
		return strings.HasSuffix(err.Field, "subject")
	case err.Field != "":
		return strings.HasPrefix(err.Field, "fields")
	}
	// The Redis protocol names no field.
	isOfPolicy := strings.HasPrefix(err.Message, "there is no policy ") ||
		strings.HasPrefix(err.Message, "the policy ")
	return !isOfPolicy
}

// pass serves a request that was admitted.
func (l *limiter) pass(
	w http.ResponseWriter, r *http.Request, next http.Handler,
	question Question, decision *Decision,
) {
	if decision.Response != nil {
		addHeaders(w.Header(), decision.Response.Headers)
	}
	r = r.WithContext(context.WithValue(r.Context(), decisionKey{}, decision))
	if l.RefundWhen == nil && l.ExtraCost == nil {
		next.ServeHTTP(w, r)
		return
	}
	seen := &seenWriter{ResponseWriter: w, status: http.StatusOK}
	next.ServeHTTP(seen, r)
	l.settle(r, seen, question, decision)
}

// settle charges or refunds by the response. Its client may have gone by now.
func (l *limiter) settle(
	r *http.Request, seen *seenWriter, question Question, decision *Decision,
) {
	ctx := context.Background()
	if l.RefundWhen != nil && decision.Receipt != "" &&
		l.RefundWhen(r, seen.status, seen.Header()) {
		if _, err := l.client.Refund(ctx, decision.Receipt, nil); err != nil {
			l.failures.Lost(err)
		}
	}
	if l.ExtraCost == nil || decision.Authority == "failure_rule" {
		return
	}
	if cost := l.ExtraCost(r, seen.status, seen.Header()); cost > 0 {
		extra := Question{Cost: cost, Parts: question.Parts, Policy: question.Policy,
			Fields: question.Fields}
		if cost > MaxCost {
			extra.Cost = MaxCost
		}
		if _, err := l.client.Charge(ctx, extra); err != nil {
			l.failures.Lost(err)
		}
	}
}

// refuse answers a request that was not admitted.
func (l *limiter) refuse(w http.ResponseWriter, r *http.Request, refusal *Refusal) {
	addHeaders(w.Header(), refusal.Headers)
	if l.OnDenied != nil {
		w.Header().Del("Content-Type")
		l.OnDenied(w, r, refusal)
		return
	}
	w.WriteHeader(refusal.Status)
	if r.Method != http.MethodHead {
		// Nobody is left to hear of an error here.
		_, _ = w.Write([]byte(refusal.Body))
	}
}

// unavailable is the response without a decision, as every front of Tollgate writes it.
func unavailable() *Refusal {
	refusal := problem(http.StatusServiceUnavailable,
		"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		"Temporary reduced capacity",
		"Requests cannot be counted at the moment, and are denied until they can.")
	refusal.Headers = append(refusal.Headers, Header{"Retry-After", "1"})
	return refusal
}

// unreadable400 is the response to a request that cannot be judged as it is.
func unreadable400(why error) *Refusal {
	detail := why.Error()
	var argument *ArgumentError
	if errors.As(why, &argument) && argument.Status != 0 {
		detail = argument.Message
	}
	return problem(http.StatusBadRequest, "about:blank", "Bad Request", detail)
}

func problem(status int, kind, title, detail string) *Refusal {
	// Texts and a number are always JSON.
	body, _ := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{kind, title, status, detail})
	headers := []Header{
		{"Content-Type", "application/problem+json"}, {"Cache-Control", "no-store"},
	}
	return &Refusal{Response: Response{Status: status, Headers: headers, Body: string(body)}}
}
