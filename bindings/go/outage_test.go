// The service killed and started again under load.

package tollgate

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lines are those of a log.
type lines struct {
	mutex sync.Mutex
	all   []string
}

func (l *lines) log(line string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Join(l.all, "\n")
}

// perYear gives nothing back while a test runs.
const perYear = "1000000/300d via fixed_window"

// door is a middleware under load: one for each protocol and rule.
type door struct {
	handler  http.Handler
	subject  string
	lines    lines
	statuses [600]atomic.Int64
}

func (d *door) visit() int {
	status := visit(d.handler, "/", "192.0.2.7:80").Code
	d.statuses[status].Add(1)
	return status
}

// doorsAt are one for each protocol and rule.
func doorsAt(t *testing.T, listen, resp string) map[string]*door {
	doors := map[string]*door{}
	for scheme, address := range map[string]string{"http": listen, "redis": resp} {
		for _, rule := range []Rule{Allow, Deny} {
			d := &door{subject: unique(t)}
			client := open(t, scheme+"://"+address, WithTimeout(2*time.Second))
			d.handler = Middleware(client, Options{
				Limits: perYear, OnFailure: rule, Log: d.lines.log,
				Key: func(*http.Request) string { return d.subject },
			})(hello)
			doors[fmt.Sprint(scheme, " ", rule)] = d
		}
	}
	return doors
}

func TestTheServiceIsKilledAndStartedUnderLoad(t *testing.T) {
	listen, resp := freePort(t), freePort(t)
	store := "sqlite://" + t.TempDir() + "/counts.db"
	options := []string{"--resp", resp, "--store", store}
	s := start(t, listen, options...)
	doors := doorsAt(t, listen, resp)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for _, d := range doors {
		for i := 0; i < 4; i++ {
			d := d
			load.Add(1)
			go func() {
				defer load.Done()
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						d.visit()
					}
				}
			}()
		}
	}
	until := func(what string, is func(*door) bool) {
		t.Helper()
		end := time.Now().Add(20 * time.Second)
		for name, d := range doors {
			for !is(d) {
				if time.Now().After(end) {
					t.Fatalf("%s: %s did not come\n%s\n%s", name, what, d.counts(), d.lines.text())
				}
				time.Sleep(5 * time.Millisecond) // tidy: sleep-ok the load is real
			}
		}
	}
	until("load", func(d *door) bool { return d.statuses[200].Load() > 20 })
	s.kill()
	until("the loss", func(d *door) bool { return strings.Contains(d.lines.text(), "no decision") })
	time.Sleep(300 * time.Millisecond) // tidy: sleep-ok requests go on without the service
	start(t, listen, options...)
	until("the return", func(d *door) bool {
		return strings.Contains(d.lines.text(), "the service answers again")
	})
	close(stop)
	load.Wait()
	isRightAfterwards(t, doors, open(t, "http://"+listen))
}

// isRightAfterwards compares what each door said and answered with its rule.
func isRightAfterwards(t *testing.T, doors map[string]*door, client Client) {
	t.Helper()
	for name, d := range doors {
		d.lines.mutex.Lock()
		if len(d.lines.all) != 2 {
			t.Errorf("%s: %q", name, d.lines.all)
		}
		d.lines.mutex.Unlock()
		for status := range d.statuses {
			isRight := status == 200 || status == 503 && strings.HasSuffix(name, "deny")
			if count := d.statuses[status].Load(); count > 0 && !isRight {
				t.Errorf("%s: %d answers with %d", name, count, status)
			}
		}
		if strings.HasSuffix(name, "deny") && d.statuses[503].Load() == 0 {
			t.Errorf("%s: nobody was refused", name)
		}
		// Counts are right after it: each further request is one.
		ctx := within(t, 20*time.Second)
		before := must[*Decision](t)(client.Peek(ctx, On(d.subject, perYear)))
		for i := 0; i < 10; i++ {
			d.visit()
		}
		after := must[*Decision](t)(client.Peek(ctx, On(d.subject, perYear)))
		if before.Remaining-after.Remaining != 10 {
			t.Errorf("%s: %d were charged", name, before.Remaining-after.Remaining)
		}
	}
}

func TestAStoreThatIsAwayIsAnsweredByTheRule(t *testing.T) {
	s := start(t, "127.0.0.1:0", "--store", "redis://"+freePort(t))
	for name, client := range s.clients(t) {
		for rule, expected := range map[Rule]int{Allow: 200, Deny: 503} {
			var said lines
			h := Middleware(client, Options{Limits: "1/h", OnFailure: rule, Log: said.log})(hello)
			for i := 0; i < 3; i++ {
				answer := visit(h, "/", "192.0.2.7:80")
				if answer.Code != expected {
					t.Error(name, rule, answer.Code)
				}
				if expected == 503 && answer.Header().Get("Retry-After") == "" {
					t.Error(name, answer.Header())
				}
			}
			if text := said.text(); strings.Count(text, "\n") != 0 || text == "" {
				t.Errorf("%s %s: %q", name, rule, text)
			}
		}
	}
}

// counts are the statuses, and how often each came.
func (d *door) counts() string {
	text := ""
	for status := range d.statuses {
		if count := d.statuses[status].Load(); count > 0 {
			text += fmt.Sprint(status, ": ", count, " ")
		}
	}
	return text
}
