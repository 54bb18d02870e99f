// The client over the Redis protocol.

package tollgate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

type respClient struct {
	pool    *pool
	timeout time.Duration
}

func newRESP(at *url.URL, set settings) Client {
	address := at.Host
	if at.Port() == "" {
		address += ":6380"
	}
	hello := []string{"HELLO", "3"}
	if password, given := at.User.Password(); given {
		user := at.User.Username()
		if user == "" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, password)
	}
	pool := &pool{
		address: address, hello: hello, most: set.connections,
		timeout: set.timeout, tls: tlsFor(at, set.tls),
	}
	return &respClient{pool, set.timeout}
}

func (c *respClient) Check(ctx context.Context, question Question) (*Decision, error) {
	return c.decide(ctx, "TOLLGATE.CHECK", "", &question, true)
}

func (c *respClient) Peek(ctx context.Context, question Question) (*Decision, error) {
	return c.decide(ctx, "TOLLGATE.PEEK", "PEEK", &question, false)
}

func (c *respClient) decide(
	ctx context.Context, name, ofPolicy string, question *Question, charges bool,
) (*Decision, error) {
	answer, err := c.ask(ctx, name, ofPolicy, question, charges)
	if err != nil {
		return nil, err
	}
	decision := answer.decision()
	return &decision, nil
}

func (c *respClient) Charge(ctx context.Context, question Question) ([]Charged, error) {
	answer, err := c.ask(ctx, "TOLLGATE.CHARGE", "CHARGE", &question, true)
	if err != nil {
		return nil, err
	}
	return answer.charged(), nil
}

func (c *respClient) Refund(ctx context.Context, receipt string, units Units) (*Refund, error) {
	words := []string{"TOLLGATE.REFUND", receipt}
	if units != nil {
		words = append(words, units.word())
	}
	answer, err := c.send(ctx, words, true)
	if err != nil {
		return nil, err
	}
	return answer.refund(), nil
}

func (c *respClient) Reserve(ctx context.Context, question Question) (*Hold, error) {
	ttl := []string{"TTL", milliseconds(question.TTL)}
	ofPolicy := "RESERVE " + milliseconds(question.TTL)
	if question.ChargeAtEnd {
		ttl, ofPolicy = append(ttl, "ATEND", "charge"), ofPolicy+" ATEND charge"
	}
	return c.hold(ctx, "TOLLGATE.RESERVE", ofPolicy, &question, ttl...)
}

func (c *respClient) Acquire(ctx context.Context, question Question) (*Hold, error) {
	return c.hold(ctx, "TOLLGATE.ACQUIRE", "ACQUIRE", &question)
}

func (c *respClient) hold(
	ctx context.Context, name, ofPolicy string, question *Question, more ...string,
) (*Hold, error) {
	answer, err := c.ask(ctx, name, ofPolicy, question, true, more...)
	if err != nil {
		return nil, err
	}
	return answer.hold(), nil
}

func (c *respClient) Commit(ctx context.Context, token string, used Units) (*Settled, error) {
	answer, err := c.send(ctx, []string{"TOLLGATE.COMMIT", token, used.word()}, true)
	if err != nil {
		return nil, err
	}
	return answer.settled(), nil
}

func (c *respClient) Renew(
	ctx context.Context, token string, ttl time.Duration,
) (*Renewed, error) {
	words := []string{"TOLLGATE.RENEW", token}
	if ttl > 0 {
		words = append(words, "TTL", milliseconds(ttl))
	}
	answer, err := c.send(ctx, words, true)
	if err != nil {
		return nil, err
	}
	return answer.renewed(), nil
}

func (c *respClient) Release(ctx context.Context, token string) error {
	_, err := c.send(ctx, []string{"TOLLGATE.RELEASE", token}, true)
	return err
}

func (c *respClient) Close() error {
	c.pool.close()
	return nil
}

// ask sends the command `name` for limits in the call, and TOLLGATE.REQUEST by policies, where the
// words of `ofPolicy` say which command it stands for.
func (c *respClient) ask(
	ctx context.Context, name, ofPolicy string, question *Question, charges bool, more ...string,
) (fields, error) {
	if err := question.check(); err != nil {
		return nil, err
	}
	if len(question.Parts) == 0 {
		name, more = "TOLLGATE.REQUEST", strings.Fields(ofPolicy)
	}
	words := append([]string{name}, question.words()...)
	words = append(append(words, question.options()...), more...)
	return c.send(ctx, words, charges)
}

func (c *respClient) send(
	ctx context.Context, words []string, charges bool,
) (fields, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.pool.do(ctx, words)
	if err != nil {
		var argument *ArgumentError
		if errors.As(err, &argument) {
			return nil, argument
		}
		var unsent unsentError
		isSent := !errors.As(err, &unsent)
		return nil, &StoreError{Transient: true, Ambiguous: charges && isSent, Err: err}
	}
	if refusal, is := reply.(respError); is {
		return nil, refusal.ofCommand(charges)
	}
	answer := object(reply)
	if answer == nil {
		err := fmt.Errorf("this is not an answer of Tollgate: %.100v", reply)
		return nil, &StoreError{Ambiguous: charges, Err: err}
	}
	return answer, nil
}

// ofCommand is the error of this package for one of the service.
func (e respError) ofCommand(charges bool) error {
	kind, detail, _ := strings.Cut(string(e), " ")
	switch kind {
	case "NOTOPEN", "TOOMANY":
		return &HoldError{Message: detail, Full: kind == "TOOMANY"}
	case "UNAVAILABLE":
		return &StoreError{Transient: true, Ambiguous: charges, Err: errors.New(detail)}
	case "NOPERM":
		return &ArgumentError{Message: detail, Status: 403}
	case "NOAUTH", "WRONGPASS":
		return &ArgumentError{Message: string(e), Status: 401}
	case "ERR":
		return &ArgumentError{Message: detail, Status: 400}
	}
	return &ArgumentError{Message: string(e), Status: 400}
}
