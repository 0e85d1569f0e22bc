// A tour of a cluster with node-redis while slots move and a replica takes over: what was counted is there.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createCluster } from "redis";

const counters = 200;
const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${process.env.REDIS_PORT}` }] });
cluster.on("error", () => {});

async function commands(r) {
  const keys = Array.from({ length: 100 }, (_, i) => `key:${i}`);
  await Promise.all(keys.map((key, i) => r.set(key, i)));
  assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys.map((_, i) => String(i)));
  assert.equal(await r.mSet({ "{tag}a": "1", "{tag}b": "2" }), "OK");
  assert.deepEqual(await r.mGet(["{tag}a", "{tag}b"]), ["1", "2"]);
  const script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
  assert.equal(await r.eval(script, { keys: ["{tag}a"], arguments: ["5"] }), 6);
  await assert.rejects(r.mGet(["{one}a", "{two}a"]), /CROSSSLOT/);
  assert.deepEqual(await r.multi().incr("{m}1").incr("{m}1").exec(), [1, 2]);
  let received;
  const message = new Promise((resolve) => (received = resolve));
  await r.sSubscribe("channel", (text, channel) => received([channel, text]));
  await r.sPublish("channel", "hello");
  assert.deepEqual(await message, ["channel", "hello"]);
  await r.sUnsubscribe("channel");
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

await cluster.connect();
await commands(cluster);
await counts(cluster);
await cluster.disconnect();
