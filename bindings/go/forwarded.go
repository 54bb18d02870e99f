// Headers to which proxies append, read from the right and only as far as needed.

package tollgate

import (
	"net/netip"
	"strings"
)

// maxEntries and maxEntryBytes bound what is read: no request passes through more proxies.
const (
	maxEntries    = 32
	maxEntryBytes = 512
)

// fromRight gives the entries of all lines of one header, from the right.
type fromRight struct {
	lines     []string
	line      string
	isOpen    bool
	forwarded bool
}

// next is an address, or false in place of it for an entry that is not one; more is false at the
// end.
func (f *fromRight) next() (address netip.Addr, isAddress, more bool) {
	// Empty entries are skipped (RFC 9110, 5.6.1), but their number is bounded too.
	for i := 0; i < maxEntries; i++ {
		if !f.isOpen {
			if len(f.lines) == 0 {
				return address, false, false
			}
			f.line, f.lines = f.lines[len(f.lines)-1], f.lines[:len(f.lines)-1]
		}
		tail := len(f.line) - maxEntryBytes - 1
		if tail < 0 {
			tail = 0
		}
		comma := f.lastComma(f.line[tail:])
		if comma < 0 && tail > 0 {
			f.isOpen = false
			return address, false, true
		}
		entry := f.line
		f.isOpen = comma >= 0
		if f.isOpen {
			entry, f.line = f.line[tail+comma+1:], f.line[:tail+comma]
		}
		if strings.Trim(entry, " \t\r\n\f") == "" {
			continue
		}
		if f.forwarded {
			address, isAddress = forwardedFor(entry)
		} else {
			address, isAddress = parseAddress(entry)
		}
		return address, isAddress, true
	}
	return address, false, true
}

func (f *fromRight) lastComma(text string) int {
	if !f.forwarded {
		return strings.LastIndexByte(text, ',')
	}
	// From the right, so that an open quote of the client on the left cannot include what a proxy
	// appended.
	quoted := false
	for at := len(text) - 1; at >= 0; at-- {
		switch {
		case text[at] == ',' && !quoted:
			return at
		case text[at] == '"':
			before := strings.TrimRight(text[:at], `\`)
			// Within quotes, a quote after a backslash is part of the text.
			if !quoted || (at-len(before))%2 == 0 {
				quoted = !quoted
			}
		}
	}
	return -1
}

// forwardedFor is the address of an element such as `for=192.0.2.60;proto=http`, by RFC 7239.
func forwardedFor(element string) (found netip.Addr, isFound bool) {
	rest := strings.TrimSpace(element)
	for {
		name, after, hasValue := strings.Cut(rest, "=")
		name = strings.TrimLeft(name, " \t")
		if !hasValue || !isToken(name) {
			return found, false
		}
		value, after, ok := parameter(after)
		if !ok {
			return found, false
		}
		if strings.EqualFold(name, "for") {
			if isFound {
				return found, false
			}
			if found, isFound = parseAddress(value); !isFound {
				return found, false
			}
		}
		rest = strings.TrimLeft(after, " \t")
		if rest == "" {
			return found, isFound
		}
		if rest[0] != ';' {
			return found, false
		}
		// Some proxies write `for=1.2.3.4;`.
		if rest = rest[1:]; strings.TrimSpace(rest) == "" {
			return found, isFound
		}
	}
}

// parameter is a token or a quoted text without its quotes, and what follows it.
func parameter(text string) (value, after string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := 0
		for end < len(text) && (isTokenByte(text[end]) || isPlain(text[end])) {
			end++
		}
		return text[:end], text[end:], end > 0
	}
	var out strings.Builder
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '"':
			return out.String(), text[at+1:], true
		case '\\':
			if at++; at == len(text) {
				return "", "", false
			}
		}
		out.WriteByte(text[at])
	}
	return "", "", false
}

// isPlain is true of what should be quoted, but often is not. It does not separate.
func isPlain(c byte) bool { return strings.IndexByte(":[]", c) >= 0 }

func isToken(text string) bool {
	for i := 0; i < len(text); i++ {
		if !isTokenByte(text[i]) {
			return false
		}
	}
	return text != ""
}

func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
