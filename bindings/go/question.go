// Questions, and how they are written in JSON and as words of the Redis protocol.

package tollgate

import (
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxTextBytes is the longest subject, limit or field of a question.
const MaxTextBytes = 1024

// MaxCost is the largest cost: 2^40.
const MaxCost = 1 << 40

// Rule says what happens without a decision.
type Rule string

// The rules.
const (
	// Allow lets requests pass uncounted.
	Allow Rule = "allow"
	// Deny refuses them with a 503.
	Deny Rule = "deny"
)

// Headers are those that tell a client about its limits.
type Headers string

// The headers: those of the draft of the IETF, X-RateLimit-*, all five, or none.
const (
	Draft  Headers = "draft"
	Legacy Headers = "legacy"
	Both   Headers = "both"
	None   Headers = "none"
)

// Units are amounts of each unit, such as {"requests": 1, "tokens": 800}.
type Units map[string]uint64

// Part is one subject with its limits.
type Part struct {
	// Subject is taken literally after its first colon: `user:42`.
	Subject string
	// Limits are written as docs/notation.md says: `10/s, 240/h`.
	Limits string
}

// Question is what is asked: under limits in the call (On), or by the policies of the service.
type Question struct {
	// Parts are subjects with their limits, which are decided together: all, or nothing.
	Parts []Part
	// Policy names the one policy that decides. Without it all that apply decide.
	Policy string
	// Fields describe a request for policies: ip, method, path, host, user, header.NAME and so on.
	Fields map[string]string
	// Cost is the number of requests; 0 is 1.
	Cost uint64
	// Units is the cost where it is not of requests alone.
	Units Units
	// Receipt asks for a receipt, with which Refund gives the charge back.
	Receipt bool
	// OnFailure is for limits in the call: the answer while the store of the service is away.
	// Without it that is Deny.
	OnFailure Rule
	// Deadline is for limits in the call: how long the store may take, 1 ms to 1 min.
	Deadline time.Duration
	// IdempotencyKey makes a second try safe, if counts are on Redis.
	IdempotencyKey string
	// Response asks for the response that the decision stands for, with these headers.
	Response Headers
	// Kind is what a Peek looks ahead to: `check`, `reserve` or `acquire`.
	Kind string
	// TTL is how long a Reserve holds.
	TTL time.Duration
	// ChargeAtEnd charges the estimate of a Reserve when its time ends.
	ChargeAtEnd bool
	// ID is the caller's own id of a hold, a new one for each.
	ID string
	// Waiting says that the caller asks again where it is denied: `again`, or `in_line` for holds.
	// The service takes it with `--caller-waiting on`.
	Waiting string
}

// On is a question about one subject under limits.
func On(subject, limits string) Question {
	return Question{Parts: []Part{{subject, limits}}}
}

// By is a question by policies, about a request with these fields.
func By(fields map[string]string) Question {
	return Question{Fields: fields}
}

// check refuses what the service would refuse, or what JSON would change on the way.
func (q *Question) check() error {
	byPolicies := q.Fields != nil || q.Policy != ""
	if byPolicies == (len(q.Parts) > 0) {
		return wrong("", "set either Parts, as On does, or Fields and Policy, as By does")
	}
	for _, part := range q.Parts {
		if err := checkText("subject", part.Subject); err != nil {
			return err
		}
		if err := checkText("limit", part.Limits); err != nil {
			return err
		}
	}
	for name, value := range q.Fields {
		if len(value) > MaxTextBytes || !utf8.ValidString(value) {
			return badText("fields."+name, value)
		}
	}
	if q.Cost > MaxCost {
		return wrong("cost", "%d is above the largest cost, 2^40", q.Cost)
	}
	return nil
}

func checkText(field, text string) error {
	if text == "" {
		return wrong(field, "it is empty")
	}
	if len(text) > MaxTextBytes || !utf8.ValidString(text) {
		return badText(field, text)
	}
	return nil
}

func badText(field, text string) error {
	if len(text) > MaxTextBytes {
		return wrong(field, "it has %d bytes: at most %d", len(text), MaxTextBytes)
	}
	return wrong(field, "it is not UTF-8")
}

// body is the question in JSON.
func (q *Question) body() map[string]any {
	body := map[string]any{}
	put := func(name, text string) {
		if text != "" {
			body[name] = text
		}
	}
	switch {
	case len(q.Parts) == 1:
		body["subject"], body["limit"] = q.Parts[0].Subject, q.Parts[0].Limits
	case len(q.Parts) > 1:
		on := make([]map[string]string, len(q.Parts))
		for i, part := range q.Parts {
			on[i] = map[string]string{"subject": part.Subject, "limit": part.Limits}
		}
		body["on"] = on
	default:
		put("policy", q.Policy)
		if q.Fields != nil {
			body["fields"] = q.Fields
		}
	}
	if q.Units != nil {
		body["cost"] = q.Units
	} else if q.Cost > 1 {
		body["cost"] = q.Cost
	}
	if q.Receipt {
		body["receipt"] = true
	}
	put("on_failure", string(q.OnFailure))
	if q.Deadline > 0 {
		body["deadline"] = milliseconds(q.Deadline) + "ms"
	}
	put("idempotency_key", q.IdempotencyKey)
	put("response", string(q.Response))
	put("kind", q.Kind)
	put("id", q.ID)
	put("waiting", q.Waiting)
	return body
}

// words are the subjects and limits, or the policy and fields, as words of RESP.
func (q *Question) words() []string {
	var words []string
	for i, part := range q.Parts {
		if i > 0 {
			words = append(words, "AND")
		}
		words = append(words, part.Subject, part.Limits)
	}
	if len(q.Parts) == 0 {
		policy := q.Policy
		if policy == "" {
			policy = "*"
		}
		words = append(words, policy)
		names := make([]string, 0, len(q.Fields))
		for name := range q.Fields {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			words = append(words, name, q.Fields[name])
		}
	}
	return words
}

// options are the rest of the question as words of RESP.
func (q *Question) options() []string {
	var words []string
	put := func(name, text string) {
		if text != "" {
			words = append(words, name, text)
		}
	}
	if q.Units != nil {
		put("COST", q.Units.word())
	} else if q.Cost > 1 {
		put("COST", strconv.FormatUint(q.Cost, 10))
	}
	put("ONFAILURE", string(q.OnFailure))
	if q.Deadline > 0 {
		put("DEADLINE", milliseconds(q.Deadline))
	}
	put("ID", q.IdempotencyKey+q.ID)
	put("RESPONSE", string(q.Response))
	put("KIND", q.Kind)
	put("WAITING", q.Waiting)
	if q.Receipt {
		words = append(words, "RECEIPT")
	}
	return words
}

// word is the cost as the Redis protocol takes it: `requests=1,tokens=800`.
func (u Units) word() string {
	if requests, only := u["requests"]; only && len(u) == 1 {
		return strconv.FormatUint(requests, 10)
	}
	names := make([]string, 0, len(u))
	for name := range u {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		names[i] = name + "=" + strconv.FormatUint(u[name], 10)
	}
	return strings.Join(names, ",")
}

// milliseconds is a time as the service takes it, rounded up.
func milliseconds(wait time.Duration) string {
	return strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}
