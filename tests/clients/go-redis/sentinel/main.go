// A tour of servers under Sentinels with go-redis while they fail over: what was acknowledged is there.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const counters = 20

var ctx = context.Background()

func same[T comparable](want, got T) {
	if want != got {
		panic(fmt.Sprintf("want %v, got %v", want, got))
	}
}

// The server may be about to go: again until it is acknowledged.
func untilDone[T any](do func() (T, error)) T {
	end := time.Now().Add(90 * time.Second)
	for {
		value, err := do()
		if err == nil {
			return value
		}
		if time.Now().After(end) {
			panic(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func main() {
	var addresses []string
	for _, port := range strings.Split(os.Getenv("SENTINEL_PORTS"), ",") {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addresses[1]})
	primary, err := sentinel.GetMasterAddrByName(ctx, "mymaster").Result()
	if err != nil {
		panic(err)
	}
	same(primary[1], sentinel.Master(ctx, "mymaster").Val()["port"])
	same(2, len(sentinel.Replicas(ctx, "mymaster").Val()))
	same(2, len(sentinel.Sentinels(ctx, "mymaster").Val()))
	same(true, strings.HasPrefix(sentinel.CkQuorum(ctx, "mymaster").Val(), "OK 3 usable Sentinels"))
	switches := sentinel.Subscribe(ctx, "+switch-master")

	r := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: addresses})
	round := 0
	for {
		if _, err := os.Stat(os.Getenv("TOUR_END")); err == nil {
			break
		}
		round++
		for i := range counters {
			same("OK", untilDone(func() (string, error) { return r.Set(ctx, fmt.Sprint("counter:", i), round, 0).Result() }))
		}
	}
	same(true, round > 1)
	for i := range counters {
		same(fmt.Sprint(round), untilDone(func() (string, error) { return r.Get(ctx, fmt.Sprint("counter:", i)).Result() }))
	}
	port := primary[1]
	for range 2 {
		message := untilDone(func() (*redis.Message, error) { return switches.ReceiveMessage(ctx) })
		words := strings.Split(message.Payload, " ")
		same(port, words[2])
		port = words[4]
	}
	same(port, sentinel.Master(ctx, "mymaster").Val()["port"])
}
