// A tour of a cluster with go-redis while slots move and a replica takes over: what was counted is there.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

const counters = 200

var ctx = context.Background()

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func same[T comparable](want, got T) {
	if want != got {
		panic(fmt.Sprintf("want %v, got %v", want, got))
	}
}

func commands(r *redis.ClusterClient) {
	pipe := r.Pipeline()
	for i := range counters {
		pipe.Set(ctx, fmt.Sprint("key:", i), i, 0)
	}
	_, err := pipe.Exec(ctx)
	check(err)
	for i := range counters {
		same(fmt.Sprint(i), r.Get(ctx, fmt.Sprint("key:", i)).Val())
	}
	check(r.MSet(ctx, "{tag}a", 1, "{tag}b", 2).Err())
	same("[1 2]", fmt.Sprint(r.MGet(ctx, "{tag}a", "{tag}b").Val()))
	same(int64(6), r.Eval(ctx, "return redis.call('INCRBY', KEYS[1], ARGV[1])", []string{"{tag}a"}, 5).Val().(int64))
	if err := r.MGet(ctx, "{one}a", "{two}a").Err(); err == nil || !strings.HasPrefix(err.Error(), "CROSSSLOT") {
		panic(err)
	}
	check(r.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "{tag}b")
			return nil
		})
		return err
	}, "{tag}b"))
	same("3", r.Get(ctx, "{tag}b").Val())
	subscriber := r.SSubscribe(ctx, "channel")
	_, err = subscriber.Receive(ctx)
	check(err)
	check(r.SPublish(ctx, "channel", "hello").Err())
	message, err := subscriber.ReceiveMessage(ctx)
	check(err)
	same("hello", message.Payload)
	check(subscriber.Close())
	total := 0
	check(r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }))
	check(r.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }))
	for _, slots := range r.ClusterSlots(ctx).Val() {
		total += slots.End - slots.Start + 1
	}
	same(16384, total)
}

func counts(r *redis.ClusterClient) {
	rounds := int64(0)
	for {
		if _, err := os.Stat(os.Getenv("TOUR_END")); err == nil {
			break
		}
		rounds++
		for i := range counters {
			value, err := r.Incr(ctx, fmt.Sprint("counter:", i)).Result()
			check(err)
			same(rounds, value)
		}
	}
	same(true, rounds > 0)
	for i := range counters {
		same(fmt.Sprint(rounds), r.Get(ctx, fmt.Sprint("counter:", i)).Val())
	}
}

func main() {
	// More redirections than the default 3: slots move one by one.
	r := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + os.Getenv("REDIS_PORT")}, MaxRedirects: 16,
	})
	commands(r)
	counts(r)
}
