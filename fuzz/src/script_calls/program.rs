//! Programs of Lua that call the functions of the sandbox with extreme values, within each other and within
//! every function that takes a callback.
//!
//! Invariant: the same input and functions give the same program; the program's reply has every outcome.

use crate::mutate::Mutator;

/// What each program begins with.
const PRELUDE: &str = include_str!("prelude.lua");

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "9",
    "10",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "65",
    "100",
    "127",
    "128",
    "199",
    "200",
    "255",
    "256",
    "1000",
    "7980",
    "7999",
    "8000",
    "8001",
    "20000",
    "65535",
    "65536",
    "100000",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483647",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e15",
    "1e100",
    "1.7e308",
    "-1.7e308",
    "1/0",
    "-1/0",
    "0/0",
    "0.5",
    "-0.5",
    "1.5",
    "1e-320",
    "-0",
];

/// Lengths of repetitions.
const COUNTS: &[&str] = &[
    "1", "2", "3", "15", "16", "31", "32", "33", "64", "198", "199", "200", "250", "999", "1000", "1001",
    "2500",
];

const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'0'",
    "'1'",
    "'-1'",
    "'1e1'",
    "'0x10'",
    "' 10 '",
    "'nan'",
    "'inf'",
    "'abcabcabc'",
    "'\\0'",
    "'a\\0b'",
    "'%'",
    "'%%'",
    "'%1'",
    "'%2'",
    "'%0'",
    "'%b'",
    "'%b('",
    "'%b()'",
    "'%bxx'",
    "'%f'",
    "'%f[%a]'",
    "'['",
    "'[^'",
    "'[a-'",
    "'[]'",
    "'[]]'",
    "'[^]'",
    "'[%'",
    "'[a-z]+'",
    "'('",
    "')'",
    "'()'",
    "'(a'",
    "'(a)(b)?'",
    "'(()'",
    "'.'",
    "'.*'",
    "'.-'",
    "'.-b'",
    "'^a'",
    "'a$'",
    "'^$'",
    "'%w+%s*'",
    "'(.)%1'",
    "'%d'",
    "'%5d'",
    "'%s'",
    "'%q'",
    "'%c'",
    "'%i'",
    "'%x'",
    "'%f'",
    "'%.99f'",
    "'%99.99f'",
    "'%100d'",
    "'%.100f'",
    "'%5.2s'",
    "'%-+ #0d'",
    "'%-+ #00d'",
    "'%g %e %G'",
    "'%u'",
    "'%p'",
    "'%*d'",
    "'%s%s%s%s'",
    "'%.3q'",
    "'b'",
    "'B'",
    "'h'",
    "'l'",
    "'i3'",
    "'i32'",
    "'i33'",
    "'i2147483648'",
    "'i99999999999999999999'",
    "'>I4<i2'",
    "'!8xi4d'",
    "'!3'",
    "'!2147483648'",
    "'bc0'",
    "'c0'",
    "'c5'",
    "'c2147483647'",
    "'s'",
    "'ss'",
    "'f'",
    "'d'",
    "'x'",
    "'T'",
    "'z'",
    "'[1,2,3]'",
    "'{\"a\":1}'",
    "'[1,]'",
    "'{\"a\"}'",
    "'[nan,inf,-inf,0x1F]'",
    "'\"\\\\u0000\\\\ud83d\\\\ude00\"'",
    "'\"\\\\ud800\"'",
    "'null'",
    "'tru'",
    "'1e999'",
    "'[\"a\",null,{}]'",
    "'{\"a\":{\"a\":{\"a\":[]}}}'",
    "'\\145\\1'",
    "'\\192'",
    "'\\193'",
    "'\\221\\255\\255\\255\\255'",
    "'\\223\\255\\255\\255\\255\\1\\1'",
    "'\\129\\192\\1'",
    "'\\203\\127\\248\\0\\0\\0\\0\\0\\0'",
    "'\\217\\5ab'",
    "'\\222\\0\\1\\1\\2'",
    "'\\207\\255\\255\\255\\255\\255\\255\\255\\255'",
    "'return 1'",
    "'return ...'",
    "'return'",
    "'x ='",
    "'return {}, nil, 1'",
    "'error()'",
    "'[==['",
    "'[=x'",
    "'--[==['",
    "'--'",
    "'\"\\\\300\"'",
    "'\\27Lua'",
    "'#!lua\\n'",
    "'return \\'a'",
    "'collect'",
    "'count'",
    "'step'",
    "'setpause'",
    "'setstepmul'",
    "'stop'",
    "'#'",
    "'off'",
    "'on'",
    "'null'",
    "'-ERR a\\r\\nb'",
    "'OK'",
    "'k1'",
    "'-'",
    "'+'",
    "'err'",
    "'__index'",
];

/// Repeated expressions, with `%` for the number of repetitions.
const REPEATED: &[&str] = &[
    "rep('x', %)",
    "rep('ab', %)",
    "rep('a?', %)",
    "rep('a*', %)",
    "rep('a-', %)",
    "rep('(a)', %)",
    "rep('(', %)",
    "rep('%a', %)",
    "rep('[a]+', %)",
    "rep('.-', %)..'b'",
    "rep('B', %)",
    "rep('s', %)",
    "rep('x', %)..'i4'",
    "rep('[', %)..rep(']', %)",
    "rep('[', %)",
    "rep('{\"a\":', %)..'1'..rep('}', %)",
    "rep('\\145', %)..'\\1'",
    "rep('\\129\\1', %)..'\\1'",
    "rep('\\144', %)",
    "rep('\\1', %)",
    "'\\221\\0\\0\\7\\208'..rep('\\144', %)",
    "'return '..rep('(', %)..'1'..rep(')', %)",
    "'return '..rep('{', %)..rep('}', %)",
    "'return '..rep('-', %)..'1'",
    "'return '..rep('not ', %)..'1'",
    "rep('do ', %)..rep(' end', %)",
    "'local a=1 return '..rep('a..', %)..'a'",
    "'return '..rep('1+', %)..'1'",
    "'return function() '..rep('return function() ', %)..rep(' end', %)..' end'",
    "'local a'..rep(',a', %)",
    "'return ['..rep('=', %)..'[a]'..rep('=', %)..']'",
    "'return ['..rep('=', %)",
    "'--['..rep('=', %)..'['",
    "rep('%s', %)",
    "rep('%5d', %)",
    "T(%)",
    "D(%)",
    "O(%)",
    "T(%)[1]",
    "{unpack(T(%))}",
    "'return {'..rep('1,', %)..'}'",
    "'return \"'..rep('\\\\n', %)..'\"'",
];

const TABLES: &[&str] = &[
    "{}",
    "{1,2,3}",
    "{3,1,2}",
    "{'b','a'}",
    "{1,'a'}",
    "{a=1,b={c=2}}",
    "{[1]=1,[3]=3}",
    "{[1]=1,[2147483647]=2}",
    "{[-1]=1,[0]=2}",
    "{[1.5]=1}",
    "{[true]=1}",
    "{nil,nil,3}",
    "{0/0,1/0}",
    "self",
    "G(3)",
    "G(10)",
    "{err='E x'}",
    "{err=1}",
    "{err={}}",
    "{ok='x'}",
    "{double=1.5}",
    "{map={a=1}}",
    "{set={a=true}}",
    "{big_number='1'}",
    "{verbatim_string={format='txt',string='a'}}",
    "setmetatable({}, {__index=T(3)})",
    "setmetatable({}, {__metatable='m'})",
    "setmetatable({}, {__tostring=function() return 'shown' end})",
    "setmetatable({}, {__call=function(...) return select('#', ...) end})",
    "setmetatable({}, {__mode='kv'})",
    "setmetatable({}, {__index=function(t, k) return k end})",
    "setmetatable({1,2}, {__newindex=error})",
    "setmetatable({}, {__lt=error,__le=error,__eq=error,__concat=error,__add=error,__unm=error})",
    "(_G)",
    "(redis)",
    "(string)",
    "(cjson)",
    "(table)",
    "(getmetatable(''))",
    "(getmetatable(_G))",
    "(getmetatable(redis))",
];

const FUNCTIONS: &[&str] = &[
    "function(...) return ... end",
    "function() return 1 end",
    "function() end",
    "function() return unpack(T(7990)) end",
    "function() error('E') end",
    "function() error({err='E x'}) end",
    "function() error() end",
    "function() error(nil) end",
    "function() error(self) end",
    "function(a, b) return a < b end",
    "function() return true end",
    "function() return {} end",
    "coroutine.yield",
    "wrap(function() coroutine.yield(1) error('late') end)",
    "function(f) return pcall(f, f) end",
    "function() local function f() return 1 + f() end return f() end",
];

const OTHERS: &[&str] = &[
    "nil",
    "true",
    "false",
    "cjson.null",
    "coroutine.create(function(...) return ... end)",
    "coroutine.create(function(...) coroutine.yield(...) error('E') end)",
    "coroutine.create(error)",
];

/// Commands for `redis.call` and its kin.
const COMMANDS: &[&str] = &[
    "'ping'",
    "'echo','a'",
    "'set','k1','v'",
    "'get','k1'",
    "'incr','k2'",
    "'lpush','k3','a','b'",
    "'lrange','k3',0,-1",
    "'hset','k4','f','v'",
    "'hgetall','k4'",
    "'zadd','k5',1,'m'",
    "'zrange','k5',0,-1,'WITHSCORES'",
    "'mget','k1','no'",
    "'type','k1'",
    "'get','k3'",
    "'no-such-command'",
    "'multi'",
    "'subscribe','c'",
    "'eval','return 1',0",
    "'del','k1'",
    "'exists','k1','k3'",
    "'append','k1','x'",
    "'setrange','k1',2147483648,'x'",
    "'lpush','k3'",
    "'PING'",
    "1",
    "{}",
];

/// Where choices come from: bytes of an input, then a generator that they seed.
pub struct Choices<'d> {
    bytes: &'d [u8],
    random: Mutator,
}

impl<'d> Choices<'d> {
    /// Of an input.
    pub fn new(bytes: &'d [u8]) -> Choices<'d> {
        let seed = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        Choices { bytes, random: Mutator::new(seed) }
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let Some((low, rest)) = self.bytes.split_first() else { return self.random.below(bound) };
        self.bytes = rest;
        if bound <= 256 {
            return usize::from(*low) % bound;
        }
        let high = self.bytes.split_first().map_or(0, |(high, rest)| {
            self.bytes = rest;
            usize::from(*high)
        });
        (high << 8 | usize::from(*low)) % bound
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

/// The program that an input is, of functions with these names.
pub fn program(names: &[String], input: &[u8]) -> String {
    let mut choices = Choices::new(input);
    let mut program = PRELUDE.to_owned();
    for _ in 0..=choices.below(4) {
        let statement = statement(names, &mut choices);
        program.push_str(&format!("out[#out + 1] = show({statement})\n"));
    }
    program.push_str("return concat(out, '\\30')");
    program
}

/// A protected call of something that calls a function of the sandbox.
fn statement(names: &[String], choices: &mut Choices<'_>) -> String {
    let name = names[choices.below(names.len())].as_str();
    let arguments = arguments(names, name, choices);
    let call = format!("{name}({arguments})");
    let within = format!("function() return {call} end");
    let other = value(names, choices, 1);
    let depth = choices.below(206);
    match choices.below(20) {
        0 | 1 => format!("pcall({within})"),
        2..=5 => match arguments.is_empty() {
            true => format!("pcall({name})"),
            false => format!("pcall({name}, {arguments})"),
        },
        6 => format!("pcall(wrap({within}))"),
        7 => format!("pcall(function() return setmetatable({{}}, {{__index={within}}}).x end)"),
        8 => format!("pcall(function() return tostring(setmetatable({{}}, {{__tostring={within}}})) end)"),
        9 => format!(
            "pcall(function() local m = {{__concat={within},__lt={within},__unm={within}}} \
             local t = setmetatable({{}}, m) return t .. 1, -t, t < setmetatable({{}}, m) end)"
        ),
        10 => format!("pcall(gsub, 'ab', '.', {within})"),
        11 => format!("pcall(sort, {{3, 1, 2}}, {within})"),
        12 => format!("pcall(load, {within})"),
        13 => format!("pcall(table.foreach, {{1, 2}}, {within})"),
        14 => format!("xpcall({within}, {other})"),
        15 => format!("pcall(nest, {depth}, {within})"),
        16 => format!("pcall(subs, {depth}, {within})"),
        17 => format!("pcall(threads, {depth}, {within})"),
        18 => format!("pcall(wrap(function() local r = {{{call}}} coroutine.yield(r) end))"),
        _ => format!("xpcall(function() return {call} end, function(...) return {name}(...) end)"),
    }
}

/// A call's arguments: few, or as many as a function can be given.
fn arguments(names: &[String], name: &str, choices: &mut Choices<'_>) -> String {
    let mut all = Vec::new();
    if name.starts_with("redis.") && choices.below(4) > 0 {
        all.push(choices.one_of(COMMANDS).to_owned());
    }
    for _ in 0..choices.below(5) {
        all.push(value(names, choices, 0));
    }
    match choices.below(12) {
        0 => all.push(format!("unpack(T({}))", 7960 + choices.below(50))),
        1 => {
            all.push(vec!["1"; 1 + choices.below(230)].join(","));
            all.push(format!("unpack(T({}))", 7760 + choices.below(250)));
        }
        _ => {}
    }
    all.join(", ")
}

fn value(names: &[String], choices: &mut Choices<'_>, depth: usize) -> String {
    match choices.below(16) {
        0..=3 => choices.one_of(NUMBERS).to_owned(),
        4..=6 => choices.one_of(STRINGS).to_owned(),
        7 | 8 => {
            // Now and then more than any bound there is.
            let count = match choices.below(16) {
                0 => "70000",
                _ => choices.one_of(COUNTS),
            };
            let text = choices.one_of(REPEATED);
            // Patterns have `%` of their own, before a letter.
            text.replace("%)", &format!("{count})"))
        }
        9 | 10 => choices.one_of(TABLES).to_owned(),
        11 | 12 => choices.one_of(FUNCTIONS).to_owned(),
        13 => choices.one_of(OTHERS).to_owned(),
        14 => names[choices.below(names.len())].clone(),
        _ if depth < 2 => {
            let name = names[choices.below(names.len())].clone();
            let (one, two) = (value(names, choices, depth + 1), value(names, choices, depth + 1));
            // Its errors are values, too.
            format!("(select(2, pcall({name}, {one}, {two})))")
        }
        _ => "1".to_owned(),
    }
}
