// A tour of the commands with ioredis; every step asserts what Redis answers.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';

const port = Number(process.env.REDIS_PORT ?? 6379);
const r = new Redis({ port });
const same = assert.deepEqual;

const groups = {
  async strings() {
    same(await r.set('k', 'v', 'EX', 100, 'NX'), 'OK');
    same(await r.set('k', 'w', 'NX'), null);
    same(await r.get('k'), 'v');
    assert.ok(await r.pttl('k') > 90000);
    same(await r.getset('k', 'w'), 'v');
    same(await r.getex('k', 'PERSIST'), 'w');
    same(await r.mset('a', 1, 'b', 2), 'OK');
    same(await r.mget('a', 'missing', 'b'), ['1', null, '2']);
    same(await r.incrby('a', 9), 10);
    same(await r.incrbyfloat('a', 0.5), '10.5');
    same(await r.setrange('k', 3, 'x'), 4);
    same((await r.getBuffer('k')).equals(Buffer.from('w\0\0x')), true);
    await assert.rejects(r.incr('k'), /not an integer/);
  },
  async bitmaps() {
    same(await r.setbit('bits', 7, 1), 0);
    same(await r.bitcount('bits'), 1);
    same(await r.bitop('XOR', 'result', 'bits', 'none'), 1);
    same(await r.bitfield('f', 'SET', 'u8', 0, 255, 'OVERFLOW', 'FAIL', 'INCRBY', 'u8', 0, 1), [0, null]);
  },
  async keys() {
    await r.mset({ one: 1, two: 2 });
    same(await r.exists('one', 'two', 'three'), 2);
    const scanned = [];
    for await (const keys of r.scanStream({ count: 1 })) scanned.push(...keys);
    same(scanned.sort(), ['one', 'two']);
    same(await r.copy('one', 'uno'), 1);
    same(await r.rename('uno', 'eins'), 'OK');
    same(await r.expire('eins', 100, 'NX'), 1);
    same(await r.object('ENCODING', 'eins'), 'int');
    const payload = await r.dumpBuffer('one');
    same(await r.restore('again', 0, payload), 'OK');
    same(await r.get('again'), '1');
    same(await r.unlink('one', 'two', 'x'), 2);
    await r.rpush('list', 3, 1, 2);
    same(await r.sort('list', 'DESC', 'LIMIT', 0, 2), ['3', '2']);
  },
  async hashes() {
    same(await r.hset('h', { a: 1, b: 2 }), 2);
    same(await r.hgetall('h'), { a: '1', b: '2' });
    same(await r.hincrbyfloat('h', 'a', 1.5), '2.5');
    same(await r.hmget('h', 'a', 'x'), ['2.5', null]);
    same(await r.hscan('h', 0, 'MATCH', 'b'), ['0', ['b', '2']]);
    same(await r.hdel('h', 'a', 'b'), 2);
  },
  async lists() {
    same(await r.rpush('l', 'a', 'b', 'c'), 3);
    same(await r.lrange('l', 0, -1), ['a', 'b', 'c']);
    same(await r.lmove('l', 'm', 'LEFT', 'LEFT'), 'a');
    same(await r.lpos('l', 'c'), 1);
    same(await r.lpop('l', 2), ['b', 'c']);
    same(await r.lmpop(2, 'l', 'm', 'LEFT'), ['m', ['a']]);
  },
  async sets() {
    same(await r.sadd('s', 'a', 'b', 'c'), 3);
    same((await r.smembers('s')).sort(), ['a', 'b', 'c']);
    same(await r.smismember('s', 'a', 'x'), [1, 0]);
    await r.sadd('t', 'c');
    same(await r.sinter('s', 't'), ['c']);
    same(await r.sintercard(2, 's', 't'), 1);
    same((await r.spop('s', 5)).length, 3);
  },
  async sortedSets() {
    same(await r.zadd('z', 1, 'a', 2, 'b'), 2);
    same(await r.zadd('z', 'GT', 'CH', 5, 'a'), 1);
    same(await r.zrange('z', 0, -1, 'WITHSCORES'), ['b', '2', 'a', '5']);
    same(await r.zrangebyscore('z', '(2', '+inf', 'LIMIT', 0, 1), ['a']);
    same(await r.zincrby('z', 0.5, 'a'), '5.5');
    same(await r.zrevrank('z', 'a'), 0);
    same(await r.zunion(2, 'z', 'z', 'WITHSCORES'), ['b', '4', 'a', '11']);
    same(await r.zpopmin('z'), ['b', '2']);
  },
  async blocking() {
    const other = new Redis({ port });
    const served = other.bzpopmin('zq', 10);
    while (!(await r.info('clients')).includes('blocked_clients:1')) { /* wait for it */ }
    await r.zadd('zq', 3, 'job');
    same(await served, ['zq', 'job', '3']);
    same(await other.blmove('none', 'x', 'LEFT', 'LEFT', 0.01), null);
    other.disconnect();
  },
  async transactions() {
    same(await r.multi().set('n', 1).incr('n').exec(), [[null, 'OK'], [null, 2]]);
    const other = new Redis({ port });
    await other.watch('n');
    await r.set('n', 5);
    same(await other.multi().incr('n').exec(), null);
    other.disconnect();
    const pipeline = r.pipeline();
    for (let i = 0; i < 1000; i++) pipeline.set(`p${i}`, i);
    same((await pipeline.exec()).every(([error]) => error === null), true);
  },
  async scripts() {
    r.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    same([await r.add('n', 5), await r.add('n', 2)], [5, 7]);
    same(await r.script('FLUSH'), 'OK');
    same(await r.add('n', 1), 8);
    const sha = await r.script('LOAD', 'return {KEYS, ARGV}');
    same(await r.evalsha(sha, 1, 'k', 'a', 'b'), [['k'], ['a', 'b']]);
    same(await r.script('EXISTS', sha, '0'.repeat(40)), [1, 0]);
    await assert.rejects(r.evalsha('0'.repeat(40), 0), /NOSCRIPT/);
    await assert.rejects(r.eval("return redis.call('set', 'x')", 0), /Wrong number of args/);
    same(await r.pipeline().add('n', 1).add('n', 1).exec(), [[null, 9], [null, 10]]);
  },
  async streams() {
    same(await r.xadd('x', '1-1', 'a', 1), '1-1');
    same(await r.xadd('x', '2-*', 'b', 2), '2-0');
    same(await r.xrange('x', '(1-1', '+'), [['2-0', ['b', '2']]]);
    same(await r.xgroup('CREATE', 'x', 'g', 0), 'OK');
    same(await r.xreadgroup('GROUP', 'g', 'me', 'COUNT', 1, 'STREAMS', 'x', '>'), [['x', [['1-1', ['a', '1']]]]]);
    same(await r.xpending('x', 'g'), [1, '1-1', '1-1', [['me', '1']]]);
    same(await r.xautoclaim('x', 'g', 'you', 0, 0, 'JUSTID'), ['0-0', ['1-1'], []]);
    same(await r.xack('x', 'g', '1-1'), 1);
    await assert.rejects(r.xadd('x', '1-1', 'a', 1), /equal or smaller than the target stream top item/);
    const other = new Redis({ port });
    const served = other.xread('BLOCK', 10000, 'STREAMS', 'x', '$');
    while (!(await r.info('clients')).includes('blocked_clients:1')) { /* wait for it */ }
    await r.xadd('x', '3-0', 'c', 3);
    same(await served, [['x', [['3-0', ['c', '3']]]]]);
    other.disconnect();
  },
  async geography() {
    same(await r.geoadd('g', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'), 2);
    same(await r.geodist('g', 'Palermo', 'Catania'), '166274.1516');
    same(await r.geosearch('g', 'FROMLONLAT', 15, 37, 'BYBOX', 400, 400, 'km', 'ASC'), ['Catania', 'Palermo']);
    same(await r.pfadd('p', 'a', 'b'), 1);
    same(await r.pfcount('p', 'none'), 2);
  },
  async users() {
    same(await r.acl('SETUSER', 'tourist', 'on', '>secret', '~app:*', '+@read', '+set'), 'OK');
    const tourist = new Redis({ port, username: 'tourist', password: 'secret', enableReadyCheck: false });
    same(await tourist.set('app:1', 'x'), 'OK');
    await assert.rejects(tourist.get('other'), /NOPERM/);
    await assert.rejects(tourist.flushall(), /NOPERM/);
    same(await r.acl('DELUSER', 'tourist'), 1);
    tourist.disconnect();
  },
  async administration() {
    same(await r.ping(), 'PONG');
    same(await r.client('SETNAME', 'tour'), 'OK');
    assert.ok((await r.client('LIST')).includes('name=tour'));
    same(await r.config('GET', 'databases'), ['databases', '16']);
    assert.ok((await r.info('server')).includes('redis_version'));
    assert.ok(await r.command('COUNT') > 100);
    same(await r.select(1), 'OK');
    same(await r.dbsize(), 0);
    same(await r.select(0), 'OK');
    const monitor = await r.monitor();
    const seen = new Promise((resolve) => monitor.on('monitor', (_time, args) => resolve(args)));
    await r.echo('watched');
    same((await seen).map((word) => word.toLowerCase()), ['echo', 'watched']);
    monitor.disconnect();
  },
};

for (const [name, group] of Object.entries(groups)) {
  await r.flushall();
  await group();
  console.log(`ioredis ${name}: ok`);
}
await r.flushall();
await r.quit();
