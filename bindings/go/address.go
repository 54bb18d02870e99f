// Addresses and networks, read as docs/identity.md says.

package tollgate

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseAddress reads an address as headers write it: with a port, in brackets, with a zone; no
// names, no shortened or octal IPv4. IPv4 in IPv6 is IPv4.
func parseAddress(text string) (netip.Addr, bool) {
	none := netip.Addr{}
	text = strings.Trim(text, " \t\r\n\f")
	if strings.HasPrefix(text, "[") {
		inside, after, closed := strings.Cut(text[1:], "]")
		if !closed || after != "" && (after[0] != ':' || !isPort(after[1:])) {
			return none, false
		}
		return parseV6(inside)
	}
	host, port, hasColon := strings.Cut(text, ":")
	if hasColon && strings.Contains(port, ":") {
		return parseV6(text)
	}
	if hasColon && !isPort(port) {
		return none, false
	}
	address, err := netip.ParseAddr(host)
	return address, err == nil && address.Is4()
}

func parseV6(text string) (netip.Addr, bool) {
	text, zone, hasZone := strings.Cut(text, "%")
	if hasZone && !isZone(zone) {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err == nil && address.Is6()
}

func isZone(zone string) bool {
	for i := 0; i < len(zone); i++ {
		if zone[i] <= ' ' || zone[i] > '~' {
			return false
		}
	}
	return zone != "" && len(zone) <= 64
}

// isPort takes one that is obfuscated, too, as RFC 7239 allows: `_x`.
func isPort(text string) bool {
	if strings.HasPrefix(text, "_") {
		for _, c := range []byte(text[1:]) {
			if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
				return false
			}
		}
		return len(text) > 1
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil && len(text) <= 5
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// parseNetworks reads networks and addresses with commas between them.
func parseNetworks(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)
		if address, err := netip.ParseAddr(word); err == nil && address.Zone() == "" {
			address = address.Unmap()
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, wrong("Proxies",
				"%.60q is not a network: write 10.0.0.0/8 or 192.0.2.1", word)
		}
		if network != network.Masked() {
			return nil, wrong("Proxies",
				"%s has bits beyond its prefix: write %s for the network, or %s for the address",
				word, network.Masked(), network.Addr())
		}
		if address := network.Addr(); address.Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(address.Unmap(), network.Bits()-96)
		}
		all = append(all, network)
	}
	return all, nil
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
