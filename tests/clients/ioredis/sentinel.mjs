// A tour of servers under Sentinels with ioredis while they fail over: what was acknowledged is there.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const counters = Array.from({ length: 20 }, (_, i) => `counter:${i}`);
const sentinels = process.env.SENTINEL_PORTS.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const options = { sentinels, name: "mymaster", maxRetriesPerRequest: null };
const primary = new Redis(options);
const replica = new Redis({ ...options, role: "slave" });
primary.on("error", () => {});
replica.on("error", () => {});

// The server may be about to go: again until it is acknowledged.
async function untilDone(action) {
  for (const end = Date.now() + 90000; ; await sleep(50)) {
    try {
      return await action();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

let round = 0;
while (!existsSync(process.env.TOUR_END)) {
  round += 1;
  for (const reply of await Promise.all(counters.map((key) => untilDone(() => primary.set(key, round)))))
    assert.equal(reply, "OK");
}
assert.ok(round > 1);
for (const value of await Promise.all(counters.map((key) => untilDone(() => primary.get(key)))))
  assert.equal(value, String(round));
assert.equal((await untilDone(() => primary.role()))[0], "master");
assert.equal((await untilDone(() => replica.role()))[0], "slave");
primary.disconnect();
replica.disconnect();
