//! Scripts made of bytes, each of which decides a choice of the grammar.
//!
//! Invariant: every script ends, and shows the values of its variables by a walk in the order of `pairs`.

use std::fmt::Write;

/// Shows a value in the order in which `pairs` walks through it.
const SHOW: &str = "
local function show(v, depth)
  if type(v) == 'table' then
    if depth > 4 then return 'deep' end
    local parts = {}
    for k, e in pairs(v) do parts[#parts + 1] = show(k, depth + 1) .. '=' .. show(e, depth + 1) end
    return '{' .. table.concat(parts, ',') .. '#' .. #v .. '}'
  elseif type(v) == 'string' then return '\"' .. v .. '\"'
  elseif type(v) == 'number' or type(v) == 'boolean' or v == nil then return tostring(v)
  else return type(v) end
end
";

/// Values of the kinds that functions take; no address is shown.
const KINDS: &str = "
local as_text = tostring
local function tostring(v) if type(v) == 'table' or type(v) == 'function' then return type(v) end return as_text(v) end
local function N(v) return tonumber(v) or 3 end
local function S(v) if type(v) == 'string' or type(v) == 'number' then return v end return type(v) end
local function T(v) if type(v) == 'table' then return v end return {v, 2} end
";

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "5",
    "10",
    "0.5",
    "-0.5",
    "1e14",
    "12345678901234.5",
    "1e15",
    "123456789012345",
    "2^53",
    "-2^31",
    "2^31",
    "1e300",
    "1/0",
    "-1/0",
    "0/0",
    "-0",
    "0.1",
    "100.25",
    "1e-5",
    "0.30000000000000004",
    "7",
    "4",
    "9007199254740993",
    "2.5",
    "3.5",
    "1e100",
    "1234567890123.45",
];

const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'abc'",
    "'1'",
    "'10'",
    "'-2.5'",
    "' 7 '",
    "'0x10'",
    "'1e3'",
    "'nan'",
    "'inf'",
    "'a\\0b'",
    "'1\\0'",
    "'key'",
    "'ok'",
    "'err'",
    "'\\r\\n'",
    "'x-y'",
    "'%d'",
    "'/\"\\\\\\t'",
    "'Hello, World'",
    "'\\195\\169'",
    "'1.'",
    "'.5'",
    "'+5'",
    "'1e'",
    "'a long string that has more than thirty-one bytes'",
    "'map'",
    "'double'",
];

const INPUTS: &[&str] = &[
    "KEYS[1]", "KEYS[2]", "KEYS[3]", "KEYS[4]", "ARGV[1]", "ARGV[2]", "ARGV[3]", "ARGV[4]", "ARGV[5]",
    "ARGV[6]", "ARGV[7]", "ARGV[8]", "ARGV[9]", "ARGV[10]", "#KEYS", "#ARGV",
];

/// Functions, with the kinds of their arguments.
const FUNCTIONS: &[(&str, &str)] = &[
    ("tonumber", "v"),
    ("tostring", "s"),
    ("type", "v"),
    ("string.len", "s"),
    ("string.lower", "s"),
    ("string.upper", "s"),
    ("string.reverse", "s"),
    ("math.floor", "n"),
    ("math.ceil", "n"),
    ("math.abs", "n"),
    ("math.sqrt", "n"),
    ("cjson.encode", "v"),
    ("cjson.decode", "s"),
    ("redis.sha1hex", "s"),
    ("redis.error_reply", "s"),
    ("redis.status_reply", "s"),
    ("table.getn", "t"),
    ("unpack", "t"),
    ("#", "t"),
    ("-", "n"),
    ("not ", "v"),
    ("string.byte", "s"),
    ("bit.bnot", "n"),
    ("bit.tobit", "n"),
    ("next", "t"),
    ("math.modf", "n"),
    ("assert", "v"),
    ("table.maxn", "t"),
    ("math.exp", "n"),
    ("string.rep", "sn"),
    ("string.sub", "sn"),
    ("string.sub", "snn"),
    ("string.find", "ss"),
    ("string.find", "ssn"),
    ("string.format", "fss"),
    ("string.format", "fnn"),
    ("math.max", "nnn"),
    ("math.min", "nn"),
    ("math.fmod", "nn"),
    ("math.pow", "nn"),
    ("table.concat", "t"),
    ("table.concat", "ts"),
    ("rawget", "tv"),
    ("rawequal", "vv"),
    ("select", "nv"),
    ("bit.band", "nn"),
    ("bit.bor", "nn"),
    ("bit.bxor", "nnn"),
    ("bit.lshift", "nn"),
    ("bit.rshift", "nn"),
    ("bit.arshift", "nn"),
    ("string.match", "ss"),
    ("string.byte", "snn"),
    ("unpack", "tn"),
    ("unpack", "tnn"),
    ("tonumber", "sn"),
    ("string.gsub", "sss"),
    ("table.concat", "tsnn"),
    ("cjson.decode", "j"),
    ("cmsgpack.unpack", "p"),
    ("cmsgpack.unpack", "p"),
    ("cjson.encode", "t"),
    ("string.char", "n"),
];

/// Operators, with the kinds of their operands.
const OPERATORS: &[(&str, &str)] = &[
    ("+", "nn"),
    ("-", "nn"),
    ("*", "nn"),
    ("/", "nn"),
    ("%", "nn"),
    ("^", "nn"),
    ("..", "ss"),
    ("==", "vv"),
    ("~=", "vv"),
    ("<", "nn"),
    ("<=", "nn"),
    (">", "nn"),
    (">=", "nn"),
    ("and", "vv"),
    ("or", "vv"),
    ("..", "ss"),
    ("+", "ns"),
    ("-", "sn"),
    ("..", "ns"),
    ("==", "ss"),
    ("..", "sn"),
    ("and", "vn"),
    ("or", "vt"),
];

const FORMATS: &[&str] =
    &["'%s|%d'", "'%d%%'", "'%s'", "'%5.1f'", "'%x'", "'%q'", "'%g'", "'%03d'", "'%s %s'", "'%.3f'"];

const DOCUMENTS: &[&str] = &[
    "ARGV[8]",
    "'[]'",
    "'{}'",
    "'[1, 2.5, \"x\", null, true]'",
    "'{\"b\": {\"c\": [[], {}]}, \"a\": -1e2}'",
    "'0'",
    "'[1,]'",
    "'{\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\":5,\"k1\":6}'",
    "'\"\\\\u0041\\\\n\"'",
    "' [ 1 , 2 ] '",
    "'[-0, 0.1, 1E5, 01]'",
    "'tru'",
];

const MESSAGES: &[&str] = &[
    "'\\147\\1\\203\\63\\240\\0\\0\\0\\0\\0\\0\\161a'",
    "'\\130\\161a\\1\\161b\\147\\1\\2\\192'",
    "'\\217\\3abc\\195\\194\\255'",
    "'\\133\\161a\\1\\161b\\2\\161c\\3\\161d\\4\\161e\\144'",
    "'\\202\\63\\128\\0\\0\\209\\255\\254'",
    "'\\220\\0\\2\\5'",
    "''",
];

const COMMANDS: &[&str] = &[
    "'get', KEYS[1]",
    "'get', KEYS[3]",
    "'incr', KEYS[2]",
    "'del', KEYS[1]",
    "'lrange', KEYS[3]",
    "'type', KEYS[3]",
    "'nested'",
    "'echo', 1, 2.5, 'x'",
    "'fail'",
    "'unknown'",
    "'get', KEYS[2]",
];

/// Depth of expressions and blocks.
const DEPTH_MAX: usize = 4;
const VARIABLES_MAX: usize = 12;

struct Generator<'d> {
    data: &'d [u8],
    out: String,
    /// Names in scope.
    names: Vec<String>,
    made: usize,
    statements: usize,
    loops: usize,
}

impl Generator<'_> {
    /// A choice among `of`.
    fn choose(&mut self, of: usize) -> usize {
        match self.data.split_first() {
            Some((byte, rest)) => {
                self.data = rest;
                usize::from(*byte) % of
            }
            None => 0,
        }
    }

    fn of<'s>(&mut self, list: &[&'s str]) -> &'s str {
        list[self.choose(list.len())]
    }

    fn name(&mut self) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let at = self.choose(self.names.len());
        Some(self.names[at].clone())
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("v{}", self.made)
    }

    /// An expression of a kind: `n`umber, `s`tring, `t`able, `f`ormat, `j`SON, any `v`alue. One of a few
    /// dozen is of any kind all the same.
    fn of_kind(&mut self, kind: char, depth: usize) -> String {
        let name = self.name();
        let wrap = match kind {
            _ if self.choose(60) == 59 => "",
            'f' => return self.of(FORMATS).into(),
            'j' => return self.of(DOCUMENTS).into(),
            'p' => return self.of(MESSAGES).into(),
            'n' if self.choose(2) == 0 => return self.of(NUMBERS).into(),
            's' if self.choose(3) == 0 => return self.of(STRINGS).into(),
            's' if self.choose(3) == 0 => {
                return self.of(&["KEYS[1]", "ARGV[1]", "ARGV[3]", "ARGV[6]"]).into();
            }
            't' if self.choose(2) == 0 => return format!("({})", self.table(depth)),
            'n' => "N",
            's' => "S",
            't' => "T",
            _ => "",
        };
        match name {
            Some(name) if self.choose(2) == 0 => format!("{wrap}({name})"),
            _ => format!("{wrap}({})", self.expression(depth)),
        }
    }

    fn of_kinds(&mut self, kinds: &str, depth: usize) -> Vec<String> {
        kinds.chars().map(|kind| self.of_kind(kind, depth)).collect()
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth >= DEPTH_MAX || self.data.is_empty() {
            return match self.choose(4) {
                0 => self.of(NUMBERS).into(),
                1 => self.of(STRINGS).into(),
                2 => self.of(INPUTS).into(),
                _ => self.name().unwrap_or_else(|| "nil".into()),
            };
        }
        let next = depth + 1;
        match self.choose(16) {
            0 => self.of(NUMBERS).into(),
            1 => self.of(STRINGS).into(),
            2 => self.of(INPUTS).into(),
            3 | 4 => self.name().unwrap_or_else(|| "1".into()),
            5 => ["true", "false", "nil", "cjson.null"][self.choose(4)].into(),
            6 | 7 => {
                let (operator, kinds) = OPERATORS[self.choose(OPERATORS.len())];
                let operands = self.of_kinds(kinds, next);
                format!("({} {operator} {})", operands[0], operands[1])
            }
            8..=10 => {
                let (function, kinds) = FUNCTIONS[self.choose(FUNCTIONS.len())];
                format!("{function}({})", self.of_kinds(kinds, next).join(", "))
            }
            11 | 12 => self.table(next),
            13 => format!("{}[{}]", self.of_kind('t', next), self.of_kind('s', next)),
            14 => self.call(next),
            _ => {
                let (text, number) = (self.of_kind('s', next), self.of_kind('n', next));
                match self.choose(5) {
                    0 => format!("tostring({text}):sub({number}, {})", self.of_kind('n', next)),
                    1 => format!("tostring({text}):find({text}, 1, true)"),
                    2 => format!("select('#', {text}, {number})"),
                    3 => format!("('x' .. {text}):upper()"),
                    _ => format!("(pcall(tonumber, {text}))"),
                }
            }
        }
    }

    fn table(&mut self, depth: usize) -> String {
        let mut out = String::from("{");
        for _ in 0..self.choose(6) {
            match self.choose(4) {
                0 | 1 => write!(out, "{}, ", self.expression(depth)),
                2 => write!(
                    out,
                    "{} = {}, ",
                    self.of(&["a", "b", "ok", "key", "n", "x"]),
                    self.expression(depth)
                ),
                _ => write!(out, "[S({})] = {}, ", self.expression(depth), self.expression(depth)),
            }
            .unwrap_or_default();
        }
        if self.choose(6) == 0 {
            write!(out, "unpack({{1, {}}})", self.expression(depth)).unwrap_or_default();
        }
        out + "}"
    }

    fn call(&mut self, depth: usize) -> String {
        let function = self.of(&["redis.call", "redis.call", "redis.pcall", "pcall(redis.call"]);
        let arguments = match self.choose(4) {
            0 => format!("'set', KEYS[{}], {}", self.choose(2) + 1, self.of_kind('s', depth)),
            1 => {
                let values = self.of_kinds("sss", depth);
                format!("'rpush', KEYS[3], {}, unpack({{{}, {}}})", values[0], values[1], values[2])
            }
            _ => self.of(COMMANDS).into(),
        };
        if function.starts_with("pcall") {
            format!("select(2, {function}, {arguments}))")
        } else {
            format!("{function}({arguments})")
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn block(&mut self, depth: usize) {
        let names = self.names.len();
        for _ in 0..1 + self.choose(4) {
            self.statement(depth);
        }
        self.names.truncate(names);
    }

    fn assignment(&mut self, depth: usize) {
        let value = self.expression(depth);
        match self.name() {
            Some(name) if self.choose(2) == 0 || self.names.len() >= VARIABLES_MAX => {
                self.line(&format!("{name} = {value}"));
            }
            _ => {
                let name = self.new_name();
                self.line(&format!("local {name} = {value}"));
                self.names.push(name);
            }
        }
    }

    fn change(&mut self, depth: usize) {
        let Some(name) = self.name() else { return };
        let value = self.expression(depth);
        let text = match self.choose(6) {
            0 if value.ends_with(')') => format!("table.insert({name}, ({value}))"),
            0 => format!("table.insert({name}, {value})"),
            1 => format!("table.remove({name})"),
            2 => format!("{name}[#{name} + 1] = {value}"),
            3 => format!("table.insert({name}, 1, ({value}))"),
            4 => format!("{name}.a = {value}"),
            _ => format!("{name}[S({})] = {value}", self.expression(depth)),
        };
        let text =
            if self.choose(16) > 0 { format!("if type({name}) == 'table' then {text} end") } else { text };
        self.line(&text);
    }

    fn branch(&mut self, depth: usize) {
        let condition = self.expression(depth);
        self.line(&format!("if {condition} then"));
        self.block(depth + 1);
        if self.choose(2) == 0 {
            self.line("else");
            self.block(depth + 1);
        }
        self.line("end");
    }

    fn walk(&mut self, depth: usize) {
        self.loops += 1;
        let name = self.new_name();
        let head = match self.choose(6) {
            0 => format!("for {name} = 1, {} do", 1 + self.choose(5)),
            1 => format!("for {name} = {}, -2, -1.5 do", 1 + self.choose(5)),
            2 => format!("for _, {name} in ipairs({}) do", self.table_expression(depth)),
            3 => format!("for {name} in pairs({}) do", self.table_expression(depth)),
            4 => format!("for {name}, _ in next, {} do", self.table_expression(depth)),
            _ => format!("for {name} = 1, #{} do", self.table_expression(depth)),
        };
        self.line(&head);
        self.names.push(name);
        // What grows while it is walked through may never end.
        let guard = self.new_name();
        self.line(&format!("steps = steps + 1 if steps > 200 then break end local {guard} = steps"));
        self.block(depth + 1);
        self.names.pop();
        self.line("end");
    }

    fn table_expression(&mut self, depth: usize) -> String {
        match self.choose(4) {
            0 => "redis.call('lrange', KEYS[3], 0, -1)".into(),
            1 => "KEYS".into(),
            2 => self.table(depth + 1),
            _ => {
                let name = self.name().unwrap_or_else(|| "ARGV".into());
                format!("(type({name}) == 'table' and {name} or {{1, 2}})")
            }
        }
    }

    fn function(&mut self, depth: usize) {
        let (name, one, other) = (self.new_name(), self.new_name(), self.new_name());
        let has_rest = self.choose(3) == 0;
        self.line(
            &format!("local function {name}({one}, {}{other})", if has_rest { "..." } else { "" })
                .replace(&format!("...{other}"), "..."),
        );
        if has_rest {
            self.line(&format!("local {other} = select('#', ...) local all = {{...}}"));
        }
        let names = self.names.len();
        self.names.extend([one, other]);
        self.block(depth + 1);
        let value = self.expression(depth);
        self.line(&format!("return {value}"));
        self.names.truncate(names);
        self.line("end");
        let result = self.new_name();
        let how = self.choose(3);
        let (one, other) = (self.expression(depth), self.expression(depth));
        let call = match how {
            0 => format!("{name}({one})"),
            1 => format!("select(2, pcall({name}, {one}, {other}))"),
            _ => format!("{name}({one}, {other}, 3)"),
        };
        self.line(&format!("local {result} = {call}"));
        self.names.push(result);
    }

    fn statement(&mut self, depth: usize) {
        self.statements += 1;
        if self.statements > 60 || depth > DEPTH_MAX {
            return;
        }
        match self.choose(16) {
            0..=4 => self.assignment(1),
            5 | 6 => {
                let call = self.call(2);
                self.line(&format!("local _ = {call}"));
            }
            7 => {
                let call = self.of(COMMANDS);
                self.line(&format!("redis.call({call})"));
            }
            8 | 9 => self.change(2),
            10 => self.branch(depth),
            11 | 12 if self.loops < 4 => self.walk(depth),
            13 if depth < 2 => self.function(depth + 1),
            14 => {
                let value = self.expression(2);
                self.line(&format!("redis.log(redis.LOG_NOTICE, 'line', tostring(({value}) == nil), 1.5)"));
            }
            15 => {
                let value = self.expression(1);
                let steps = self.choose(40);
                self.line(&format!("if steps > {steps} then return {value} end"));
            }
            _ => self.assignment(1),
        }
    }
}

/// The script that bytes decide.
pub fn generate(data: &[u8]) -> String {
    let mut generator =
        Generator { data, out: String::new(), names: Vec::new(), made: 0, statements: 0, loops: 0 };
    let shows = generator.choose(8) > 1;
    if shows {
        generator.line(SHOW);
    }
    generator.line(KINDS);
    generator.line("local steps = 0");
    while !generator.data.is_empty() && generator.statements < 40 && generator.names.len() < VARIABLES_MAX {
        generator.statement(0);
    }
    let names = generator.names.clone();
    if shows {
        let shown: Vec<String> = names.iter().map(|name| format!("show({name}, 0)")).collect();
        generator.line(&format!("return {{{}}}", shown.join(", ")));
    } else {
        let value = generator.expression(0);
        generator.line(&format!("return {value}"));
    }
    generator.out
}

/// Choices to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..64u64)
        .map(|seed| {
            let mut random = martlet_base::random::Random::seeded(seed);
            (0..40 + seed * 4).map(|_| random.next_u64() as u8).collect()
        })
        .collect()
}
