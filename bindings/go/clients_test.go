// The client of a request, by the vectors that every language of Tollgate reads.

package tollgate

import (
	"bufio"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

func clientsOf(t *testing.T, options string) *Clients {
	t.Helper()
	var address ClientAddress
	for _, option := range strings.Split(options, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		switch name {
		case "":
		case "proxies":
			address.Proxies = value
		case "header":
			address.Header = value
		case "hops":
			address.Hops, _ = strconv.Atoi(value)
		case "ipv6_prefix":
			address.IPv6Prefix, _ = strconv.Atoi(value)
		default:
			t.Fatalf("an option that this test does not know: %s", name)
		}
	}
	clients, err := address.Clients(nil)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func TestClientsAreFoundAsTheVectorsState(t *testing.T) {
	file, err := os.Open("../../vectors/clients.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var clients *Clients
	count := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if options := strings.TrimPrefix(line, "clients:"); options != line {
			clients = clientsOf(t, options)
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		request, expected, _ := strings.Cut(line, " -> ")
		parts := strings.Split(request, " | ")
		header := http.Header{}
		for _, part := range parts[1:] {
			name, value, _ := strings.Cut(part, ": ")
			header.Add(name, value)
		}
		peer := parts[0]
		if peer == "none" {
			peer = ""
		}
		if expected == "none" {
			expected = ""
		}
		if found := clients.Subject(peer, header); found != expected {
			t.Errorf("%s: %q", line, found)
		}
		count++
	}
	if count < 53 {
		t.Errorf("%d cases", count)
	}
}

func TestEachMistakeIsSaidOnce(t *testing.T) {
	var said []string
	clients, err := ClientAddress{Proxies: "10.0.0.0/8"}.Clients(func(text string) {
		said = append(said, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	forwarded := http.Header{"X-Forwarded-For": {"garbage"}}
	for i := 0; i < 3; i++ {
		clients.Subject("192.0.2.7:80", forwarded)
		clients.Subject("10.0.0.1:80", nil)
		clients.Subject("10.0.0.1:80", forwarded)
		clients.Subject("@", nil)
	}
	if len(said) != 4 {
		t.Error(said)
	}
}

func TestAnOptionThatIsWrongIsNamed(t *testing.T) {
	for field, address := range map[string]ClientAddress{
		"Proxies":    {Proxies: "10.0.0.1/8"},
		"Hops":       {Hops: 33},
		"Header":     {Header: "X-Real-IP"},
		"IPv6Prefix": {IPv6Prefix: 16},
	} {
		_, err := address.Clients(nil)
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Error(field, err)
		}
	}
}
