// Both protocols, asked the same.

package tollgate

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// with runs a test with a client of each protocol.
func with(t *testing.T, test func(t *testing.T, client Client), options ...string) {
	t.Helper()
	s := start(t, "127.0.0.1:0", options...)
	for name, client := range s.clients(t) {
		client := client
		t.Run(name, func(t *testing.T) { test(t, client) })
	}
}

func TestACheckIsADecision(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx, subject := within(t, 20*time.Second), unique(t)
		question := On(subject, "3/h via gcra")
		question.Cost = 2
		first := must[*Decision](t)(client.Check(ctx, question))
		if !first.Allowed || first.Outcome != "allowed" || first.Authority != "store" ||
			first.Limit != 3 || first.Remaining != 1 || first.Granted != 2 ||
			first.Unit != "requests" || first.ResetAfter != 40*time.Minute || first.Binding != 0 ||
			first.Response != nil || first.Receipt != "" || time.Since(first.At) > time.Minute {
			t.Errorf("%+v", first)
		}
		if len(first.Limits) != 1 || first.Limits[0].Subject == "" ||
			first.Limits[0].Identity != "gcra/1h" || !first.Limits[0].Admits {
			t.Errorf("%+v", first.Limits)
		}
		denied := must[*Decision](t)(client.Check(ctx, question))
		if denied.Allowed || denied.Outcome != "denied" || denied.Granted != 0 ||
			denied.RetryAfter < 19*time.Minute || denied.RetryAfter > 20*time.Minute {
			t.Errorf("%+v", denied)
		}
		question.Cost = 4
		never := must[*Decision](t)(client.Check(ctx, question))
		if never.Outcome != "never" || never.RetryAfter != 0 || !never.Limits[0].Never {
			t.Errorf("%+v", never)
		}
		question.Cost = 1
		peek := must[*Decision](t)(client.Peek(ctx, question))
		if !peek.Allowed || peek.Remaining != 1 {
			t.Errorf("a peek: %+v", peek)
		}
	})
}

func TestSeveralSubjectsAreAllOrNothing(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx, one, other := within(t, 20*time.Second), unique(t), unique(t)
		both := Question{Parts: []Part{{one, "1/h"}, {other, "5/h, 9/d"}}}
		first := must[*Decision](t)(client.Check(ctx, both))
		second := must[*Decision](t)(client.Check(ctx, both))
		alone := must[*Decision](t)(client.Check(ctx, On(other, "5/h, 9/d")))
		if !first.Allowed || len(first.Limits) != 3 || second.Allowed || alone.Remaining != 3 {
			t.Error(first, second, alone)
		}
	})
}

func TestPoliciesDecide(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx := within(t, 20*time.Second)
		question := By(map[string]string{"ip": "192.0.2." + map[string]string{
			"TestPoliciesDecide/http": "1", "TestPoliciesDecide/resp": "2"}[t.Name()]})
		question.Cost, question.Response = 10, Both
		first := must[*Decision](t)(client.Check(ctx, question))
		second := must[*Decision](t)(client.Check(ctx, question))
		if !first.Allowed || first.Policy != "demo" || first.Response.Status != 200 ||
			len(first.Response.Headers) != 5 {
			t.Errorf("%+v", first)
		}
		if second.Allowed || second.Response.Status != 429 || second.Response.Body == "" {
			t.Errorf("%+v", second)
		}
		missing := must[*Decision](t)(client.Peek(ctx, By(map[string]string{"user": "ann"})))
		if missing.Outcome != "missing" || missing.Missing != "ip" || missing.Binding != -1 {
			t.Errorf("%+v", missing)
		}
	})
}

func TestChargesAndRefunds(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx, question := within(t, 20*time.Second), On(unique(t), "9/h, 100/h of tokens via gcra")
		question.Units, question.Receipt = Units{"requests": 1, "tokens": 60}, true
		charged := must[*Decision](t)(client.Check(ctx, question))
		part := must[*Refund](t)(client.Refund(ctx, charged.Receipt, Units{"tokens": 50}))
		if part.Already || part.Left["tokens"] != 10 || part.Left["requests"] != 1 {
			t.Errorf("%+v", part)
		}
		question.Receipt, question.Units = false, Units{"tokens": 95}
		beyond := must[[]Charged](t)(client.Charge(ctx, question))
		if len(beyond) != 2 || beyond[1].Fits || beyond[1].Remaining != 0 {
			t.Errorf("%+v", beyond)
		}
		_, err := client.Refund(ctx, "no receipt", nil)
		var argument *ArgumentError
		if !errors.As(err, &argument) {
			t.Error(err)
		}
	})
}

func TestHoldsAreSettledOnce(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx, question := within(t, 20*time.Second), On(unique(t), "100/h")
		question.Cost, question.TTL = 80, time.Minute
		hold := must[*Hold](t)(client.Reserve(ctx, question))
		if !hold.Allowed || hold.Token == "" || hold.Fence == 0 || hold.EndsAfter != time.Minute {
			t.Errorf("%+v", hold)
		}
		renewed := must[*Renewed](t)(client.Renew(ctx, hold.Token, 2*time.Minute))
		if time.Until(renewed.End) < 90*time.Second {
			t.Errorf("%+v", renewed)
		}
		settled := must[*Settled](t)(client.Commit(ctx, renewed.Token, Units{"requests": 30}))
		if settled.Already || settled.Actual["requests"] != 30 ||
			settled.Limits[0].Remaining != 70 {
			t.Errorf("%+v", settled)
		}
		again := must[*Settled](t)(client.Commit(ctx, renewed.Token, Units{"requests": 30}))
		if !again.Already {
			t.Errorf("%+v", again)
		}
		slots := On(unique(t), "1 at once hold 30s")
		slot := must[*Hold](t)(client.Acquire(ctx, slots))
		denied := must[*Hold](t)(client.Acquire(ctx, slots))
		if denied.Allowed || denied.Token != "" || !denied.UntilHold {
			t.Errorf("%+v", denied)
		}
		if err := client.Release(ctx, slot.Token); err != nil {
			t.Error(err)
		}
		_, err := client.Renew(ctx, slot.Token, 0)
		var gone *HoldError
		if !errors.As(err, &gone) {
			t.Error(err)
		}
	})
}

func TestCountsAreExactForAllAtOnce(t *testing.T) {
	s := start(t, "127.0.0.1:0")
	subject := unique(t)
	var allowed, failed atomic.Int64
	var all sync.WaitGroup
	// Fewer connections than calls: some wait, and some share.
	for _, url := range []string{s.http, s.resp} {
		client := open(t, url, WithConnections(8))
		for i := 0; i < 100; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				decision, err := client.Check(within(t, 20*time.Second), On(subject, "50/h"))
				switch {
				case err != nil:
					failed.Add(1)
				case decision.Allowed:
					allowed.Add(1)
				}
			}()
		}
	}
	all.Wait()
	if allowed.Load() != 50 || failed.Load() != 0 {
		t.Errorf("%d of 200 admitted, %d failed", allowed.Load(), failed.Load())
	}
}

func TestRepliesOfCallsThatWereLeftAreNobodyElses(t *testing.T) {
	s := start(t, "127.0.0.1:0")
	client := open(t, s.resp, WithConnections(1))
	var all sync.WaitGroup
	for i := 0; i < 200; i++ {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			ctx, cancel := context.WithCancel(within(t, 20*time.Second))
			defer cancel()
			if i%2 == 0 {
				cancel()
			}
			question := On(unique(t), "1000/h")
			question.Cost = uint64(i + 1)
			decision, err := client.Check(ctx, question)
			if i%2 == 0 {
				if !errors.Is(err, context.Canceled) {
					t.Error(decision, err)
				}
			} else if err != nil || decision.Granted != uint64(i+1) {
				t.Error(i, decision, err)
			}
		}()
	}
	all.Wait()
}

func TestAMistakeIsNoOutage(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		ctx := within(t, 20*time.Second)
		for _, question := range []Question{
			{}, On("", "1/h"), On("user:1", ""), On("user:1", "1/h via gcr"),
			On("user:\xff", "1/h"), On(string(make([]byte, 2000)), "1/h"),
			{Policy: "none of these"}, {Parts: []Part{{"user:1", "1/h"}}, Policy: "demo"},
			{Parts: []Part{{"user:1", "1/h"}}, Cost: MaxCost + 1},
		} {
			_, err := client.Check(ctx, question)
			var argument *ArgumentError
			if !errors.As(err, &argument) {
				t.Errorf("%.80v: %v", question, err)
			}
		}
	})
}

func TestALostAnswerSaysWhetherItMayHaveCharged(t *testing.T) {
	// One that accepts and says nothing; and a port on which nobody listens.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	nobody := freePort(t)
	for _, scheme := range []string{"http://", "redis://"} {
		client := open(t, scheme+silent.Addr().String(), WithTimeout(50*time.Millisecond))
		_, err := client.Check(context.Background(), On("user:1", "1/h"))
		var lost *StoreError
		if !errors.As(err, &lost) || !lost.Transient || !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %#v", scheme, err)
		}
		if scheme == "http://" && !lost.Ambiguous {
			t.Error("the service may have read it", err)
		}
		client = open(t, scheme+nobody)
		_, err = client.Check(context.Background(), On("user:1", "1/h"))
		if !errors.As(err, &lost) || lost.Ambiguous {
			t.Errorf("%s: %#v", scheme, err)
		}
	}
}

func TestAPasswordIsAsked(t *testing.T) {
	t.Setenv("TOLLGATE_RESP_USERS", "web:ask:a-password-of-many-bytes")
	s := start(t, "127.0.0.1:0")
	address := s.resp[len("redis://"):]
	right := open(t, "redis://web:a-password-of-many-bytes@"+address)
	if _, err := right.Check(within(t, 20*time.Second), On("user:1", "1/h")); err != nil {
		t.Error(err)
	}
	wrong := open(t, "redis://web:another@"+address)
	_, err := wrong.Check(within(t, 20*time.Second), On("user:1", "1/h"))
	var argument *ArgumentError
	if !errors.As(err, &argument) || argument.Status != 401 {
		t.Errorf("%#v", err)
	}
}
