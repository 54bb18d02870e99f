// Headers of responses, and a writer that sees the status.

package tollgate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

const legacyPrefix = "X-Ratelimit-"

// addHeaders adds those of a decision. Where several middlewares limit a request, the lists are one
// line each, in the order of the middlewares, and X-RateLimit-* are those with the least left.
func addHeaders(to http.Header, headers []Header) {
	isLess := true
	for _, each := range headers {
		name := http.CanonicalHeaderKey(each.Name)
		if name == legacyPrefix+"Remaining" && to.Get(name) != "" {
			before, _ := strconv.ParseUint(to.Get(name), 10, 64)
			now, _ := strconv.ParseUint(each.Value, 10, 64)
			isLess = now < before
		}
	}
	for _, each := range headers {
		name := http.CanonicalHeaderKey(each.Name)
		switch {
		case name == "Ratelimit" || name == "Ratelimit-Policy":
			lines := append(to.Values(name), each.Value)
			to.Set(name, strings.Join(lines, ", "))
		case !strings.HasPrefix(name, legacyPrefix) || isLess:
			to.Set(name, each.Value)
		}
	}
}

// seenWriter remembers the status. It passes on what handlers look for in a writer.
type seenWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *seenWriter) WriteHeader(status int) {
	// 1xx come before the response; 101 is one.
	if !w.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *seenWriter) Write(bytes []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(bytes)
}

// ReadFrom lets a file be sent by the system.
func (w *seenWriter) ReadFrom(from io.Reader) (int64, error) {
	w.wrote = true
	return io.Copy(w.ResponseWriter, from)
}

// Flush does nothing where the writer behind cannot.
func (w *seenWriter) Flush() {
	if flusher, can := w.ResponseWriter.(http.Flusher); can {
		w.wrote = true
		flusher.Flush()
	}
}

// Hijack is an error where the writer behind cannot, as over HTTP/2.
func (w *seenWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if hijacker, can := w.ResponseWriter.(http.Hijacker); can {
		return hijacker.Hijack()
	}
	return nil, nil, http.ErrNotSupported
}

// Unwrap is for http.ResponseController.
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
