// Connections over the Redis protocol. A call takes one that has nothing under way, else a new one,
// and at their bound the one with the fewest calls. Replies come in the order of the commands, so a
// reply that its caller no longer waits for is nobody else's.

package tollgate

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

// unsentError is the error of a call that the service cannot have seen.
type unsentError struct{ err error }

func (e unsentError) Error() string { return e.err.Error() }
func (e unsentError) Unwrap() error { return e.err }

var errClosed = unsentError{errors.New("the client is closed")}

type pool struct {
	address string
	hello   []string
	most    int
	timeout time.Duration
	tls     *tls.Config

	mutex   sync.Mutex
	all     []*conn
	dialing int
	closed  bool
}

type conn struct {
	pool *pool
	net  net.Conn
	// writing keeps the calls in waiting in the order of their commands.
	writing sync.Mutex
	// The mutex of the pool guards the rest.
	load    int
	waiting []*call
	heard   time.Time
	dead    error
}

type call struct {
	done  chan struct{}
	reply any
	err   error
}

func tlsFor(at *url.URL, config *tls.Config) *tls.Config {
	if at.Scheme != "rediss" {
		return nil
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = at.Hostname()
	}
	return config
}

// do sends a command, and returns its reply, which may be a respError.
func (p *pool) do(ctx context.Context, words []string) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsentError{err}
	}
	c, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	mine, since := &call{done: make(chan struct{})}, time.Now()
	if err := c.write(mine, words); err != nil {
		return nil, err
	}
	select {
	case <-mine.done:
		return mine.reply, mine.err
	case <-ctx.Done():
		c.late(since)
		return nil, ctx.Err()
	}
}

// take finds a connection for a call.
func (p *pool) take(ctx context.Context) (*conn, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, errClosed
	}
	// One that was idle for long is left to the service, which closes it.
	var best *conn
	for _, each := range p.all {
		isFresh := each.load > 0 || time.Since(each.heard) < idleTime
		if isFresh && (best == nil || each.load < best.load) {
			best = each
		}
	}
	if best != nil && (best.load == 0 || len(p.all)+p.dialing >= p.most) {
		best.load++
		return best, nil
	}
	p.dialing++
	p.mutex.Unlock()
	dialled, reader, err := p.dial(ctx)
	p.mutex.Lock()
	p.dialing--
	if err != nil {
		return nil, unsentError{err}
	}
	if p.closed {
		dialled.Close()
		return nil, errClosed
	}
	c := &conn{pool: p, net: dialled, load: 1, heard: time.Now()}
	p.all = append(p.all, c)
	go c.read(reader)
	return c, nil
}

// dial connects, and logs in.
func (p *pool) dial(ctx context.Context) (net.Conn, *bufio.Reader, error) {
	connected, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, nil, err
	}
	end, _ := ctx.Deadline()
	connected.SetDeadline(end)
	if p.tls != nil {
		secured := tls.Client(connected, p.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			connected.Close()
			return nil, nil, err
		}
		connected = secured
	}
	reader := bufio.NewReader(connected)
	_, err = connected.Write(command(p.hello))
	var reply any
	if err == nil {
		reply, err = readReply(reader)
	}
	if refusal, is := reply.(respError); is && err == nil {
		err = refusal.ofCommand(false)
	}
	if err != nil {
		connected.Close()
		return nil, nil, err
	}
	connected.SetDeadline(time.Time{})
	return connected, reader, nil
}

func (p *pool) close() {
	p.mutex.Lock()
	p.closed = true
	all := append([]*conn(nil), p.all...)
	p.mutex.Unlock()
	for _, each := range all {
		each.end(errors.New("the client was closed"))
	}
}

// write sends the command of a call, which from then on waits for its reply.
func (c *conn) write(mine *call, words []string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.pool.mutex.Lock()
	dead := c.dead
	if dead == nil {
		c.waiting = append(c.waiting, mine)
	}
	c.pool.mutex.Unlock()
	if dead != nil {
		// It ended between the choice and now: the service got nothing.
		return unsentError{dead}
	}
	c.net.SetWriteDeadline(time.Now().Add(c.pool.timeout))
	if _, err := c.net.Write(command(words)); err != nil {
		c.end(err)
	}
	return nil
}

// read gives each reply to the call that waits for it, until the connection ends. It reads all the
// time, so a connection that the service closes is not used again.
func (c *conn) read(reader *bufio.Reader) {
	for {
		reply, err := readReply(reader)
		if err != nil {
			c.end(err)
			return
		}
		c.pool.mutex.Lock()
		if c.dead != nil || len(c.waiting) == 0 {
			c.pool.mutex.Unlock()
			c.end(errors.New("a reply that nobody asked for"))
			return
		}
		first := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.load--
		c.heard = time.Now()
		c.pool.mutex.Unlock()
		first.reply = reply
		close(first.done)
	}
}

// late ends a connection that has said nothing since this call began: nobody else should wait for
// it. One that is only slow stays.
func (c *conn) late(since time.Time) {
	c.pool.mutex.Lock()
	silent := c.heard.Before(since)
	c.pool.mutex.Unlock()
	if silent && time.Since(since) >= c.pool.timeout {
		c.end(errors.New("the service says nothing"))
	}
}

// end closes a connection. The calls that wait get the error: each may have been charged.
func (c *conn) end(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	p := c.pool
	p.mutex.Lock()
	if c.dead != nil {
		p.mutex.Unlock()
		return
	}
	c.dead = err
	waiting := c.waiting
	c.waiting = nil
	for place, each := range p.all {
		if each == c {
			p.all = append(p.all[:place], p.all[place+1:]...)
			break
		}
	}
	p.mutex.Unlock()
	c.net.Close()
	for _, each := range waiting {
		each.err = err
		close(each.done)
	}
}
