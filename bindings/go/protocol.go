// The Redis protocol, version 3: words out, replies in.

package tollgate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// respError is an error of the service, which begins with its kind.
type respError string

// maxReplyBytes and maxReplyDepth bound a reply, as maxAnswerBytes does over HTTP.
const (
	maxReplyBytes = 8 << 20
	maxReplyDepth = 16
)

var errProtocol = errors.New("this is not a reply of the Redis protocol, version 3")

// command is a list of words as the service reads it.
func command(words []string) []byte {
	out := strconv.AppendInt([]byte("*"), int64(len(words)), 10)
	out = append(out, '\r', '\n')
	for _, word := range words {
		out = append(out, '$')
		out = strconv.AppendInt(out, int64(len(word)), 10)
		out = append(out, '\r', '\n')
		out = append(out, word...)
		out = append(out, '\r', '\n')
	}
	return out
}

// readReply reads one reply: nil, bool, int64, float64, string, []any, map[string]any or respError.
func readReply(from *bufio.Reader) (any, error) {
	left := maxReplyBytes
	return readValue(from, &left, 0)
}

func readValue(from *bufio.Reader, left *int, depth int) (any, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	*left -= len(line)
	if len(line) < 3 || line[len(line)-2] != '\r' || *left < 0 || depth > maxReplyDepth {
		return nil, errProtocol
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return respError(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case ',':
		return strconv.ParseFloat(text, 64)
	case '#':
		return text == "t", nil
	case '_':
		return nil, nil
	case '$':
		return readBulk(from, text, left)
	case '*', '~':
		return readList(from, text, left, depth)
	case '%':
		return readMap(from, text, left, depth)
	}
	return nil, fmt.Errorf("%w: it begins with %q", errProtocol, kind)
}

// length is a number of bytes or of parts, each of which takes a byte at least.
func length(text string, left *int) (int, error) {
	count, err := strconv.Atoi(text)
	if err != nil || count < 0 || count > *left {
		return 0, errProtocol
	}
	return count, nil
}

func readBulk(from *bufio.Reader, text string, left *int) (any, error) {
	count, err := length(text, left)
	if err != nil {
		return nil, err
	}
	*left -= count
	bytes := make([]byte, count+2)
	if _, err := io.ReadFull(from, bytes); err != nil {
		return nil, err
	}
	return string(bytes[:count]), nil
}

func readList(from *bufio.Reader, text string, left *int, depth int) (any, error) {
	count, err := length(text, left)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, 8)
	for ; count > 0; count-- {
		value, err := readValue(from, left, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func readMap(from *bufio.Reader, text string, left *int, depth int) (any, error) {
	count, err := length(text, left)
	if err != nil {
		return nil, err
	}
	read := map[string]any{}
	for ; count > 0; count-- {
		name, err := readValue(from, left, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := readValue(from, left, depth+1)
		if err != nil {
			return nil, err
		}
		key, isText := name.(string)
		if !isText {
			return nil, errProtocol
		}
		read[key] = value
	}
	return read, nil
}
