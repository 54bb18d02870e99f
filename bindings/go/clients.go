// The client of a request, by the rules of docs/identity.md.

package tollgate

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
)

// ClientAddress says how the client of a request is found. Without anything it is the other end of
// the connection, which nothing that a client writes can change.
type ClientAddress struct {
	// Proxies are the networks of the proxies that are trusted: `10.0.0.0/8, 192.0.2.1`.
	Proxies string
	// Hops is how many proxies there are, 1 to 32. Without Proxies the header of any sender counts.
	Hops int
	// Header is the one that they write: `X-Forwarded-For` without it, `Forwarded`, `X-Real-IP`,
	// `CF-Connecting-IP`, or another in the form of the first.
	Header string
	// IPv6Prefix is how many bits of an IPv6 address tell clients apart, 32 to 128; 64 without it.
	IPv6Prefix int
}

// Clients finds the client of each request, and says once of each likely mistake.
type Clients struct {
	proxies []netip.Prefix
	hops    int
	name    string
	reads   bool
	isList  bool
	prefix  int
	warn    func(string)
	given   [remarks]atomic.Bool
}

type remark int

const (
	noRemark remark = iota
	untrusted
	noHeader
	unreadable
	onlyProxies
	tooFewHops
	tooManyHops
	noAddress
	remarks
)

// warnings are the same in every language of Tollgate.
var warnings = [remarks]string{
	untrusted: "a request names its client in a header, but its peer is not a trusted proxy: the " +
		"peer's address counts. Is a proxy missing from the trusted networks?",
	noHeader: "a trusted proxy sent no header with its client's address: all clients behind it " +
		"share one count. Does it write another header?",
	unreadable: "an entry of the header is not an address: the last proxy before it counts",
	onlyProxies: "all entries of the header are trusted proxies: the leftmost counts. Are " +
		"clients within the trusted networks?",
	tooFewHops: "the header has fewer entries than there should be proxies: the leftmost counts. " +
		"Is the number of proxies right?",
	tooManyHops: "the header has more than 32 trusted entries: the last that was read counts. Is " +
		"there a loop of proxies?",
	noAddress: "a request has no address of a client, as over a Unix socket, and gets a 503: " +
		"name the proxies that you trust, or give Key",
}

var local = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Clients reads the options. Each warning goes to warn once.
func (a ClientAddress) Clients(warn func(string)) (*Clients, error) {
	c := &Clients{hops: a.Hops, prefix: 64, isList: true, warn: warn}
	c.reads = a.Proxies != "" || a.Hops != 0
	if a.Header != "" && !c.reads {
		return nil, wrong("Header", "a header counts only from a proxy that is trusted: give "+
			"Proxies or Hops, too")
	}
	c.name = http.CanonicalHeaderKey(a.Header)
	switch c.name {
	case "":
		c.name = "X-Forwarded-For"
	case "X-Real-Ip", "Cf-Connecting-Ip":
		c.isList = false
	}
	if !isToken(c.name) {
		return nil, wrong("Header", "%.60q is not the name of a header", a.Header)
	}
	if a.Hops < 0 || a.Hops > maxEntries {
		return nil, wrong("Hops", "%d is not a number of proxies: give 1 to 32", a.Hops)
	}
	if a.Hops != 0 && !c.isList {
		return nil, wrong("Hops", "%s holds one address: no proxies can be counted in it", c.name)
	}
	if a.IPv6Prefix != 0 {
		c.prefix = a.IPv6Prefix
	}
	if c.prefix < 32 || c.prefix > 128 {
		return nil, wrong("IPv6Prefix", "%d bits tell no clients apart: give 32 to 128", c.prefix)
	}
	if a.Proxies != "" {
		var err error
		if c.proxies, err = parseNetworks(a.Proxies); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Subject is the subject of a client, such as ip:192.0.2.7; empty without an address. The peer is
// the other end of the connection, as http.Request.RemoteAddr has it.
func (c *Clients) Subject(peer string, header http.Header) string {
	address, found := c.Address(peer, header)
	if !found {
		return ""
	}
	if address.Is6() && c.prefix < 128 {
		network, _ := address.Prefix(c.prefix)
		return "ip:" + network.String()
	}
	return "ip:" + address.String()
}

// Address is the whole address of a client.
func (c *Clients) Address(peer string, header http.Header) (netip.Addr, bool) {
	isLocal := peer == "" || peer == "@" || strings.HasPrefix(peer, "/")
	from, known := parseAddress(peer)
	if isLocal {
		// A Unix socket: this host may be a proxy that is trusted.
		from, known = local, c.trusts(local)
	}
	if !known {
		c.say(noAddress)
		return from, false
	}
	address, remark := c.find(from, header)
	// Of this host alone there is no address to count.
	isNobody := remark == noHeader || remark == unreadable && address == local
	if isLocal && isNobody {
		c.say(noAddress)
		return address, false
	}
	c.say(remark)
	return address, true
}

func (c *Clients) say(remark remark) {
	if remark != noRemark && c.warn != nil && !c.given[remark].Swap(true) {
		c.warn(warnings[remark])
	}
}

func (c *Clients) trusts(peer netip.Addr) bool {
	if c.proxies == nil {
		return c.hops > 0
	}
	return contains(c.proxies, peer)
}

func (c *Clients) find(peer netip.Addr, header http.Header) (netip.Addr, remark) {
	lines := readable(header.Values(c.name))
	if !c.trusts(peer) {
		if len(lines) > 0 || !c.reads && header.Get("Forwarded") != "" {
			return peer, untrusted
		}
		return peer, noRemark
	}
	if !c.isList {
		return single(peer, lines)
	}
	entries := fromRight{lines: lines, forwarded: c.name == "Forwarded"}
	last := peer
	for place := 0; place < maxEntries; place++ {
		address, isAddress, more := entries.next()
		switch {
		case !more && place == 0:
			return last, noHeader
		case !more && c.hops > 0:
			return last, tooFewHops
		case !more:
			return last, onlyProxies
		case !isAddress:
			return last, unreadable
		}
		last = address
		if c.hops > 0 && place == c.hops-1 || c.hops == 0 && !contains(c.proxies, last) {
			return last, noRemark
		}
	}
	return last, tooManyHops
}

// readable has a word that is no address in place of a line that no server passes on.
func readable(lines []string) []string {
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 127 }
	for i, line := range lines {
		if strings.IndexFunc(line, isControl) >= 0 {
			lines = append([]string(nil), lines...)
			lines[i] = "unknown"
		}
	}
	return lines
}

// single reads a header that the proxy sets.
func single(peer netip.Addr, lines []string) (netip.Addr, remark) {
	if len(lines) == 0 {
		return peer, noHeader
	}
	if len(lines) == 1 && len(lines[0]) <= maxEntryBytes {
		if address, isAddress := parseAddress(lines[0]); isAddress {
			return address, noRemark
		}
	}
	return peer, unreadable
}
