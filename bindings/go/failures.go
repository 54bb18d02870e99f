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

// failures applies the rule. It says once that the service is lost, and once that it is back.
type failures struct {
	rule Rule
	log  func(string)
	lost atomic.Int64

	mutex sync.Mutex
	last  time.Time
}

func newFailures(rule Rule, log func(string)) (*failures, error) {
	if rule != Allow && rule != Deny {
		return nil, wrong("OnFailure", "%.40q: say whether requests pass (Allow) or get a 503 "+
			"(Deny) while there is no decision", string(rule))
	}
	return &failures{rule: rule, log: log}, nil
}

// happened counts a request without a decision.
func (f *failures) happened(why string) {
	// An error about limits shows their place, over several lines.
	why = strings.Join(strings.Fields(strings.TrimPrefix(why, "no decision: ")), " ")
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.last = time.Now()
	if f.lost.Add(1) == 1 {
		does := "are refused"
		if f.rule == Allow {
			does = "pass"
		}
		f.log(fmt.Sprintf("no decision: %.300s. Requests %s until the service answers", why, does))
	}
}

// answered notes a decision.
func (f *failures) answered() {
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
