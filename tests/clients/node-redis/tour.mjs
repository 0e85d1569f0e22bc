// A tour of the commands with node-redis; every step asserts what Redis answers.
import assert from 'node:assert/strict';
import { createClient, WatchError } from 'redis';

const url = `redis://127.0.0.1:${process.env.REDIS_PORT ?? 6379}`;
const connect = () => createClient({ url }).on('error', (error) => { throw error; }).connect();
const r = await connect();
const same = assert.deepEqual;
// Replies with field names come in objects without a prototype.
const plain = (value) => JSON.parse(JSON.stringify(value));

const groups = {
  async strings() {
    same(await r.set('k', 'v'), 'OK');
    same(await r.get('k'), 'v');
    same(await r.get('missing'), null);
    same(await r.set('k', 'w', { NX: true }), null);
    same(await r.set('k', 'w', { EX: 100, GET: true }), 'v');
    assert.ok(await r.ttl('k') > 90);
    same(await r.append('k', 'yz'), 3);
    same(await r.getRange('k', 1, -1), 'yz');
    same(await r.setRange('k', 1, '__'), 3);
    same(await r.getDel('k'), 'w__');
    same(await r.mSet({ a: '1', b: '2' }), 'OK');
    same(await r.mGet(['a', 'missing', 'b']), ['1', null, '2']);
    same(await r.incrBy('a', 10), 11);
    same(await r.decr('a'), 10);
    same(await r.incrByFloat('a', 0.5), '10.5');
  },
  async bitmaps() {
    same(await r.setBit('bits', 7, 1), 0);
    same(await r.getBit('bits', 7), 1);
    same(await r.bitCount('bits'), 1);
    same(await r.bitPos('bits', 1), 7);
    same(await r.bitOp('NOT', 'result', 'bits'), 1);
    same(await r.bitField('f', [{ operation: 'SET', encoding: 'u8', offset: 0, value: 200 },
      { operation: 'INCRBY', encoding: 'u8', offset: 0, increment: 100 }]), [0, 44]);
  },
  async keys() {
    await r.mSet({ one: '1', two: '2' });
    same(await r.exists(['one', 'two', 'three']), 2);
    same((await r.keys('*')).sort(), ['one', 'two']);
    const scanned = [];
    for await (const key of r.scanIterator({ COUNT: 1 })) scanned.push(key);
    same(scanned.sort(), ['one', 'two']);
    same(await r.type('one'), 'string');
    same(await r.rename('one', 'uno'), 'OK');
    same(await r.copy('uno', 'dos'), true);
    same(await r.expire('uno', 100), true);
    same(await r.persist('uno'), true);
    same(await r.pExpireAt('uno', 33177117420123), true);
    same(await r.pExpireTime('uno'), 33177117420123);
    same(await r.objectEncoding('dos'), 'int');
    await r.rPush('list', ['3', '1', '2']);
    same(await r.sort('list'), ['1', '2', '3']);
    same(await r.del(['uno', 'dos', 'x']), 2);
    same(await r.unlink('two'), 1);
  },
  async hashes() {
    same(await r.hSet('h', { a: '1', b: '2' }), 2);
    same(await r.hGet('h', 'a'), '1');
    same(plain(await r.hGetAll('h')), { a: '1', b: '2' });
    same(await r.hmGet('h', ['a', 'x']), ['1', null]);
    same(await r.hIncrBy('h', 'a', 5), 6);
    same((await r.hKeys('h')).sort(), ['a', 'b']);
    same(await r.hExists('h', 'x'), false);
    same(await r.hDel('h', ['a', 'x']), 1);
    same((await r.hScan('h', 0)).tuples, [{ field: 'b', value: '2' }]);
  },
  async lists() {
    same(await r.rPush('l', ['a', 'b', 'c']), 3);
    same(await r.lPush('l', 'z'), 4);
    same(await r.lRange('l', 0, -1), ['z', 'a', 'b', 'c']);
    same(await r.lIndex('l', 1), 'a');
    same(await r.lInsert('l', 'BEFORE', 'b', 'x'), 5);
    same(await r.lPos('l', 'b'), 3);
    same(await r.lRem('l', 0, 'x'), 1);
    same(await r.lMove('l', 'm', 'LEFT', 'RIGHT'), 'z');
    same(await r.rPopCount('l', 2), ['c', 'b']);
    same(await r.lPop('none'), null);
  },
  async sets() {
    same(await r.sAdd('s', ['a', 'b', 'c']), 3);
    same((await r.sMembers('s')).sort(), ['a', 'b', 'c']);
    same(await r.sIsMember('s', 'a'), true);
    same(await r.smIsMember('s', ['a', 'x']), [true, false]);
    await r.sAdd('t', ['c', 'd']);
    same(await r.sInter(['s', 't']), ['c']);
    same((await r.sUnion(['s', 't'])).length, 4);
    same(await r.sDiffStore('u', ['s', 't']), 2);
    same(await r.sInterCard(['s', 't']), 1);
    same(await r.sMove('s', 't', 'a'), true);
  },
  async sortedSets() {
    same(await r.zAdd('z', [{ score: 1, value: 'a' }, { score: 2, value: 'b' }]), 2);
    same(await r.zScore('z', 'a'), 1);
    same(await r.zIncrBy('z', 2.5, 'a'), 3.5);
    same(await r.zRangeWithScores('z', 0, -1), [{ value: 'b', score: 2 }, { value: 'a', score: 3.5 }]);
    same(await r.zRange('z', '(2', '+inf', { BY: 'SCORE' }), ['a']);
    same(await r.zRank('z', 'a'), 1);
    same(await r.zCount('z', '-inf', '+inf'), 2);
    same(await r.zmScore('z', ['a', 'x']), [3.5, null]);
    same(await r.zUnionStore('u', ['z', 'z']), 2);
    same(await r.zPopMax('z'), { value: 'a', score: 3.5 });
    same(await r.zRem('z', 'b'), 1);
  },
  async blocking() {
    const other = await connect();
    const served = other.blPop(['q1', 'q2'], 10);
    while (!(await r.info('clients')).includes('blocked_clients:1')) { /* wait for it */ }
    await r.rPush('q2', 'job');
    same(plain(await served), { key: 'q2', element: 'job' });
    same(await other.blPop('none', 0.01), null);
    await other.quit();
  },
  async transactions() {
    same(await r.multi().set('n', '1').incr('n').get('n').exec(), ['OK', 2, '2']);
    const other = await connect();
    await assert.rejects(r.executeIsolated(async (isolated) => {
      await isolated.watch('n');
      await other.set('n', '9');
      return isolated.multi().incr('n').exec();
    }), WatchError);
    await other.quit();
    same((await Promise.all(Array.from({ length: 1000 }, (_, i) => r.set(`p${i}`, `${i}`)))).length, 1000);
    await assert.rejects(r.lPush('n', '1'), /WRONGTYPE/);
  },
  async scripts() {
    const sha = await r.scriptLoad("return redis.call('incrby', KEYS[1], ARGV[1])");
    same(await r.evalSha(sha, { keys: ['n'], arguments: ['5'] }), 5);
    same(await r.scriptExists([sha, '0'.repeat(40)]), [true, false]);
    same(await r.scriptFlush(), 'OK');
    await assert.rejects(r.evalSha(sha, { keys: ['n'], arguments: ['5'] }), /NOSCRIPT/);
    same(await r.eval("return {1.5, 'x', cjson.encode({a = 1})}"), [1, 'x', '{"a":1}']);
  },
  async streams() {
    same(await r.xAdd('x', '1-1', { a: '1' }), '1-1');
    same(await r.xGroupCreate('x', 'g', '0'), 'OK');
    const [{ name, messages }] = await r.xReadGroup('g', 'me', { key: 'x', id: '>' });
    same([name, messages[0].id, messages[0].message.a], ['x', '1-1', '1']);
    same((await r.xPending('x', 'g')).pending, 1);
    same(await r.xAck('x', 'g', '1-1'), 1);
  },
  async geography() {
    same(await r.geoAdd('g', { longitude: 13.361389, latitude: 38.115556, member: 'Palermo' }), 1);
    same(await r.geoHash('g', 'Palermo'), ['sqc8b49rny0']);
    same(await r.geoSearch('g', { longitude: 13, latitude: 38 }, { radius: 100, unit: 'km' }), ['Palermo']);
    same(await r.pfAdd('p', ['a', 'b']), true);
    same(await r.pfCount('p'), 2);
  },
  async users() {
    same(await r.aclSetUser('tourist', ['on', '>secret', '~app:*', '+@read', '+set']), 'OK');
    same((await r.aclGetUser('tourist')).keys, '~app:*');
    const tourist = await r.duplicate({ username: 'tourist', password: 'secret' }).connect();
    same(await tourist.set('app:1', 'x'), 'OK');
    await assert.rejects(tourist.get('other'), /NOPERM/);
    await tourist.quit();
    same(await r.aclDelUser('tourist'), 1);
  },
  async administration() {
    same(await r.ping(), 'PONG');
    same(await r.echo('hi'), 'hi');
    same(await r.clientSetName('tour'), 'OK');
    same(await r.clientGetName(), 'tour');
    assert.ok((await r.info()).includes('redis_version'));
    same(await r.configSet('slowlog-max-len', '128'), 'OK');
    same(plain(await r.configGet('slowlog-max-len')), { 'slowlog-max-len': '128' });
    assert.ok(await r.commandCount() > 100);
    same((await r.commandGetKeys(['MSET', 'a', '1', 'b', '2'])), ['a', 'b']);
    assert.ok((await r.time()) instanceof Date);
  },
};

for (const [name, group] of Object.entries(groups)) {
  await r.flushAll();
  await group();
  console.log(`node-redis ${name}: ok`);
}
await r.flushAll();
await r.quit();
