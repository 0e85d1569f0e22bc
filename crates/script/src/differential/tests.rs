//! Scripts of the kinds that there are, and random ones.

use martlet_base::random::Random;

use super::*;

/// Scripts that must run without Lua.
const NATIVE: &[&str] = &[
    "return 1",
    "return redis.call('set', KEYS[1], ARGV[1])",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('set', KEYS[2], ARGV[2]) end return n",
    "redis.call('rpush', KEYS[3], 'a', 'b', 'c') local t = {} for i, v in ipairs(redis.call('lrange', KEYS[3], 0, -1)) do t[#t + 1] = i .. v end return t",
    "local t = {a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7} local out = {} for k, v in pairs(t) do out[#out + 1] = k .. v end return out",
    "local t = cjson.decode(ARGV[8]) t.n = {1, 2, 3} t.m = {} return cjson.encode(t)",
    "return {tostring(1e15), tostring(0.1), tostring(12345678901234.5), tostring(-0), 1e100 .. '', 2^53 .. ''}",
    "return {tonumber('10'), tonumber(' 7 '), tonumber('1e3'), tonumber('x') == nil, tonumber('1e') == nil}",
    "local function fact(n) if n < 2 then return 1 end return n * fact(n - 1) end return fact(10)",
    "local c = 0 local function add(n) c = c + n return c end add(2) add(3) return {c, add(1)}",
    "local fs = {} for i = 1, 3 do fs[i] = function() i = i + 10 return i end end return {fs[1](), fs[1](), fs[2](), fs[3]()}",
    "local function f(...) return select('#', ...), ... end return {f(1, nil, 3)}",
    "return {pcall(tonumber, '12')}",
    "return redis.pcall('fail')",
    "return redis.call('fail')",
    "local x = 1\nlocal y = redis.call('incr', KEYS[1])\n  redis.call('fail')\nreturn x",
    "local r = redis.pcall('fail') return {r.err, type(r), r['err'] ~= nil}",
    "return redis.call('nested')",
    "return redis.error_reply('My text')",
    "return redis.status_reply('FINE')",
    "return {ok = 'yes'}",
    "return {err = 'ERR no'}",
    "redis.log(redis.LOG_WARNING, 'a', 1, 'b') return redis.sha1hex('abc')",
    "return {string.sub('hello', 2, -2), ('x'):rep(3), string.format('%s-%d', 'a', 5), string.upper('abc'), ('a.b'):find('.', 1, true)}",
    "return {string.match('key:12', '(%d+)'), (string.gsub('a b c', ' ', '_')), string.format('%5.2f', 1.255)}",
    "return {math.floor(-1.5), math.ceil(1.2), math.max(1, 5, 3), math.huge > 1, math.abs(-3), 7 % -3, -7 % 3}",
    "local t = {} for i = 1, 100 do table.insert(t, i) end table.remove(t, 1) table.remove(t) return {#t, t[1], t[98], table.concat(t, ',', 1, 5)}",
    "local t = {1, 2, nil, 4} return {#t, select('#', unpack(t))}",
    "local i = 0 while true do i = i + 1 if i > 10 then break end end repeat i = i - 1 until i < 5 return i",
    "return {bit.band(255, 15), bit.bor(1, 2), bit.lshift(1, 4), bit.tohex(255)}",
    "local a, b = next({10}) return {a, b, next({}) == nil}",
    "KEYS[1] = 'changed' return {KEYS[1], #KEYS, KEYS[2]}",
    "local k = KEYS k[2] = 'other' return KEYS[2]",
    "return {redis.call('echo', 1, 2.5, 1e20, -0, 3.0, 'x')}",
    "local t = {} t[1] = 1 t[2] = 2 t[4] = 4 return {#t}",
    "for _, x in ipairs({3, 1, 2}) do redis.call('rpush', KEYS[3], x) end return redis.call('lrange', KEYS[3])",
    "local n = 0 for i = 1, 300000 do n = n + i end return n",
    "abandoned = nil",
    "redis.call('set', 'a', 1) redis.call('abandon')",
];

#[test]
fn common_scripts_run_without_lua() {
    let mut pair = Pair::default();
    for source in NATIVE {
        let path = pair.check(source);
        let expected = if *source == "abandoned = nil" { RunPath::Lua } else { RunPath::Native };
        assert_eq!(path, expected, "{source}");
    }
}

/// Scripts that Lua has to continue.
const LEFT: &[&str] = &[
    "redis.call('incr', KEYS[1]) return nil .. 'x'",
    "redis.log(redis.LOG_NOTICE, 'once') redis.call('incr', KEYS[1]) error('no')",
    "redis.call('incr', KEYS[1]) return pcall(redis.call, 'fail')",
    "redis.call('incr', KEYS[1]) local t = {} t[{}] = 1 redis.call('incr', KEYS[1]) return redis.call('incr', KEYS[1])",
    "redis.call('set', KEYS[1], 'x') local v = KEYS.x.y return v",
    "local n = redis.call('incr', KEYS[1]) redis.log(redis.LOG_NOTICE, n) return tostring({}) ~= '' and n",
    "redis.call('incr', KEYS[1]) return redis.call('get', {})",
    "local s = 'x' for i = 1, 26 do s = s .. s redis.call('incr', KEYS[1]) end return #s",
];

#[test]
fn scripts_that_lua_continues_call_nothing_twice() {
    let mut pair = Pair::default();
    for source in LEFT {
        assert_eq!(pair.check(source), RunPath::Left, "{source}");
    }
}

#[test]
fn random_scripts_are_seen_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MARTLET_SCRIPT_SEED").unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("MARTLET_SCRIPT_SEED={seed}");
    let mut random = Random::seeded(seed);
    let mut pair = Pair::default();
    seeds().iter().for_each(|seed| {
        pair.check(&generate(seed));
    });
    for _ in 0..number("MARTLET_SCRIPT_COUNT").unwrap_or(3000) {
        let len = 20 + random.next_u64() % 300;
        let data: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        pair.check(&generate(&data));
    }
    println!("{:?}", pair.paths);
}
