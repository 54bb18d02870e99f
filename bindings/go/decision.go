// Decisions and the other answers, read from the fields that both protocols have.

package tollgate

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Decision is the answer to a question.
type Decision struct {
	// Allowed says whether it may go on.
	Allowed bool
	// Outcome is allowed, denied, never, banned, missing, no_policy, unlimited, failed_open or
	// failed_closed.
	Outcome string
	// Authority is who decided: store, policy, ruling, failure_rule and so on.
	Authority string
	// Policy is the name of the policy that decided; empty without one.
	Policy string
	// Limit and Remaining are those of the limit that binds; 0 where none took part.
	Limit, Remaining uint64
	// Unit is what they count: requests, slots or a unit of yours.
	Unit string
	// Granted is how many units were admitted.
	Granted uint64
	// RetryAfter is the wait after a denial; 0 where no wait helps, or nothing was denied.
	RetryAfter time.Duration
	// UntilHold is true where RetryAfter is the longest wait: settling open holds would shorten it.
	UntilHold bool
	// ResetAfter is the time until the limit that binds is fresh.
	ResetAfter time.Duration
	// Binding is the place of that limit in Limits; -1 where none took part.
	Binding int
	Limits  []LimitReport
	// Repeated is true for the first answer under an idempotency key once more.
	Repeated bool
	// Missing is the field that the request lacks.
	Missing string
	// Error is why the store could not answer, where a failure rule decided.
	Error string
	// At is the time of the decision by the clock of the store.
	At time.Time
	// Receipt refunds the charge, where the question asked for it.
	Receipt string
	// Response is what to answer a client of HTTP, where the question asked for it.
	Response *Response
}

// LimitReport is the part of one limit in a decision.
type LimitReport struct {
	Subject, Policy, Identity, Limit, Unit string
	Capacity, Remaining                    uint64
	// RetryAfter is the wait until this limit alone admits: 0 for now.
	RetryAfter time.Duration
	// Never is true where it never admits the cost.
	Never      bool
	ResetAfter time.Duration
	Admits     bool
}

// Response is a response of HTTP. Its body is empty where the request is admitted.
type Response struct {
	Status  int
	Headers []Header
	Body    string
}

// Header is one header of a response.
type Header struct{ Name, Value string }

// Charged is what a charge, or a commit, did to one limit.
type Charged struct {
	Subject, Policy, Identity, Limit string
	// Fits says whether a check would have admitted the units.
	Fits bool
	// Cut is how many units were not charged, since the limit cannot owe them.
	Cut, Remaining         uint64
	RetryAfter, ResetAfter time.Duration
}

// Refund is what a refund gave back.
type Refund struct {
	// Already is true where all of it had been refunded before.
	Already bool
	// Given is by how much each limit's Remaining rose.
	Given []uint64
	// Left can still be refunded.
	Left Units
}

// Hold is the answer to Reserve and Acquire: a decision, and the hold where it was admitted.
type Hold struct {
	Decision
	// Token settles the hold; empty where nothing is held.
	Token string
	// Fence is larger than that of every earlier hold of the count.
	Fence uint64
	// EndsAfter is how long it lasts, unless it is renewed or settled.
	EndsAfter time.Duration
	// Ahead is how many wait in line before this question.
	Ahead uint64
}

// Settled is what a commit did.
type Settled struct {
	// Already is true where it was settled before: nothing was charged now.
	Already bool
	// Actual is what was charged for it.
	Actual Units
	Limits []Charged
}

// Renewed is a hold whose time begins anew.
type Renewed struct {
	Token string
	Fence uint64
	End   time.Time
}

// fields are the fields of an object, as either protocol has them.
type fields map[string]any

func (f fields) text(name string) string {
	text, _ := f[name].(string)
	return text
}

func (f fields) flag(name string) bool {
	is, _ := f[name].(bool)
	return is
}

func (f fields) number(name string) uint64 { return whole(f[name]) }

func (f fields) object(name string) fields { return object(f[name]) }

func (f fields) list(name string) []any {
	list, _ := f[name].([]any)
	return list
}

// wait is a time from now; 0 where there is none.
func (f fields) wait(name string) time.Duration {
	switch seconds := f.object(name)["seconds"].(type) {
	case json.Number:
		number, _ := seconds.Float64()
		return ofSeconds(number)
	case float64:
		return ofSeconds(seconds)
	case int64:
		return ofSeconds(float64(seconds))
	}
	return 0
}

func (f fields) at(name string) time.Time {
	if f[name] == nil {
		return time.Time{}
	}
	return time.UnixMicro(int64(f.number(name)))
}

// units is a number of requests, or an amount of each unit.
func (f fields) units(name string) Units {
	if amounts := f.object(name); amounts != nil {
		units := Units{}
		for unit := range amounts {
			units[unit] = amounts.number(unit)
		}
		return units
	}
	return Units{"requests": f.number(name)}
}

func object(value any) fields {
	switch value := value.(type) {
	case map[string]any:
		return value
	case fields:
		return value
	}
	return nil
}

func whole(value any) uint64 {
	switch value := value.(type) {
	case json.Number:
		number, _ := strconv.ParseUint(value.String(), 10, 64)
		return number
	case int64:
		return uint64(value)
	case float64:
		return uint64(value)
	}
	return 0
}

// ofSeconds is exact to the microsecond, and the longest time for what is beyond it.
func ofSeconds(seconds float64) time.Duration {
	us := math.Round(seconds * 1e6)
	if us >= float64(math.MaxInt64/1000) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

func (f fields) decision() Decision {
	decision := Decision{
		Allowed: f.flag("allowed"), Outcome: f.text("outcome"), Authority: f.text("authority"),
		Policy: f.text("policy"), Limit: f.number("limit"), Remaining: f.number("remaining"),
		Unit: f.text("unit"), Granted: f.number("granted"), RetryAfter: f.wait("retry_after"),
		UntilHold: f.flag("until_hold"), ResetAfter: f.wait("reset_after"), Binding: -1,
		Repeated: f.flag("repeated"), Missing: f.text("missing"), Error: f.text("error"),
		At: f.at("at_us"), Receipt: f.text("receipt"), Response: f.response(),
	}
	if f["binding"] != nil {
		decision.Binding = int(f.number("binding"))
	}
	for _, each := range f.list("limits") {
		limit := object(each)
		decision.Limits = append(decision.Limits, LimitReport{
			Subject: limit.text("subject"), Policy: limit.text("policy"),
			Identity: limit.text("identity"), Limit: limit.text("limit"),
			Unit: limit.text("unit"), Capacity: limit.number("capacity"),
			Remaining: limit.number("remaining"), RetryAfter: limit.wait("retry_after"),
			Never: limit["retry_after"] == nil, ResetAfter: limit.wait("reset_after"),
			Admits: limit.flag("admits"),
		})
	}
	return decision
}

func (f fields) response() *Response {
	read := f.object("response")
	if read == nil {
		return nil
	}
	response := &Response{Status: int(read.number("status")), Body: read.text("body")}
	for _, each := range read.list("headers") {
		header := object(each)
		one := Header{header.text("name"), header.text("value")}
		response.Headers = append(response.Headers, one)
	}
	return response
}

func (f fields) hold() *Hold {
	return &Hold{
		Decision: f.decision(), Token: f.text("hold"), Fence: f.number("fence"),
		EndsAfter: f.wait("ends_after"), Ahead: f.number("ahead"),
	}
}

func (f fields) charged() []Charged {
	var all []Charged
	for _, each := range f.list("limits") {
		limit := object(each)
		all = append(all, Charged{
			Subject: limit.text("subject"), Policy: limit.text("policy"),
			Identity: limit.text("identity"), Limit: limit.text("limit"),
			Fits: limit.flag("fits"), Cut: limit.number("cut"),
			Remaining: limit.number("remaining"), RetryAfter: limit.wait("retry_after"),
			ResetAfter: limit.wait("reset_after"),
		})
	}
	return all
}

func (f fields) refund() *Refund {
	refund := &Refund{Already: f.flag("already"), Left: f.units("left")}
	for _, given := range f.list("given") {
		refund.Given = append(refund.Given, whole(given))
	}
	return refund
}

func (f fields) settled() *Settled {
	return &Settled{Already: f.flag("already"), Actual: f.units("actual"), Limits: f.charged()}
}

func (f fields) renewed() *Renewed {
	return &Renewed{Token: f.text("hold"), Fence: f.number("fence"), End: f.at("end_us")}
}
