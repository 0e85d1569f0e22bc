// redlock: locks that exclude others, are extended, run out and free themselves, over one server's clients.
import { Redis } from 'ioredis';
import Redlock from 'redlock';

const port = Number(process.env.REDIS_PORT);
const clients = [0, 1, 2].map((db) => new Redis({ port, db }));
const lenient = new Redlock(clients, { retryCount: 200, retryDelay: 5, retryJitter: 5 });
const strict = new Redlock(clients, { retryCount: 0 });
const show = (...words) => console.log(words.map((word) => JSON.stringify(word)).join(' '));
const refused = (promise) => promise.then(() => 'granted', (error) => error.name);

const lock = await strict.lock('resource', 60_000);
show('taken', lock.expiration > Date.now());
show('second', await refused(strict.lock('resource', 1000)));
show('several', await refused(strict.lock(['other', 'resource'], 1000)), await clients[0].exists('other'));
const longer = await lock.extend(120_000);
show('extended', (await clients[1].pttl('resource')) > 60_000);
await longer.unlock();
show('freed', await clients[2].exists('resource'), await refused(longer.unlock()));

const brief = await strict.lock('brief', 50);
while (await clients[0].exists('brief')) await new Promise((resolve) => setTimeout(resolve, 5));
show('ran out', await refused(strict.lock('brief', 1000)), await refused(brief.extend(1000)));

let inside = 0;
let most = 0;
await Promise.all(Array.from({ length: 20 }, async () => {
  const held = await lenient.lock('section', 5000);
  await enter();
  await held.unlock();
}));
async function enter() {
  most = Math.max(most, ++inside);
  const balance = Number(await clients[0].get('balance'));
  await clients[0].set('balance', balance + 1);
  inside--;
}
show('excluded', most, await clients[0].get('balance'));

await clients[0].set('majority', 'somebody else');
show('two of three', await refused(strict.lock('majority', 1000)));
await clients[1].set('minority', 'x');
await clients[2].set('minority', 'x');
show('one of three', await refused(strict.lock('minority', 1000)), await clients[0].exists('minority'));
await Promise.all(clients.map((client) => client.quit()));
