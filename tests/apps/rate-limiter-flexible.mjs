// rate-limiter-flexible: points, blocks, penalties, bursts, queues and unions, over both Node clients.
import { Redis } from 'ioredis';
import { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible';
import { createClient } from 'redis';

const port = Number(process.env.REDIS_PORT);
const show = (...words) => console.log(words.map((word) => JSON.stringify(word)).join(' '));
const told = ({ consumedPoints, remainingPoints, isFirstInDuration, msBeforeNext }) =>
  [consumedPoints, remainingPoints, isFirstInDuration, msBeforeNext > 0];
const tried = (promise) => promise.then((answer) => ['granted', ...told(answer)], (answer) =>
  (answer instanceof Error ? [answer.message] : ['refused', ...told(answer)]));

async function limiters(title, storeClient, more) {
  const usual = { storeClient, keyPrefix: title, points: 3, duration: 60, ...more };
  const make = (options) => new RateLimiterRedis({ ...usual, ...options });
  const limiter = make();
  for (let i = 0; i < 5; i++) show(title, 'consume', await tried(limiter.consume('user')));
  show(title, 'get', told(await limiter.get('user')), await limiter.get('nobody'));
  show(title, 'penalty', told(await limiter.penalty('user', 2)), 'reward', told(await limiter.reward('user', 6)));
  show(title, 'block', told(await limiter.block('user', 100)), await tried(limiter.consume('user')));
  show(title, 'delete', await limiter.delete('user'), await limiter.delete('user'));
  show(title, 'afterwards', await tried(limiter.consume('user')));
  show(title, 'set', told(await limiter.set('user', 2, 30)), await tried(limiter.consume('user', 2)));
  const crowd = await Promise.all(Array.from({ length: 10 }, () => tried(limiter.consume('crowd'))));
  show(title, 'at once', crowd.map(([kind]) => kind));

  const blocking = make({ keyPrefix: `${title}-block`, blockDuration: 500 });
  for (let i = 0; i < 5; i++) await tried(blocking.consume('user'));
  const blocked = await blocking.get('user');
  show(title, 'blocked', blocked.consumedPoints > 3, blocked.msBeforeNext > 400_000);

  const short = make({ keyPrefix: `${title}-short`, points: 1, duration: 1 });
  show(title, 'short', (await tried(short.consume('user')))[0], (await tried(short.consume('user')))[0]);
  await new Promise((resolve) => setTimeout(resolve, 1100));
  show(title, 'refilled', (await tried(short.consume('user')))[0]);

  const forever = make({ keyPrefix: `${title}-forever`, duration: 0 });
  await forever.consume('user');
  const [counted, remaining] = told(await forever.get('user'));
  show(title, 'forever', counted, remaining);

  const few = make({ keyPrefix: `${title}-few`, points: 1 });
  const union = new RateLimiterUnion(few, make({ keyPrefix: `${title}-many`, points: 5 }));
  await union.consume('user');
  show(title, 'union', await union.consume('user').then(() => [], (refused) => Object.keys(refused)));

  const slow = make({ keyPrefix: `${title}-slow`, points: 1 });
  const bursty = new BurstyRateLimiter(slow, make({ keyPrefix: `${title}-burst`, points: 2 }));
  const burst = [];
  for (let i = 0; i < 4; i++) burst.push((await tried(bursty.consume('user')))[0]);
  show(title, 'burst', burst);

  const queue = new RateLimiterQueue(make({ keyPrefix: `${title}-queue`, points: 3, duration: 1 }));
  const began = Date.now();
  await Promise.all(Array.from({ length: 5 }, () => queue.removeTokens(1)));
  show(title, 'queued', Date.now() - began >= 900);
}

const ioredis = new Redis({ port });
await limiters('ioredis', ioredis, {});
const nodeRedis = await createClient({ url: `redis://localhost:${port}` }).connect();
await limiters('node-redis', nodeRedis, { useRedisPackage: true });
const broken = new RateLimiterRedis({ storeClient: ioredis, points: 1, duration: 1, keyPrefix: 'broken' });
await ioredis.lpush('broken:user', 'a list');
show('wrong type', await tried(broken.consume('user')));
await Promise.all([ioredis.quit(), nodeRedis.quit()]);
process.exit(0);
