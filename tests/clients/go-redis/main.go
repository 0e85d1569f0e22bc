// A tour of the commands with go-redis, under both protocols; every step asserts what Redis answers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// same panics unless the command answered `want`.
func same[T any](want T) func(T, error) {
	return func(got T, err error) {
		if err != nil || !reflect.DeepEqual(got, want) {
			panic(fmt.Sprintf("want %v, got %v (%v)", want, got, err))
		}
	}
}

func isNil(_ any, err error) {
	if !errors.Is(err, redis.Nil) {
		panic(fmt.Sprintf("want nil, got %v", err))
	}
}

func must(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

func stringsTour(r *redis.Client) {
	same("OK")(r.Set(ctx, "k", "v", 0).Result())
	same("v")(r.Get(ctx, "k").Result())
	isNil(r.Get(ctx, "missing").Result())
	same(false)(r.SetNX(ctx, "k", "w", time.Minute).Result())
	same("v")(r.SetArgs(ctx, "k", "w", redis.SetArgs{Get: true, TTL: time.Minute}).Result())
	must(r.TTL(ctx, "k").Val() > 50*time.Second, "ttl")
	same(int64(3))(r.Append(ctx, "k", "yz").Result())
	same("yz")(r.GetRange(ctx, "k", 1, -1).Result())
	same("wyz")(r.GetDel(ctx, "k").Result())
	same("OK")(r.MSet(ctx, "a", 1, "b", 2).Result())
	same([]any{"1", nil, "2"})(r.MGet(ctx, "a", "missing", "b").Result())
	same(int64(11))(r.IncrBy(ctx, "a", 10).Result())
	same(11.5)(r.IncrByFloat(ctx, "a", 0.5).Result())
	same("11.5")(r.GetEx(ctx, "a", time.Minute).Result())
}

func bitmapsTour(r *redis.Client) {
	same(int64(0))(r.SetBit(ctx, "bits", 7, 1).Result())
	same(int64(1))(r.BitCount(ctx, "bits", nil).Result())
	same(int64(7))(r.BitPos(ctx, "bits", 1).Result())
	same(int64(1))(r.BitOpNot(ctx, "result", "bits").Result())
	same([]int64{0, 44})(r.BitField(ctx, "f", "SET", "u8", 0, 200, "INCRBY", "u8", 0, 100).Result())
}

func keysTour(r *redis.Client) {
	r.MSet(ctx, "one", 1, "two", 2)
	same(int64(2))(r.Exists(ctx, "one", "two", "three").Result())
	var keys []string
	for walk := r.Scan(ctx, 0, "*", 1).Iterator(); walk.Next(ctx); {
		keys = append(keys, walk.Val())
	}
	sort.Strings(keys)
	must(reflect.DeepEqual(keys, []string{"one", "two"}), "scan")
	same("string")(r.Type(ctx, "one").Result())
	same("OK")(r.Rename(ctx, "one", "uno").Result())
	same(int64(1))(r.Copy(ctx, "uno", "dos", 0, false).Result())
	same(true)(r.Expire(ctx, "uno", time.Minute).Result())
	same(false)(r.ExpireGT(ctx, "uno", time.Second).Result())
	same(true)(r.Persist(ctx, "uno").Result())
	same("int")(r.ObjectEncoding(ctx, "dos").Result())
	payload := r.Dump(ctx, "dos").Val()
	same("OK")(r.Restore(ctx, "tres", 0, payload).Result())
	same("1")(r.Get(ctx, "tres").Result())
	r.RPush(ctx, "list", 3, 1, 2)
	same([]string{"3", "2"})(r.Sort(ctx, "list", &redis.Sort{Order: "DESC", Offset: 0, Count: 2}).Result())
	same(int64(3))(r.Del(ctx, "uno", "dos", "tres", "x").Result())
	same(int64(2))(r.DBSize(ctx).Result())
}

func hashesTour(r *redis.Client) {
	same(int64(2))(r.HSet(ctx, "h", "a", 1, "b", 2).Result())
	same(map[string]string{"a": "1", "b": "2"})(r.HGetAll(ctx, "h").Result())
	same([]any{"1", nil})(r.HMGet(ctx, "h", "a", "x").Result())
	same(int64(6))(r.HIncrBy(ctx, "h", "a", 5).Result())
	same(true)(r.HExists(ctx, "h", "a").Result())
	same(int64(1))(r.HDel(ctx, "h", "a", "x").Result())
	same([]string{"b"})(r.HKeys(ctx, "h").Result())
	same([]redis.KeyValue{{Key: "b", Value: "2"}})(r.HRandFieldWithValues(ctx, "h", 1).Result())
	isNil(r.HGet(ctx, "h", "x").Result())
}

func listsTour(r *redis.Client) {
	same(int64(3))(r.RPush(ctx, "l", "a", "b", "c").Result())
	same([]string{"a", "b", "c"})(r.LRange(ctx, "l", 0, -1).Result())
	same("b")(r.LIndex(ctx, "l", 1).Result())
	same(int64(4))(r.LInsertBefore(ctx, "l", "b", "x").Result())
	same(int64(2))(r.LPos(ctx, "l", "b", redis.LPosArgs{}).Result())
	same("a")(r.LMove(ctx, "l", "m", "LEFT", "RIGHT").Result())
	same([]string{"c", "b"})(r.RPopCount(ctx, "l", 2).Result())
	key, values, err := r.LMPop(ctx, "LEFT", 5, "none", "l").Result()
	must(err == nil && key == "l" && reflect.DeepEqual(values, []string{"x"}), "lmpop")
	isNil(r.LPop(ctx, "none").Result())
}

func setsTour(r *redis.Client) {
	same(int64(3))(r.SAdd(ctx, "s", "a", "b", "c").Result())
	same(true)(r.SIsMember(ctx, "s", "a").Result())
	same([]bool{true, false})(r.SMIsMember(ctx, "s", "a", "x").Result())
	r.SAdd(ctx, "t", "c", "d")
	same([]string{"c"})(r.SInter(ctx, "s", "t").Result())
	same(int64(4))(r.SUnionStore(ctx, "u", "s", "t").Result())
	same(int64(1))(r.SInterCard(ctx, 0, "s", "t").Result())
	same(map[string]struct{}{"c": {}, "d": {}})(r.SMembersMap(ctx, "t").Result())
}

func sortedSetsTour(r *redis.Client) {
	same(int64(2))(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"}).Result())
	same(3.5)(r.ZIncrBy(ctx, "z", 2.5, "a").Result())
	same([]redis.Z{{Score: 2, Member: "b"}, {Score: 3.5, Member: "a"}})(r.ZRangeWithScores(ctx, "z", 0, -1).Result())
	same([]string{"a"})(r.ZRangeByScore(ctx, "z", &redis.ZRangeBy{Min: "(2", Max: "+inf"}).Result())
	same(int64(1))(r.ZRank(ctx, "z", "a").Result())
	same([]float64{3.5, 0})(r.ZMScore(ctx, "z", "a", "x").Result())
	same(int64(2))(r.ZUnionStore(ctx, "u", &redis.ZStore{Keys: []string{"z", "z"}, Weights: []float64{1, 2}}).Result())
	same(6.0)(r.ZScore(ctx, "u", "b").Result())
	same([]redis.Z{{Score: 3.5, Member: "a"}})(r.ZPopMax(ctx, "z").Result())
	same(int64(1))(r.ZCard(ctx, "z").Result())
}

func blockingTour(r *redis.Client) {
	served := make(chan []string)
	go func() { served <- r.BLPop(ctx, 10*time.Second, "q1", "q2").Val() }()
	for !strings.Contains(r.Info(ctx, "clients").Val(), "blocked_clients:1") {
	}
	r.RPush(ctx, "q2", "job")
	must(reflect.DeepEqual(<-served, []string{"q2", "job"}), "blpop")
	r.ZAdd(ctx, "zq", redis.Z{Score: 1, Member: "m"})
	must(r.BZPopMin(ctx, time.Second, "zq").Val().Member == "m", "bzpopmin")
}

func transactionsTour(r *redis.Client) {
	got, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "n", 1, 0)
		p.Incr(ctx, "n")
		return nil
	})
	must(err == nil && len(got) == 2 && got[1].(*redis.IntCmd).Val() == 2, "exec")
	err = r.Watch(ctx, func(tx *redis.Tx) error {
		r.Set(ctx, "n", 9, 0)
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "n"); return nil })
		return err
	}, "n")
	must(errors.Is(err, redis.TxFailedErr), "watch")
	cmds, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			p.Set(ctx, fmt.Sprint("p", i), i, 0)
		}
		return nil
	})
	must(err == nil && len(cmds) == 1000, "pipeline")
	must(strings.HasPrefix(r.LPush(ctx, "n", 1).Err().Error(), "WRONGTYPE"), "wrong type")
}

func scriptsTour(r *redis.Client) {
	add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	must(add.Run(ctx, r, []string{"n"}, 5).Val() == int64(5), "first run")
	same("OK")(r.ScriptFlush(ctx).Result())
	must(add.Run(ctx, r, []string{"n"}, 2).Val() == int64(7), "run of a flushed script")
	same([]bool{true})(add.Exists(ctx, r).Result())
	must(redis.HasErrorPrefix(r.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(), "NOSCRIPT"), "unknown script")
	same([]interface{}{int64(1), "x", nil})(r.Eval(ctx, "return {1.5, 'x', false}", nil).Slice())
	must(strings.HasPrefix(r.Eval(ctx, "return redis.call('incr', 'n', 1)", nil).Err().Error(), "ERR"), "error")
}

func streamsTour(r *redis.Client) {
	same("1-1")(r.XAdd(ctx, &redis.XAddArgs{Stream: "x", ID: "1-1", Values: []string{"a", "1"}}).Result())
	same("OK")(r.XGroupCreate(ctx, "x", "g", "0").Result())
	read := r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "me", Streams: []string{"x", ">"}}).Val()
	must(len(read) == 1 && read[0].Messages[0].Values["a"] == "1", "read by a group")
	pending := r.XPending(ctx, "x", "g").Val()
	must(pending.Count == 1 && pending.Consumers["me"] == 1, "pending")
	info := r.XInfoStreamFull(ctx, "x", 10).Val()
	must(info.Length == 1 && info.Groups[0].Name == "g" && info.Groups[0].PelCount == 1, "info")
	same(int64(1))(r.XAck(ctx, "x", "g", "1-1").Result())
	must(strings.HasPrefix(r.XGroupCreate(ctx, "x", "g", "0").Err().Error(), "BUSYGROUP"), "group twice")
}

func geographyTour(r *redis.Client) {
	palermo := &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}
	catania := &redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}
	same(int64(2))(r.GeoAdd(ctx, "g", palermo, catania).Result())
	same(166.2742)(r.GeoDist(ctx, "g", "Palermo", "Catania", "km").Result())
	near := &redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 100, RadiusUnit: "km"}
	same([]string{"Catania"})(r.GeoSearch(ctx, "g", near).Result())
	same(int64(1))(r.PFAdd(ctx, "p", 1, 2, 3).Result())
	same(int64(3))(r.PFCount(ctx, "p").Result())
}

func usersTour(r *redis.Client) {
	must(r.Do(ctx, "ACL", "SETUSER", "tourist", "on", ">secret", "~app:*", "+@read", "+set").Val() == "OK", "user")
	options := *r.Options()
	options.Username, options.Password = "tourist", "secret"
	tourist := redis.NewClient(&options)
	defer tourist.Close()
	same("OK")(tourist.Set(ctx, "app:1", "x", 0).Result())
	must(redis.HasErrorPrefix(tourist.Get(ctx, "other").Err(), "NOPERM"), "another key")
	same("OK")(r.ACLDryRun(ctx, "tourist", "get", "app:1").Result())
	must(len(r.ACLLog(ctx, 1).Val()) == 1 && r.Do(ctx, "ACL", "DELUSER", "tourist").Val() == int64(1), "log")
}

func administrationTour(r *redis.Client) {
	same("PONG")(r.Ping(ctx).Result())
	same("hi")(r.Echo(ctx, "hi").Result())
	must(strings.Contains(r.Info(ctx).Val(), "redis_version"), "info")
	same("OK")(r.ConfigSet(ctx, "slowlog-max-len", "128").Result())
	same(map[string]string{"slowlog-max-len": "128"})(r.ConfigGet(ctx, "slowlog-max-len").Result())
	must(r.ClientID(ctx).Val() > 0 && r.ClientList(ctx).Val() != "", "client")
	commands := r.Command(ctx).Val()
	must(commands["get"] != nil && commands["get"].ReadOnly && len(commands) > 100, "command")
	same([]string{"a", "b"})(r.CommandGetKeys(ctx, "MSET", "a", 1, "b", 2).Result())
	must(r.Time(ctx).Val().Year() > 2000, "time")
	must(r.MemoryUsage(ctx, "none").Err() == redis.Nil, "memory usage")
}

func main() {
	address := "127.0.0.1:" + os.Getenv("REDIS_PORT")
	tours := []struct {
		name string
		run  func(*redis.Client)
	}{
		{"strings", stringsTour}, {"bitmaps", bitmapsTour}, {"keys", keysTour}, {"hashes", hashesTour},
		{"lists", listsTour}, {"sets", setsTour}, {"sorted sets", sortedSetsTour}, {"blocking", blockingTour},
		{"transactions", transactionsTour}, {"administration", administrationTour},
		{"scripts", scriptsTour}, {"streams", streamsTour}, {"geography", geographyTour}, {"users", usersTour},
	}
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
		for _, tour := range tours {
			r.FlushAll(ctx)
			tour.run(r)
			fmt.Printf("go-redis RESP%d %s: ok\n", protocol, tour.name)
		}
		r.FlushAll(ctx)
	}
}
