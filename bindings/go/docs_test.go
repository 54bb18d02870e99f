// The programs of docs/go.md, built as pasted and run against a service.

package tollgate

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// block is a program of the page, and what it prints where the page has that.
var block = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n(?:```text\n(.*?)```)?")

// The addresses that the page has.
const (
	pageHTTP = "http://127.0.0.1:8700"
	pageRESP = "redis://127.0.0.1:6380"
	pageWeb  = "127.0.0.1:8080"
)

func TestTheProgramsOfThePageWork(t *testing.T) {
	s := start(t, "127.0.0.1:0")
	page := string(must[[]byte](t)(os.ReadFile("../../docs/go.md")))
	here := must[string](t)(filepath.Abs("."))
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module pages\n\ngo 1.19\n\nrequire tollgate.example/tollgate v0.1.0\n\n"+
		"replace tollgate.example/tollgate => "+here+"\n")
	all := block.FindAllStringSubmatch(page, -1)
	if len(all) < 4 {
		t.Fatal(len(all), "programs")
	}
	web := make([]string, len(all))
	for i, found := range all {
		web[i] = freePort(t)
		replaced := strings.NewReplacer(pageHTTP, s.http, pageRESP, s.resp, pageWeb, web[i])
		write(fmt.Sprintf("p%d/main.go", i), replaced.Replace(found[1]))
	}
	bin := filepath.Join(folder, "bin") + "/"
	build := exec.Command("go", "build", "-o", bin, "./...")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOFLAGS=", "GO111MODULE=on", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	for i, found := range all {
		program := exec.Command(fmt.Sprintf("%sp%d", bin, i))
		if strings.Contains(found[1], "ListenAndServe") {
			serves(t, program, web[i])
			continue
		}
		out, err := program.CombinedOutput()
		if err != nil || found[2] == "" || string(out) != found[2] {
			t.Errorf("program %d: %v\n%s", i, err, out)
		}
	}
}

// serves visits a server of the page.
func serves(t *testing.T, program *exec.Cmd, address string) {
	t.Helper()
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		response, err := http.Get("http://" + address)
		if err != nil {
			// It is not there yet.
			time.Sleep(5 * time.Millisecond) // tidy: sleep-ok a process starts
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		limited := response.Header.Get("RateLimit-Policy")
		if response.StatusCode != 200 || limited == "" {
			t.Error(response.Status, response.Header, string(body))
		}
		return
	}
	t.Error("it does not listen")
}
