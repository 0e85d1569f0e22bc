// BullMQ: jobs with priorities, delays, retries, flows, rate limits, repetition, events and stalled workers.
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const connection = { port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const show = (...words) => console.log(words.map((word) => JSON.stringify(word)).join(' '));
const opened = [];
const open = (thing) => (opened.push(thing), thing.on?.('error', () => {}), thing);
const until = async (condition) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
};

async function outcomes() {
  const queue = open(new Queue('outcomes', { connection }));
  const events = open(new QueueEvents('outcomes', { connection }));
  await events.waitUntilReady();
  const worker = open(new Worker('outcomes', async (job) => {
    await job.updateProgress(50);
    await job.log(`working on ${job.name}`);
    if (job.data.fail) throw new Error(job.data.fail);
    return job.data.n * 2;
  }, { connection, concurrency: 4 }));
  const jobs = await queue.addBulk(Array.from({ length: 50 }, (_, n) => ({ name: `n${n}`, data: { n } })));
  show('results', await Promise.all(jobs.map((job) => job.waitUntilFinished(events))));
  const bad = await queue.add('bad', { fail: 'on purpose' });
  show('failed', await bad.waitUntilFinished(events).catch((error) => error.message));
  const again = await queue.getJob(bad.id);
  show('state', await again.getState(), again.attemptsMade, again.failedReason, again.progress);
  show('logs', await queue.getJobLogs(bad.id));
  show('counts', await queue.getJobCounts());
  show('cleaned', (await queue.clean(0, 10, 'completed')).length, await queue.getJobCounts());
  await worker.close();
}

async function order() {
  const queue = open(new Queue('order', { connection }));
  for (const [name, options] of [
    ['plain 1', {}], ['low', { priority: 10 }], ['high', { priority: 1 }], ['plain 2', {}], ['last', { lifo: true }],
    ['delayed', { delay: 300 }],
  ]) await queue.add(name, {}, options);
  show('counts', await queue.getJobCounts(), await queue.getCountsPerPriority([0, 1, 10]));
  for (const name of ['once', 'two']) show('duplicate', (await queue.add(name, {}, { jobId: 'same' })).id);
  show('waiting', (await queue.getWaiting()).map((job) => job.name));
  const seen = [];
  const worker = open(new Worker('order', async (job) => { seen.push(job.name); }, { connection }));
  await until(() => seen.length === 7);
  await until(async () => (await queue.getCompletedCount()) === 7);
  show('seen', seen);
  await worker.close();
}

async function retries() {
  const queue = open(new Queue('retries', { connection }));
  const tries = [];
  const worker = open(new Worker('retries', async (job) => {
    tries.push(job.attemptsMade);
    if (job.attemptsMade < 2) throw new Error('not yet');
    return 'at last';
  }, { connection }));
  const job = await queue.add('stubborn', {}, { attempts: 5, backoff: { type: 'exponential', delay: 20 } });
  const hopeless = await queue.add('hopeless', {}, { attempts: 2, backoff: 10 });
  await until(async () => (await job.getState()) === 'completed' && (await hopeless.getState()) === 'failed');
  show('stubborn', (await queue.getJob(job.id)).returnvalue, tries.filter((n) => n === 2).length);
  await (await queue.getJob(hopeless.id)).retry();
  await until(async () => (await hopeless.getState()) === 'completed');
  show('counts', await queue.getJobCounts());
  await worker.close();
}

async function flows() {
  const flow = open(new FlowProducer({ connection }));
  const tree = await flow.add({
    name: 'sum', queueName: 'flow', data: {},
    children: [1, 2, 3].map((n) => ({ name: `leaf ${n}`, queueName: 'leaves', data: { n } })),
  });
  show('parent', await tree.job.getState(), (await tree.job.getDependencies()).unprocessed.length);
  const leaves = open(new Worker('leaves', async (job) => job.data.n, { connection }));
  const sums = open(new Worker('flow', async (job) => {
    return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
  }, { connection }));
  await until(async () => (await tree.job.getState()) === 'completed');
  show('sum', (await new Queue('flow', { connection: open(new Redis(connection)) }).getJob(tree.job.id)).returnvalue);
  await Promise.all([leaves.close(), sums.close()]);
}

async function limits() {
  const queue = open(new Queue('limits', { connection }));
  let done = 0;
  await queue.addBulk(Array.from({ length: 6 }, (_, n) => ({ name: `n${n}`, data: {} })));
  await queue.pause();
  show('paused', await queue.isPaused(), await queue.getJobCounts());
  await queue.resume();
  const began = Date.now();
  const limiter = { max: 2, duration: 200 };
  const worker = open(new Worker('limits', async () => { done++; }, { connection, limiter }));
  await until(() => done === 6);
  show('limited', Date.now() - began >= 350);
  await worker.close();
}

async function repetition() {
  const queue = open(new Queue('repetition', { connection }));
  await queue.upsertJobScheduler('tick', { every: 50 }, { name: 'tick', data: { of: 'a clock' } });
  let ticks = 0;
  const worker = open(new Worker('repetition', async () => { ticks++; }, { connection }));
  await until(() => ticks >= 3);
  show('schedulers', (await queue.getJobSchedulers()).map(({ key, every, name }) => [key, Number(every), name]));
  show('removed', await queue.removeJobScheduler('tick'), (await queue.getJobSchedulers()).length);
  await worker.close();
}

async function stalled() {
  const queue = open(new Queue('stalled', { connection }));
  const job = await queue.add('abandoned', {});
  const dead = open(new Worker('stalled', null, { connection, lockDuration: 100 }));
  show('taken', (await dead.getNextJob('token')).id === job.id, await job.getState());
  const worker = open(new Worker('stalled', async () => 'rescued', { connection, stalledInterval: 100 }));
  await until(async () => (await job.getState()) === 'completed');
  show('rescued', (await queue.getJob(job.id)).returnvalue);
  await Promise.all([worker.close(), dead.close()]);
}

async function removal() {
  const queue = open(new Queue('removal', { connection }));
  const opts = (n) => ({ delay: n % 2 ? 1e6 : 0 });
  await queue.addBulk(Array.from({ length: 10 }, (_, n) => ({ name: `n${n}`, data: {}, opts: opts(n) })));
  await (await queue.getJob('1')).remove();
  await (await queue.getJob('2')).promote();
  show('promoted', await queue.getJobCounts());
  await queue.drain();
  show('drained', await queue.getJobCounts());
  await queue.obliterate({ force: true });
  const redis = open(new Redis(connection));
  show('left', await redis.keys('bull:removal:*'));
}

for (const part of [outcomes, order, retries, flows, limits, repetition, stalled, removal]) {
  show(part.name);
  await part();
}
await Promise.all(opened.map((thing) => (thing.quit ?? thing.close).call(thing).catch(() => {})));
process.exit(0);
