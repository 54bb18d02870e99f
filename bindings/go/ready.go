// Waiting for a turn.

package tollgate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrNever is the error of a wait that would not help: the cost is above a limit, the client is
// banned, or the request lacks a field.
var ErrNever = errors.New("waiting does not help")

// Waiter waits until a question is admitted. Those who wait for the same subjects in one program
// have their turns in the order of their arrival, and only the first of them asks the service.
type Waiter struct {
	client Client
	mutex  sync.Mutex
	lines  map[string]*line
}

// line is those who wait for the same subjects: the turn of the last one, and how many there are.
type line struct {
	last  chan struct{}
	count int
}

// NewWaiter makes one for a client. All that should be in one line take the same.
func NewWaiter(client Client) *Waiter {
	return &Waiter{client: client, lines: map[string]*line{}}
}

// UntilReady returns when the question was admitted and charged, or when the context ends. The
// error is ErrNever where no wait helps, and a StoreError where there is no decision.
func (w *Waiter) UntilReady(ctx context.Context, question Question) (*Decision, error) {
	name := nameOf(question)
	before, mine := w.join(name)
	select {
	case <-before:
	case <-ctx.Done():
		// Those behind have their turn after those ahead.
		go func() {
			<-before
			w.leave(name, mine)
		}()
		return nil, ctx.Err()
	}
	defer w.leave(name, mine)
	return w.turn(ctx, question)
}

// turn asks until the question is admitted. Nobody else of its line asks meanwhile.
func (w *Waiter) turn(ctx context.Context, question Question) (*Decision, error) {
	for {
		decision, err := w.client.Check(ctx, question)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case decision.Allowed:
			return decision, nil
		case decision.Authority == "failure_rule":
			err := errors.New(decision.Error)
			return decision, &StoreError{Transient: true, Err: err}
		case decision.RetryAfter == 0:
			return decision, ErrNever
		}
		timer := time.NewTimer(decision.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return decision, ctx.Err()
		}
	}
}

// join takes a place: the turn of the one before, and one's own, which ends it for the next.
func (w *Waiter) join(name string) (before, mine chan struct{}) {
	mine = make(chan struct{})
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at := w.lines[name]
	if at == nil {
		first := make(chan struct{})
		close(first)
		at = &line{last: first}
		w.lines[name] = at
	}
	before, at.last = at.last, mine
	at.count++
	return before, mine
}

func (w *Waiter) leave(name string, mine chan struct{}) {
	close(mine)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at := w.lines[name]
	if at.count--; at.count == 0 {
		delete(w.lines, name)
	}
}

// nameOf is the same for questions about the same subjects.
func nameOf(question Question) string {
	name := ""
	for _, word := range question.words() {
		name += word + "\x00"
	}
	return name
}
