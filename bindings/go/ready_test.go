// Waiting for a turn.

package tollgate

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counting counts the questions to a service.
type counting struct {
	Client
	checks atomic.Int64
}

func (c *counting) Check(ctx context.Context, question Question) (*Decision, error) {
	c.checks.Add(1)
	return c.Client.Check(ctx, question)
}

func TestTurnsComeInTheOrderOfArrival(t *testing.T) {
	client := &counting{Client: open(t, start(t, "127.0.0.1:0").resp)}
	waiter, question := NewWaiter(client), On(unique(t), "20/s burst 1 via gcra")
	ctx := within(t, 20*time.Second)
	var mutex sync.Mutex
	var order []int
	var all sync.WaitGroup
	// The first turn is taken, so that all of the others wait before one comes.
	if _, err := waiter.UntilReady(ctx, question); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := 0; i < 30; i++ {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			decision, err := waiter.UntilReady(ctx, question)
			mutex.Lock()
			order = append(order, i)
			mutex.Unlock()
			if err != nil || !decision.Allowed {
				t.Error(decision, err)
			}
		}()
		// The next one arrives once this one is in line, or has had its turn already.
		for waiting := 0; waiting <= i; {
			waiter.mutex.Lock()
			if at := waiter.lines[nameOf(question)]; at != nil {
				waiting = at.count
			}
			waiter.mutex.Unlock()
			mutex.Lock()
			waiting += len(order)
			mutex.Unlock()
			runtime.Gosched()
		}
	}
	all.Wait()
	for i, who := range order {
		if i != who {
			t.Fatal(order)
		}
	}
	if took := time.Since(began); took < 1400*time.Millisecond {
		t.Error("30 turns at 20 a second took", took)
	}
	// One question for a turn, and one more where a wait ends before the limit admits.
	if asked := client.checks.Load(); asked > 70 {
		t.Error(asked, "questions for 30 turns")
	}
	if len(waiter.lines) != 0 {
		t.Error("a line without anybody stays")
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	client := open(t, start(t, "127.0.0.1:0").http)
	waiter, question := NewWaiter(client), On(unique(t), "1/h")
	if _, err := waiter.UntilReady(within(t, 20*time.Second), question); err != nil {
		t.Fatal(err)
	}
	// The first in line waits for the limit, the second for the first.
	var all sync.WaitGroup
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := waiter.UntilReady(ctx, question)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	question.Cost = 2
	if _, err := waiter.UntilReady(within(t, 20*time.Second), question); !errors.Is(err, ErrNever) {
		t.Error(err)
	}
	nobody := NewWaiter(open(t, "http://"+freePort(t)))
	var lost *StoreError
	if _, err := nobody.UntilReady(context.Background(), question); !errors.As(err, &lost) {
		t.Error(err)
	}
}
