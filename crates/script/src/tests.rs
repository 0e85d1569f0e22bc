//! Scripts against a host with scripted replies.

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::{Called, Engine, Host, Inputs, Interpreter, LogLevel, Run, Verdict, Version};

pub(crate) const MEMORY_MAX_BYTES: usize = 64 << 20;

/// Echoes: `raw X` answers X unchanged, `stop` cannot continue, anything else the arguments as an array.
#[derive(Default)]
pub(crate) struct Echo {
    calls: Vec<Vec<Vec<u8>>>,
    log: Vec<(LogLevel, Vec<u8>)>,
    interrupts: usize,
    kill_at: Option<usize>,
}

impl Echo {
    /// One that ends the script at this interrupt.
    pub(crate) fn killing_at(interrupt: usize) -> Echo {
        Echo { kill_at: Some(interrupt), ..Echo::default() }
    }
}

impl Host for Echo {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        self.calls.push(args.iter().map(<[u8]>::to_vec).collect());
        match args.at(0) {
            b"raw" => reply.raw().extend_from_slice(args.at(1)),
            b"stop" => return Called::Abandon,
            _ => {
                reply.array(args.len());
                args.iter().for_each(|arg| reply.bulk(arg));
            }
        }
        Called::Replied
    }

    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        (args.at(0) == b"get").then_some(true)
    }

    fn interrupt(&mut self) -> Verdict {
        self.interrupts += 1;
        match self.kill_at {
            Some(at) if self.interrupts >= at => Verdict::Kill("Script killed by user with SCRIPT KILL..."),
            _ => Verdict::Continue,
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.log.push((level, text.to_vec()));
    }

    fn set_propagation(&mut self, _: i64) {}
}

pub(crate) fn interpreter() -> Interpreter {
    Interpreter::new(Engine::Eval, Version { text: "7.0.15", number: 0x0007_000F }, MEMORY_MAX_BYTES)
}

pub(crate) fn run_on(interpreter: &mut Interpreter, source: &str, host: &mut Echo, resp3: bool) -> String {
    let script = match interpreter.compile(source.as_bytes()) {
        Ok(script) => script,
        Err(text) => return format!("compile: {}", String::from_utf8_lossy(&text)),
    };
    let mut reply = Reply::new(Vec::new(), resp3);
    let inputs = Inputs { name: "sha", keys: &[b"k1"], args: &[b"a1", b"a2"] };
    let outcome = interpreter.run(&script, inputs, host, &mut reply);
    interpreter.forget(script);
    match outcome {
        Run::Replied => String::from_utf8_lossy(reply.as_bytes()).replace("\r\n", " "),
        Run::Failed(error) => format!("-{}", String::from_utf8_lossy(&error.text)),
        Run::Abandoned => "abandoned".into(),
    }
}

pub(crate) fn run(source: &str) -> String {
    run_on(&mut interpreter(), source, &mut Echo::default(), false)
}

#[test]
fn values_become_replies() {
    assert_eq!(
        run("return {KEYS[1], ARGV[2], 3.99, true, false, {ok='fine'}, {1, nil, 2}}"),
        "*7 $2 k1 $2 a2 :3 :1 $-1 +fine *1 :1 "
    );
    assert_eq!(run("return nil"), "$-1 ");
    assert_eq!(run("return {err='X y'}"), "-X y");
    assert_eq!(run("return redis.error_reply('-MY text')"), "-MY text");
    assert_eq!(run("return redis.error_reply('TEXT')"), "-ERR TEXT");
    assert_eq!(run("return server.error_reply('TEXT')"), "-ERR TEXT");
    assert_eq!(run("return 2^60"), ":1152921504606846976 ");
    let mut interpreter = interpreter();
    let mut resp3 = |source: &str| run_on(&mut interpreter, source, &mut Echo::default(), true);
    assert_eq!(resp3("return {map={a=true}}"), "%1 $1 a :1 ");
    assert_eq!(resp3("redis.setresp(3) return {set={a=true}, 1}"), "~1 $1 a ");
    assert_eq!(resp3("redis.setresp(3) return {true, {double=1.5}, {big_number='12'}}"), "*3 #t ,1.5 (12 ");
    assert_eq!(resp3("return {verbatim_string={format='txt', string='hi'}}"), "=6 txt:hi ");
}

#[test]
fn replies_become_values() {
    let raw = |reply: &str, show: &str| {
        let reply = reply.replace(' ', "\\r\\n");
        run(&format!("redis.setresp(3) local r = redis.call('raw', '{reply}') return {show}"))
    };
    assert_eq!(raw("+OK ", "r.ok"), "$2 OK ");
    assert_eq!(raw(":12 ", "r + 1"), ":13 ");
    assert_eq!(raw("$-1 ", "r == false"), ":1 ");
    assert_eq!(raw("_ ", "type(r)"), "$3 nil ");
    assert_eq!(raw("%1 $1 a :7 ", "r.map.a"), ":7 ");
    assert_eq!(raw("~1 $1 a ", "r.set.a"), ":1 ");
    assert_eq!(raw(",1.5 ", "r.double * 2"), ":3 ");
    assert_eq!(raw("=6 txt:hi ", "r.verbatim_string.string .. r.verbatim_string.format"), "$5 hitxt ");
    assert_eq!(raw("|1 $1 a :1 *2 :1 $1 b ", "r[2]"), "$1 b ");
    assert_eq!(raw("%1 _ :7 ", "next(r.map) == nil"), ":1 ");
    assert_eq!(raw("*3 :1 ", "type(r)"), "$3 nil ");
}

#[test]
fn errors_name_their_place() {
    assert_eq!(run("error('x')"), "-ERR user_script:1: x script: sha, on @user_script:1.");
    assert_eq!(
        run("\nlocal x\nx()"),
        "-ERR user_script:3: attempt to call local 'x' (a nil value) script: sha, on @user_script:3."
    );
    assert_eq!(
        run("return redis.call()"),
        "-ERR Please specify at least one argument for this redis lib call script: sha, on @user_script:1."
    );
    assert_eq!(
        run("redis.call({})"),
        "-ERR Lua redis lib command arguments must be strings or integers script: sha, on @user_script:1."
    );
    assert_eq!(
        run("redis.call('raw', '-WRONGTYPE bad\\r\\n')"),
        "-WRONGTYPE bad script: sha, on @user_script:1."
    );
    assert_eq!(run("return {pcall(redis.call, 'raw', '-A b\\r\\n')}"), "*2 $-1 $3 A b ");
    assert_eq!(run("return redis.pcall('raw', '-A b\\r\\n').err"), "$3 A b ");
    assert_eq!(run("error({err='X y'})"), "-X y script: sha, on @user_script:1.");
    assert_eq!(run("error({})"), "-ERR unknown error script: sha, on @user_script:1.");
    assert_eq!(run("error()"), "-ERR nil script: sha, on @user_script:1.");
    assert_eq!(run("return +"), "compile: user_script:1: unexpected symbol near '+'");
    assert_eq!(
        run("return math.random(0)"),
        "-ERR user_script:1: bad argument #1 to 'random' (interval is empty) script: sha, on @user_script:1."
    );
}

#[test]
fn nothing_global_can_be_changed() {
    const PLACED: &str =
        "-ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.";
    const BARE: &str = "-ERR Attempt to modify a readonly table script: sha, on @user_script:1.";
    let mut interpreter = interpreter();
    let mut run = |source: &str| run_on(&mut interpreter, source, &mut Echo::default(), false);
    for source in [
        "a = 1",
        "redis = 1",
        "redis.call = 1",
        "string.x = 1",
        "_G.x = 1",
        "_G = {}",
        "getmetatable(_G).__index = 1",
        "getmetatable('').__index = 1",
        "function f() end",
    ] {
        assert_eq!(run(source), PLACED, "{source}");
    }
    for source in
        ["rawset(_G, 'a', 1)", "setmetatable(_G, {})", "table.insert(redis, 1)", "setmetatable(redis, nil)"]
    {
        assert_eq!(run(source), BARE, "{source}");
    }
    assert_eq!(
        run("return a"),
        "-ERR user_script:1: Script attempted to access nonexistent global variable 'a' script: sha, on @user_script:1."
    );
    for gone in ["print", "dofile", "loadfile", "newproxy", "getfenv", "setfenv", "require", "io", "debug"] {
        assert!(run(&format!("return {gone}")).contains("nonexistent global"), "{gone}");
    }
    assert_eq!(
        run("local n = 0 for k in pairs(os) do n = n + 1 end return {n, type(os.clock())}"),
        "*2 :1 $6 number "
    );
    assert_eq!(run("local n = 0 for k in pairs(redis) do n = n + 1 end return n > 15"), ":1 ");
    assert_eq!(
        run("return {rawget(redis, 'REPL_ALL'), _G.redis.REPL_ALL, getmetatable(redis) == nil}"),
        "*3 :3 :3 :1 "
    );
    assert_eq!(run("return loadstring('return 1 + 1')()"), ":2 ");
    assert_eq!(
        run("local p = {'return ', '5'} local i = 0 return load(function() i = i + 1 return p[i] end)()"),
        ":5 "
    );
    assert!(run("return loadstring(string.dump(function() end))()").contains("attempt to call a nil value"));
    assert!(run("local done return load(function() if not done then done = true return string.dump(function() end) end end)()").starts_with('-'));
    assert!(
        run_on(&mut super::tests::interpreter(), "\x1bLua", &mut Echo::default(), false)
            .starts_with("compile")
    );
}

#[test]
fn arguments_and_the_log_reach_the_host() {
    let mut host = Echo::default();
    let mut interpreter = interpreter();
    let source = "redis.log(redis.LOG_WARNING, 'a', 1, 'b') redis.call('x', 1, 1e15, 0.1, -3) return {redis.acl_check_cmd('get', 'x'), redis.sha1hex('')}";
    assert_eq!(
        run_on(&mut interpreter, source, &mut host, false),
        "*2 :1 $40 da39a3ee5e6b4b0d3255bfef95601890afd80709 "
    );
    assert_eq!(
        host.calls,
        [[b"x".to_vec(), b"1".to_vec(), b"1000000000000000".to_vec(), b"0.1".to_vec(), b"-3".to_vec()]]
    );
    assert_eq!(host.log, [(LogLevel::Warning, b"a 1 b".to_vec())]);
}

#[test]
fn a_script_that_must_end_cannot_catch_it() {
    let mut interpreter = interpreter();
    let killed = "-ERR Script killed by user with SCRIPT KILL... script: sha, on @user_script:1.";
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) while true do pcall(f) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
    ] {
        let mut host = Echo { kill_at: Some(3), ..Echo::default() };
        assert_eq!(run_on(&mut interpreter, source, &mut host, false), killed, "{source}");
    }
    let source = "pcall(redis.call, 'stop') redis.call('x') return 1";
    let mut host = Echo::default();
    assert_eq!(run_on(&mut interpreter, source, &mut host, false), "abandoned");
    assert_eq!(host.calls.len(), 1);
    assert_eq!(run_on(&mut interpreter, "return 1", &mut host, false), ":1 ");
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let mut interpreter = interpreter();
    let mut run = |source: &str| run_on(&mut interpreter, source, &mut Echo::default(), false);
    let full = "-ERR Error running script sha, not enough memory";
    assert_eq!(run("return string.rep('x', 1024 * 1024 * 1024)"), full);
    assert_eq!(run("collectgarbage('stop') local t = {} while true do t[#t + 1] = {} end"), full);
    assert_eq!(run("local s = 'x' while true do s = s .. s end"), full);
    assert_eq!(run("return #string.rep('x', 10 * 1024 * 1024)"), ":10485760 ");
    assert!(interpreter.used_bytes() < MEMORY_MAX_BYTES);
}

#[test]
fn recursion_ends_with_an_error() {
    assert!(run("local function f() return 1 + f() end return f()").contains("stack overflow"));
    assert!(
        run("local t = {} for i = 1, 100000 do t = {t} end return t").contains("reached lua stack limit")
    );
    assert!(run("local t = {} t[1] = t return t").contains("reached lua stack limit"));
}

#[test]
fn a_function_that_fails_with_its_stack_full_says_where() {
    // Each number of results leaves another rest of the stack.
    let source = "for count = 0, 100 do
        local format, data = string.rep('B', count) .. '?', string.rep('x', count)
        local ok, text = pcall(struct.unpack, format, data)
        assert(not ok and text == \"bad argument #1 to '?' (invalid format option '?')\", text)
        ok, text = pcall(struct.unpack, string.rep('B', count) .. 's', data)
        assert(not ok and text == 'unfinished string in data', text)
    end return 'ok'";
    assert_eq!(run(source), "$2 ok ");
}

/// Loads a library and calls its functions one after another; returns their answers, or the library's error.
fn load(code: &str, host: &mut Echo) -> Vec<String> {
    let version = Version { text: "7.0.15", number: 0x0007_000F };
    let mut interpreter = Interpreter::new(Engine::Functions, version, MEMORY_MAX_BYTES);
    let library = interpreter.compile(code.as_bytes()).unwrap();
    let registered = match interpreter.load_library(library, host) {
        Ok(registered) => registered,
        Err(error) => return vec![String::from_utf8(error.text).unwrap()],
    };
    let answers = registered.iter().map(|function| {
        let mut reply = Reply::new(Vec::new(), false);
        let name = std::str::from_utf8(&function.name).unwrap();
        let inputs = Inputs { name, keys: &[b"k1"], args: &[b"a1", b"a2"] };
        match interpreter.run(&function.function, inputs, host, &mut reply) {
            Run::Replied => String::from_utf8_lossy(reply.as_bytes()).replace("\r\n", " "),
            Run::Failed(error) => String::from_utf8(error.text).unwrap(),
            Run::Abandoned => "abandoned".into(),
        }
    });
    answers.collect()
}

#[test]
fn functions_get_keys_and_arguments_and_share_their_librarys_locals() {
    let code = "local count = 0
        local function both(keys, args) count = count + 1 return {keys[1], args[2], count} end
        redis.register_function('f', both)
        redis.register_function{function_name='g', callback=both, flags={'no-writes'}, description='text'}
        redis.register_function('h', function() return redis.call('x') end)
        redis.register_function('i', function() return KEYS end)
        redis.register_function('j', function() redis.register_function('z', math.floor) end)
        local early = redis
        redis.register_function('k', function() early.register_function('z', math.floor) end)";
    let absent = "ERR user_function:6: Script attempted to access nonexistent global variable 'KEYS'";
    let no_field = "ERR user_function:7: attempt to call field 'register_function' (a nil value)";
    assert_eq!(
        load(code, &mut Echo::default()),
        [
            "*3 $2 k1 $2 a2 :1 ".to_owned(),
            "*3 $2 k1 $2 a2 :2 ".into(),
            "*1 $1 x ".into(),
            format!("{absent} script: i, on @user_function:6."),
            format!("{no_field} script: j, on @user_function:7."),
            "ERR redis.register_function can only be called on FUNCTION LOAD command script: k, on @user_function:9."
                .into(),
        ]
    );
}

#[test]
fn a_library_that_is_loaded_sees_nothing_but_how_to_register() {
    let error = |code: &str| load(code, &mut Echo::default()).join(";");
    let unknown = |name| {
        format!("ERR user_function:1: Script attempted to access nonexistent global variable '{name}'")
    };
    assert_eq!(error("local x = math.floor(1)"), unknown("math"));
    assert_eq!(error("redis.call('get')"), unknown("call"));
    assert_eq!(error("x = 1"), "ERR user_function:1: Attempt to modify a readonly table");
    assert_eq!(error("redis.x = 1"), "ERR user_function:1: Attempt to modify a readonly table");
    let register = |arguments: &str| error(&format!("redis.register_function({arguments})"));
    assert_eq!(register("'a b', function() end"), format!("ERR {}", crate::library::BAD_NAME));
    assert_eq!(
        register("'a'"),
        "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
    );
    assert_eq!(register("{}"), "ERR redis.register_function must get a function name argument");
    assert_eq!(register("{function_name='a'}"), "ERR redis.register_function must get a callback argument");
    assert_eq!(register("{flags={'x'}}"), "ERR unknown flag given");
    assert_eq!(register("{[1]=1}"), "ERR unknown argument given to redis.register_function");
    assert_eq!(register(""), "ERR wrong number of arguments to redis.register_function");
    let twice = "for i = 1, 2 do redis.register_function('a', function() end) end";
    assert_eq!(error(twice), "ERR Function already exists in the library");
    let mut host = Echo { kill_at: Some(2), ..Echo::default() };
    assert_eq!(
        load("while true do end", &mut host).join(""),
        "ERR Script killed by user with SCRIPT KILL..."
    );
    let mut host = Echo::default();
    assert_eq!(load("redis.log(redis.LOG_NOTICE, 'x')", &mut host), [""; 0]);
    assert_eq!(host.log, [(LogLevel::Notice, b"x".to_vec())]);
}

#[test]
fn instances_of_cjson_have_settings_of_their_own() {
    for (source, expected) in [
        (
            "local c = cjson.new() c.encode_sparse_array(true) return c.encode({[1]=1,[100]=1})",
            "{\"1\":1,\"100\":1}",
        ),
        ("cjson.new().encode_number_precision(3) return cjson.encode(1.23456)", "1.23456"),
        ("local c = cjson.new() c.encode_number_precision(3) return c.encode(1.23456)", "1.23"),
        ("local c = cjson.new() c.decode_max_depth(1) return tostring(pcall(c.decode, '[[1]]'))", "false"),
        ("local c = cjson.new() c.encode_invalid_numbers('null') return c.encode(1/0)", "null"),
        (
            "local c = cjson.new() c.x = 1 return c.x .. tostring(c.null == cjson.null) .. c._NAME",
            "1truecjson",
        ),
        ("local c, d = cjson.new(1, 2), cjson.new() c.encode_max_depth(1) return d.encode({{1}})", "[[1]]"),
        ("local c = cjson.new().new() return tostring(c.encode_max_depth())", "1000"),
        ("cjson.encode_max_depth(5) return tostring(cjson.new().encode_max_depth())", "1000"),
        ("return tostring(pcall(function() cjson.new = nil end))", "false"),
    ] {
        assert_eq!(run(source), format!("${} {expected} ", expected.len()), "{source}");
    }
    // They go with the scripts that made them.
    let source = "for i = 1, 1e5 do cjson.new() end return 1";
    assert_eq!(run(source), ":1 ");
}

/// As Redis 8.6.2 answers.
#[test]
fn arrays_that_are_read_are_written_as_arrays() {
    for (source, expected) in [
        ("return cjson.encode(cjson.decode('[]'))", "{}"),
        ("cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('[]'))", "[]"),
        (
            "cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('{\"a\":[],\"b\":{}}').a)",
            "[]",
        ),
        ("cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('{}'))", "{}"),
        (
            "cjson.decode_array_with_array_mt(true) local t = cjson.decode('[]') t.x = 1 return cjson.encode(t)",
            "[]",
        ),
        (
            "cjson.decode_array_with_array_mt(true) local t = cjson.decode('[]') t[1] = 1 return cjson.encode(t)",
            "[1]",
        ),
        (
            "cjson.decode_array_with_array_mt(true) local m = getmetatable(cjson.decode('[1]')) \
            return cjson.encode(setmetatable({}, m)) .. next(m)",
            "[]__is_cjson_array",
        ),
        (
            "local c = cjson.new() c.decode_array_with_array_mt('on') local t = c.decode('[[]]') \
            return c.encode(t) .. cjson.encode(t) .. cjson.encode(cjson.decode('[[]]'))",
            "[[]][[]][{}]",
        ),
        (
            "cjson.decode_array_with_array_mt(true) local t = setmetatable(cjson.decode('[]'), nil) \
            return cjson.encode(t)",
            "{}",
        ),
        (
            "local f = cjson.decode_array_with_array_mt return tostring(f()) .. tostring(f(true)) .. tostring(f()) \
            .. tostring(pcall(f, 1, 2)) .. tostring(pcall(f, 5))",
            "falsetruetruefalsefalse",
        ),
    ] {
        assert_eq!(run(source), format!("${} {expected} ", expected.len()), "{source}");
    }
    let source = "cjson.decode_array_with_array_mt(true) local t = cjson.decode('[]') \
        local m = getmetatable(t) m.__index = function() return 5 end return t.x";
    assert!(
        run(source).starts_with("-ERR user_script:1: Attempt to modify a readonly table"),
        "{}",
        run(source)
    );
    let source = "cjson.decode_array_with_array_mt(true) rawset(getmetatable(cjson.decode('[]')), 'a', 1)";
    assert!(run(source).contains("Attempt to modify a readonly table"), "{}", run(source));
}
