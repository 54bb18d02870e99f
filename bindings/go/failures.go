// What happens without a decision, and the two lines about it.

package tollgate

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is how long there is an answer to every question before the service is back: while it
// starts, some have none.
const settleTime = time.Second

// Failures applies a rule to requests without a decision. It says once that the service is lost,
// and once that it is back. Middleware has its own; NewFailures is for interceptors of yours.
type Failures struct {
	rule Rule
	log  func(string)
	lost atomic.Int64

	mutex sync.Mutex
	last  time.Time
}

// NewFailures makes them with a rule, which has no default, and a log of lines.
func NewFailures(rule Rule, log func(string)) (*Failures, error) {
	if rule != Allow && rule != Deny {
		return nil, wrong("OnFailure", "%.40q: say whether requests pass (Allow) or get a 503 "+
			"(Deny) while there is no decision", string(rule))
	}
	return &Failures{rule: rule, log: log}, nil
}

// Rule is the rule.
func (f *Failures) Rule() Rule { return f.rule }

// Lost counts a request without a decision. It is true where the request passes.
func (f *Failures) Lost(why error) bool {
	f.count(why.Error())
	return f.rule == Allow
}

// Heard notes a decision, which may be that the store of the service was away.
func (f *Failures) Heard(decision *Decision) {
	if decision.Authority == "failure_rule" {
		f.count(decision.Error)
		return
	}
	if f.lost.Load() == 0 {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if lost := f.lost.Load(); lost > 0 && time.Since(f.last) >= settleTime {
		f.log(fmt.Sprintf("the service answers again: %d requests had no decision", lost))
		f.lost.Store(0)
	}
}

func (f *Failures) count(why string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.last = time.Now()
	if f.lost.Add(1) > 1 {
		return
	}
	// An error about limits shows their place, over several lines.
	why = strings.Join(strings.Fields(strings.TrimPrefix(why, "no decision: ")), " ")
	does := "are refused"
	if f.rule == Allow {
		does = "pass"
	}
	f.log(fmt.Sprintf("no decision: %.300s. Requests %s until the service answers", why, does))
}
