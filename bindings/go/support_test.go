// The common parts of the tests: a service, which ends with its test.

package tollgate

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// service is a `tollgate serve` of a test.
type service struct {
	http, resp, admin string
	process           *exec.Cmd
}

// program is the program `tollgate`. A test without it is skipped with the reason,
// and fails in CI.
func program(t testing.TB) string {
	t.Helper()
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "../../target"
	}
	for _, path := range []string{
		os.Getenv("TOLLGATE_BIN"), filepath.Join(target, "debug/tollgate"),
	} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	why := "SKIPPED: the program `tollgate` is not built: cargo build -p tollgate-cli"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// start starts a service with these options, on free ports unless `listen` names one.
func start(t testing.TB, listen string, options ...string) *service {
	t.Helper()
	words := append([]string{"serve", "--listen", listen, "--admin", "127.0.0.1:0",
		"--log-denials", "off"}, options...)
	if !strings.Contains(strings.Join(options, " "), "--resp") {
		words = append(words, "--resp", "127.0.0.1:0")
	}
	process := exec.Command(program(t), words...)
	process.Env = append(os.Environ(), "TOLLGATE_CONFIG=")
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	s := &service{process: process}
	t.Cleanup(s.kill)
	lines := bufio.NewScanner(out)
	for (s.http == "" || s.resp == "" || s.admin == "") && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		value = strings.TrimSpace(value)
		switch name {
		case "listening":
			s.http = value
		case "redis":
			s.resp = "redis://" + value
		case "admin":
			s.admin = value
		}
	}
	go func() {
		for lines.Scan() {
		}
	}()
	if s.resp == "" {
		t.Fatal("the service did not start")
	}
	return s
}

// kill ends it as a crash does.
func (s *service) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// clients are one of each protocol.
func (s *service) clients(t testing.TB) map[string]Client {
	t.Helper()
	return map[string]Client{"http": open(t, s.http), "resp": open(t, s.resp)}
}

// open makes a client that is in no hurry: a machine that is busy is slow.
func open(t testing.TB, url string, options ...Option) Client {
	t.Helper()
	client, err := Open(url, append([]Option{WithTimeout(20 * time.Second)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// freePort is one that nobody listens on, for a service that comes back to it.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

var next atomic.Int64

// unique is a subject that no other test has.
func unique(t testing.TB) string {
	return "user:" + t.Name() + "-" + time.Duration(next.Add(1)).String()
}

// within fails a test that waits for ever.
func within(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t testing.TB) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
