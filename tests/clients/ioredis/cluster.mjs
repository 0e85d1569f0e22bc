// A tour of a cluster with ioredis while slots move and a replica takes over: what was counted is there.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { Redis, Cluster } from "ioredis";

const port = Number(process.env.REDIS_PORT);
const counters = 200;
const cluster = new Cluster([{ host: "127.0.0.1", port }], { slotsRefreshTimeout: 10000 });

async function commands(r) {
  await r.set("ready", 1);
  assert.equal(r.nodes("master").length, 3);
  const keys = Array.from({ length: 100 }, (_, i) => `key:${i}`);
  await Promise.all(keys.map((key, i) => r.set(key, i)));
  assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys.map((_, i) => String(i)));
  assert.equal(await r.mset("{tag}a", 1, "{tag}b", 2), "OK");
  assert.deepEqual(await r.mget("{tag}a", "{tag}b"), ["1", "2"]);
  assert.equal(await r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "{tag}a", 5), 6);
  await assert.rejects(r.mget("{one}a", "{two}a"), /CROSSSLOT/);
  const piped = await r.pipeline([["set", "{p}1", 1], ["incr", "{p}1"], ["get", "{p}1"]]).exec();
  assert.deepEqual(piped.map(([, reply]) => reply), ["OK", 2, "2"]);
  const multi = await r.multi().incr("{m}1").incr("{m}1").exec();
  assert.deepEqual(multi.map(([, reply]) => reply), [1, 2]);
  const subscriber = new Redis({ host: "127.0.0.1", port });
  const message = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await subscriber.subscribe("channel");
  await r.publish("channel", "hello");
  assert.deepEqual(await message, ["channel", "hello"]);
  subscriber.disconnect();
}

async function counts(r) {
  let rounds = 0;
  const names = Array.from({ length: counters }, (_, i) => `counter:${i}`);
  while (!existsSync(process.env.TOUR_END)) {
    rounds += 1;
    for (const value of await Promise.all(names.map((name) => r.incr(name)))) assert.equal(value, rounds);
  }
  assert.ok(rounds > 0);
  for (const value of await Promise.all(names.map((name) => r.get(name)))) assert.equal(value, String(rounds));
}

await commands(cluster);
await counts(cluster);
cluster.disconnect();
