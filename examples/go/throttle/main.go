// Asks `tollgate serve --resp` with redigo: go get github.com/gomodule/redigo/redis
//
//	REDIS_URL=redis://127.0.0.1:6380 go run throttle/main.go user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer. The password is part of the URL: redis://:PASSWORD@...
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// One pool for the whole program: it keeps connections. The service closes idle ones after 60 s.
var pool = &redis.Pool{MaxIdle: 100, IdleTimeout: 50 * time.Second, Dial: dial}

func dial() (redis.Conn, error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = "redis://127.0.0.1:6380"
	}
	return redis.DialURL(url,
		redis.DialConnectTimeout(5*time.Second),
		redis.DialReadTimeout(5*time.Second),
		redis.DialWriteTimeout(5*time.Second))
}

// Throttle charges one unit to the count of the subject: 3 at once, 2 in an hour.
func Throttle(subject string) ([]int, error) {
	connection := pool.Get()
	defer connection.Close()
	return redis.Ints(connection.Do("CL.THROTTLE", subject, 2, 2, 3600))
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: throttle SUBJECT")
		os.Exit(2)
	}
	answer, err := Throttle(os.Args[1])
	if err == nil && len(answer) != 5 {
		err = fmt.Errorf("%d numbers", len(answer))
	}
	if err != nil {
		// Here the caller decides: to go on uncounted, or not to.
		fmt.Fprintln(os.Stderr, "no answer:", err)
		os.Exit(2)
	}
	limited, limit, remaining, retry := answer[0], answer[1], answer[2], answer[3]
	if limited == 1 {
		fmt.Printf("denied: retry in %d s\n", retry)
		os.Exit(1)
	}
	fmt.Printf("admitted: %d of %d remain\n", remaining, limit)
}
