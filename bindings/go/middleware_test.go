// The middleware before a real service.

package tollgate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// hello is the application behind.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
		w.WriteHeader(status)
	}
	fmt.Fprint(w, "hello")
})

// visit asks a handler as a server does, from this peer.
func visit(h http.Handler, target, peer string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, target, nil)
	request.RemoteAddr = peer
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

func TestTheMiddlewareAnswersByTheService(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		name := "api" + strings.ReplaceAll(t.Name(), "/", "")[len("TestTheMiddleware"):]
		options := Options{Limits: name + ": 2/h", OnFailure: Deny, Headers: Both}
		h := Middleware(client, options)(hello)
		first := visit(h, "/", "192.0.2.7:80")
		if first.Code != 200 || first.Body.String() != "hello" ||
			first.Header().Get("RateLimit") != `"`+name+`";r=1;t=3600` ||
			first.Header().Get("RateLimit-Policy") != `"`+name+`";q=2;w=3600` ||
			first.Header().Get("X-RateLimit-Remaining") != "1" {
			t.Error(first.Code, first.Header())
		}
		visit(h, "/", "192.0.2.7:81")
		denied := visit(h, "/", "192.0.2.7:82")
		wait, _ := strconv.Atoi(denied.Header().Get("Retry-After"))
		if denied.Code != 429 || wait < 3500 || wait > 3600 ||
			denied.Header().Get("Content-Type") != "application/problem+json" ||
			denied.Header().Get("Cache-Control") != "no-store" ||
			!strings.Contains(denied.Body.String(), `"violated-policies":["`+name+`"]`) {
			t.Error(denied.Code, denied.Header(), denied.Body)
		}
		if other := visit(h, "/", "192.0.2.8:80"); other.Code != 200 {
			t.Error("another client", other.Code)
		}
	})
}

func TestPoliciesBansAndCosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.toml")
	text := `version = 1
match = "first"
[[policies]]
name = "login"
on_failure = "deny"
when = { path = "/login" }
[[policies.limits]]
subject = "ip"
limit = "2/h"
overrides = [{ when = { ip = "203.0.113.0/24" }, limit = "banned" }]
[[policies]]
name = "api"
on_failure = "deny"
when = { path = "/api/*" }
cost = { from = "field.cost", max = 100, otherwise = 1 }
limits = [{ subject = "user", absent = "deny", limit = "10/h" }]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "127.0.0.1:0", "--config", file)
	peers := map[string]string{"http": "192.0.2.1:80", "resp": "192.0.2.2:80"}
	for name, client := range s.clients(t) {
		h := Middleware(client, Options{
			OnFailure: Allow,
			Fields: func(r *http.Request) map[string]string {
				return map[string]string{
					"user": r.Header.Get("X-User"), "field.cost": r.Header.Get("X-Cost"),
				}
			},
		})(hello)
		visited := func(target, peer string, headers ...string) int {
			return visit(h, target, peer, headers...).Code
		}
		peer := peers[name]
		user := unique(t)
		for _, step := range []struct {
			expected, got int
			what          string
		}{
			{200, visited("/", peer), "no policy"},
			{200, visited("/login", peer), "the first login"},
			{200, visited("/login", peer), "the second one"},
			{429, visited("/login", peer), "a denial"},
			{403, visited("/login", "203.0.113.7:80"), "a banned client"},
			{400, visited("/%2flogin", peer), "a path with two readings"},
			{400, visited("/api/x", peer, "X-Cost", "1"), "no user"},
			{200, visited("/api/x", peer, "X-User", user, "X-Cost", "9"), "a user"},
			{429, visited("/api/x", peer, "X-User", user, "X-Cost", "2"), "too much"},
			{422, visited("/api/x", peer, "X-User", user, "X-Cost", "11"), "above the limit"},
			{200, visited("/login", "192.0.2.200:80", "X-User", ""), "another client"},
		} {
			if step.got != step.expected {
				t.Errorf("%s: %d and not %d", step.what, step.got, step.expected)
			}
		}
		if code := visited("/login", "@"); code != 503 {
			t.Error("nobody has an address:", code)
		}
	}
	ban := exec.Command(program(t), "admin", "ban", "ip=203.0.113.9", "--for", "1h",
		"--at", strings.TrimPrefix(s.admin, "http://"))
	if out, err := ban.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	h := Middleware(open(t, s.http), Options{OnFailure: Allow})(hello)
	if banned := visit(h, "/", "203.0.113.9:80"); banned.Code != 403 ||
		banned.Header().Get("Retry-After") != "" {
		t.Error("an administrator's ban", banned.Code, banned.Header())
	}
}

// hostile are the values of the shared file, each with the subject that it counts for.
func hostile(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("../../vectors/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		written, subject, is := strings.Cut(lines.Text(), " -> ")
		if !is || strings.HasPrefix(written, "#") {
			continue
		}
		count, text, _ := strings.Cut(written, " ")
		times, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(written, err)
		}
		var value string
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(written, err)
		}
		all[strings.Repeat(value, times)] = subject
	}
	if len(all) < 40 {
		t.Fatalf("%d values", len(all))
	}
	return all
}

func TestNothingThatAClientSendsIsA500(t *testing.T) {
	clients, err := ClientAddress{Proxies: "127.0.0.1"}.Clients(nil)
	if err != nil {
		t.Fatal(err)
	}
	for value, expected := range hostile(t) {
		header := http.Header{"X-Forwarded-For": {value}}
		if found := clients.Subject("127.0.0.1:80", header); found != expected {
			t.Errorf("%.60q is %s and not %s", value, found, expected)
		}
	}
	with(t, func(t *testing.T, client Client) {
		byAddress := Middleware(client, Options{
			Limits: "1000/h", OnFailure: Deny, Client: ClientAddress{Proxies: "127.0.0.1"},
			Log: func(string) {},
		})(hello)
		byPolicy := Middleware(client, Options{
			OnFailure: Deny, Client: ClientAddress{Proxies: "127.0.0.1"}, Log: func(string) {},
			Fields: func(r *http.Request) map[string]string {
				return map[string]string{"user": r.Header.Get("X-Key")}
			},
			Policy: "demo",
		})(hello)
		byKey := Middleware(client, Options{
			Limits: "1000/h", OnFailure: Deny,
			Key: func(r *http.Request) string { return "key:" + r.Header.Get("X-Key") },
		})(hello)
		byBareKey := Middleware(client, Options{
			Limits: "1000/h", OnFailure: Deny,
			Key: func(r *http.Request) string { return r.Header.Get("X-Key") },
		})(hello)
		for value := range hostile(t) {
			got := []int{
				visit(byAddress, "/", "127.0.0.1:80", "X-Forwarded-For", value).Code,
				visit(byPolicy, "/", "127.0.0.1:80", "X-Forwarded-For", value, "X-Key", value).Code,
				visit(byKey, "/", "127.0.0.1:80", "X-Key", value).Code,
				visit(byBareKey, "/", "127.0.0.1:80", "X-Key", value).Code,
			}
			if got[0] != 200 {
				t.Errorf("%.60q as an address: %d", value, got[0])
			}
			for _, status := range got[1:] {
				if status != 200 && status != 429 && status != 400 {
					t.Errorf("%.60q: %v", value, got)
				}
			}
			if len(value) < 900 && len(value) > 0 && got[2] != 200 {
				t.Errorf("%.60q as a key: %v", value, got)
			}
		}
	})
}

func TestRequestsAreCountedExactly(t *testing.T) {
	s := start(t, "127.0.0.1:0")
	var all []http.Handler
	subject := unique(t)
	for _, client := range s.clients(t) {
		all = append(all, Middleware(client, Options{
			Limits: "50/h", OnFailure: Deny,
			Key: func(*http.Request) string { return subject },
		})(hello))
	}
	var passed atomic.Int64
	var wait sync.WaitGroup
	for i := 0; i < 200; i++ {
		h := all[i%len(all)]
		wait.Add(1)
		go func() {
			defer wait.Done()
			if visit(h, "/", "192.0.2.7:80").Code == 200 {
				passed.Add(1)
			}
		}()
	}
	wait.Wait()
	if passed.Load() != 50 {
		t.Errorf("%d of 200", passed.Load())
	}
}

func TestOptionsOfTheMiddleware(t *testing.T) {
	client := open(t, start(t, "127.0.0.1:0").http)
	user, other := unique(t), unique(t)
	var decisions []string
	inner := Middleware(client, Options{
		OnFailure: Deny, Headers: Both,
		Keys: func(r *http.Request) []Part {
			return []Part{{user, "user: 3/h"}, {other, "tenant: 100/h"}}
		},
		Cost: func(r *http.Request) uint64 { return uint64(len(r.URL.Query()["cost"])) },
		Skip: func(r *http.Request) bool { return r.URL.Path == "/health" },
		OnDenied: func(w http.ResponseWriter, r *http.Request, refusal *Refusal) {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, refusal.Decision.Outcome)
		},
		OnDecision: func(r *http.Request, decision *Decision) {
			decisions = append(decisions, decision.Outcome)
		},
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, DecisionFrom(r.Context()) != nil)
	}))
	h := Middleware(client, Options{
		OnFailure: Deny, Limits: "outer: 50/h", Headers: Both,
		LimitsFor: func(r *http.Request) string { return r.Header.Get("X-Limits") },
	})(inner)
	both := visit(h, "/?cost=1&cost=1", "192.0.2.1:80")
	if both.Code != 200 || both.Body.String() != "true" ||
		both.Header().Get("RateLimit") != `"outer";r=49;t=3600, "user";r=1;t=3600` ||
		len(both.Header().Values("RateLimit-Policy")) != 1 ||
		both.Header().Get("X-RateLimit-Remaining") != "1" {
		t.Error(both.Code, both.Header())
	}
	denied := visit(h, "/?cost=1&cost=1", "192.0.2.1:80")
	if denied.Code != http.StatusTeapot || denied.Body.String() != "denied" ||
		denied.Header().Get("Retry-After") == "" ||
		!strings.HasPrefix(denied.Header().Get("RateLimit"), `"outer";r=48;t=3600, "user";r=1;t=`) {
		t.Error(denied.Code, denied.Header(), denied.Body)
	}
	for _, target := range []string{"/health?cost=1&cost=1", "/"} {
		free := visit(h, target, "192.0.2.1:80")
		if free.Code != 200 || strings.Contains(free.Header().Get("RateLimit"), `"user"`) {
			t.Error(target, free.Code, free.Header())
		}
	}
	if visit(h, "/", "192.0.2.2:80", "X-Limits", "1/h").Code != 200 ||
		visit(h, "/", "192.0.2.2:80", "X-Limits", "1/h").Code != 429 {
		t.Error("limits by request")
	}
	tokens := Middleware(client, Options{
		OnFailure: Deny, Limits: "9/h, 100/h of tokens via gcra",
		Units: func(*http.Request) Units { return Units{"requests": 1, "tokens": 60} },
	})(hello)
	if visit(tokens, "/", "192.0.2.3:80").Code != 200 ||
		visit(tokens, "/", "192.0.2.3:80").Code != 429 {
		t.Error("units")
	}
	if strings.Join(decisions, " ") != "allowed denied" {
		t.Error(decisions)
	}
}

func TestCostsByTheResponse(t *testing.T) {
	client := open(t, start(t, "127.0.0.1:0").http)
	failedLogins := Middleware(client, Options{
		OnFailure: Deny, Limits: "logins: 2/h",
		RefundWhen: func(r *http.Request, status int, header http.Header) bool {
			return status < 400
		},
	})(hello)
	for i, target := range []string{"/", "/", "/", "/?status=401", "/", "/?status=401"} {
		if code := visit(failedLogins, target, "192.0.2.1:80").Code; code == 429 {
			t.Error(i, code)
		}
	}
	if code := visit(failedLogins, "/", "192.0.2.1:80").Code; code != 429 {
		t.Error("two failed", code)
	}
	byBytes := Middleware(client, Options{
		OnFailure: Deny, Limits: "bytes: 10/h via gcra",
		ExtraCost: func(r *http.Request, status int, header http.Header) uint64 { return 9 },
	})(hello)
	if visit(byBytes, "/", "192.0.2.1:80").Code != 200 ||
		visit(byBytes, "/", "192.0.2.1:80").Code != 429 {
		t.Error("an extra cost")
	}
}

func TestOptionsThatAreWrongAreNamed(t *testing.T) {
	client := open(t, "http://127.0.0.1:1")
	for field, options := range map[string]Options{
		"OnFailure": {Limits: "1/h"},
		"Headers":   {OnFailure: Deny, Headers: "all"},
		"Policy":    {OnFailure: Deny, Limits: "1/h", Policy: "login"},
		"Key":       {OnFailure: Deny, Key: func(*http.Request) string { return "" }},
		"Hops":      {OnFailure: Deny, Client: ClientAddress{Hops: 40}},
		"Units": {OnFailure: Deny, Cost: func(*http.Request) uint64 { return 1 },
			Units: func(*http.Request) Units { return nil }},
	} {
		_, err := NewMiddleware(client, options)
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Error(field, err)
		}
	}
}

func TestAMistakeOfTheSetUpIsNotTheClients(t *testing.T) {
	with(t, func(t *testing.T, client Client) {
		var lines []string
		h := Middleware(client, Options{
			OnFailure: Deny, Limits: "10/h via gcr",
			Log: func(line string) { lines = append(lines, line) },
		})(hello)
		for i := 0; i < 3; i++ {
			if code := visit(h, "/", "192.0.2.1:80").Code; code != 503 {
				t.Error(code)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "unknown strategy `gcr`") {
			t.Error(lines)
		}
		unknown := Middleware(client, Options{
			OnFailure: Allow, Policy: "nobody's", Log: func(string) {},
		})(hello)
		if code := visit(unknown, "/", "192.0.2.1:80").Code; code != 200 {
			t.Error("an unknown policy:", code)
		}
	})
}

func TestAWriterIsStillWhatItWas(t *testing.T) {
	client, hijacked := open(t, start(t, "127.0.0.1:0").http), make(chan struct{})
	refunding := Middleware(client, Options{
		OnFailure: Deny, Limits: "100/h",
		// The service of the test may end before the refund.
		Log:        func(string) {},
		RefundWhen: func(*http.Request, int, http.Header) bool { return true },
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		fmt.Fprint(connection, "own words")
		close(hijacked)
	}))
	server := httptest.NewServer(refunding)
	defer server.Close()
	response := must[*http.Response](t)(http.Get(server.URL))
	defer response.Body.Close()
	if response.StatusCode != 200 || !response.Close && len(response.TransferEncoding) == 0 {
		t.Error(response)
	}
	<-hijacked
}
