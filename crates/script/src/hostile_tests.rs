//! Every check that servers of the Redis kind have added to Lua and its libraries since 5.1, by its name, and
//! what scripts may take of stack and memory. `docs/internals/lua.md` lists the sources.

use std::panic::{AssertUnwindSafe, catch_unwind};

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::tests::{Echo, MEMORY_MAX_BYTES, interpreter, run, run_on};
use crate::{Called, Engine, Host, Inputs, Interpreter, LogLevel, Run, Verdict, Version};

/// What `pcall` of a function returns as its error, or its first result.
fn caught(call: &str) -> String {
    let reply = run(&format!("local ok, e = pcall(function() return {call} end) return tostring(e)"));
    let text = reply.split_once(' ').map_or(reply.as_str(), |(_, text)| text.trim_end());
    text.strip_prefix("user_script:1: ").unwrap_or(text).to_owned()
}

/// Runs in a thread with as much of a stack as an I/O thread has.
fn in_io_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(2 << 20);
        let thread = builder.spawn_scoped(scope, work).expect("a thread starts");
        thread.join().expect("the work does not panic");
    });
}

#[test]
fn cve_2014_5461_parameters_of_a_vararg_function_have_room() {
    let many = |count: usize| (0..count).map(|at| format!("p{at}")).collect::<Vec<_>>().join(",");
    let source = format!("local function f({},...) return p180 end return tostring(f(1))", many(190));
    assert_eq!(run(&source), "$3 nil ");
}

#[test]
fn cve_2015_8080_and_2020_14147_the_size_in_a_format_does_not_overflow() {
    for format in ["i2147483648", "i99999999999999999999", "c4294967297", "!99999999999"] {
        assert_eq!(caught(&format!("struct.pack('{format}', 1)")), "integral size overflow", "{format}");
        assert_eq!(
            caught(&format!("struct.unpack('{format}', 'abc')")),
            "integral size overflow",
            "{format}"
        );
    }
}

#[test]
fn cve_2018_11218_messagepack_of_many_values_fits_the_stack() {
    let source = "local t = {} for i = 1, 7990 do t[i] = {i} end
        local packed = cmsgpack.pack(unpack(t, 1, 3990))
        return {select('#', cmsgpack.unpack(packed)), select(2, pcall(cmsgpack.pack, unpack(t))),
            select(2, pcall(cmsgpack.unpack, packed .. packed .. packed))}";
    let reply = run(source);
    assert!(reply.contains(":3990") && reply.contains("Too many arguments"), "{reply}");
    assert!(reply.contains("too many return values at once"), "{reply}");
    let nested = "local s = string.rep('\\145', 100000) .. '\\1' return #tostring(cmsgpack.unpack(s))";
    assert!(run(nested).contains("stack overflow"));
}

#[test]
fn cve_2018_11219_positions_of_records_do_not_wrap() {
    for position in ["2^53", "2^63", "-2^63", "-1"] {
        let error = caught(&format!("struct.unpack('c10', 'abc', {position})"));
        assert!(error.contains("data string too short"), "{position}: {error}");
    }
    assert!(caught("struct.unpack('c0', 'abc', 0)").contains("offset must be 1 or greater"));
    assert!(caught("struct.unpack('dc0', struct.pack('d', 2^62)..'abc')").contains("data string too short"));
    assert!(caught("struct.unpack('dc0', struct.pack('d', -1)..'abc')").contains("data string too short"));
}

#[test]
fn cve_2021_32626_and_its_regression_calls_take_all_arguments_that_unpack_gives() {
    let source = "local t = {} for i = 1, 7999 do t[i] = i end return #redis.call('x', unpack(t))";
    assert_eq!(run(source), ":8000 ");
    assert!(run("local t = {} for i = 1, 50000 do t = {map = {a = t}} end return t").contains("stack limit"));
}

#[test]
fn cve_2022_0543_no_library_reaches_the_system() {
    for name in
        ["package", "io", "debug", "require", "module", "os.execute", "os.getenv", "os.exit", "newproxy"]
    {
        let found = run(&format!("local ok, v = pcall(function() return {name} end) return ok and v ~= nil"));
        assert_eq!(found, "$-1 ", "{name}");
    }
}

#[test]
fn cve_2022_24735_and_2025_46818_no_script_changes_what_others_see() {
    for change in [
        "_G.redis = {}",
        "redis.call = 1",
        "string.rep = 1",
        "rawset(string, 'rep', 1)",
        "rawset(_G, 'pcall', 1)",
        "table.insert(redis, 1)",
        "setmetatable(_G, {})",
        "setmetatable(string, {})",
        "getmetatable('').__index = function() return 1 end",
        "getmetatable('').__add = function() return 1 end",
        "rawset(getmetatable(''), '__add', 1)",
        "getmetatable(_G).__index = 1",
        "getmetatable(redis).__index = 1",
        "for _, v in ipairs({1, true, function() end, coroutine.create(function() end)}) do \
         getmetatable(v).__index = 1 end",
        "cjson.null.x = 1",
    ] {
        let changed = run(&format!("return pcall(loadstring([[{change}]]))"));
        assert_eq!(changed, "$-1 ", "{change}");
    }
    assert_eq!(run("return {pcall(function() return ('x').y end)}"), "*1 :1 ");
}

#[test]
fn cve_2022_24736_malformed_scripts_are_errors() {
    for source in
        ["return end", "end function f() ", "\0", "return ]]", "function", "\u{1b}Lua", "goto", "break"]
    {
        let reply = run(source);
        assert!(reply.starts_with("compile: ") || reply == "$-1 ", "{source}: {reply}");
    }
}

#[test]
fn cve_2022_24834_long_strings_are_encoded_within_memory() {
    let long = "local s = string.rep('\\0', 8 * 1024 * 1024)";
    assert!(run(&format!("{long} return cjson.encode({{s}})")).contains("not enough memory"));
    assert!(
        run(&format!("{long} return cmsgpack.pack({{s, s, s, s, s, s, s}})")).contains("not enough memory")
    );
    assert_eq!(run("return #cjson.encode(string.rep('\\0', 1024 * 1024))"), ":6291458 ");
}

#[test]
fn cve_2024_31449_the_least_number_of_digits_is_a_number() {
    assert_eq!(run("return bit.tohex(65535, -2147483648)"), "$8 0000FFFF ");
    assert_eq!(run("return bit.tohex(65535, 2147483647)"), "$8 0000ffff ");
}

#[test]
fn cve_2024_46981_a_state_ends_in_the_middle_of_a_collection() {
    for source in [
        "collectgarbage('stop') local t = {} for i = 1, 10000 do t[i] = {t} end",
        "local t = setmetatable({}, {__gc = function() error('x') end, __mode = 'kv'}) collectgarbage('step', 1)",
        "collectgarbage('setpause', 0) collectgarbage('setstepmul', 0) local t = {} for i = 1, 999 do t[i] = {} end",
    ] {
        let mut interpreter = interpreter();
        run_on(&mut interpreter, source, &mut Echo::default(), false);
        assert_eq!(run_on(&mut interpreter, "return 1", &mut Echo::default(), false), ":1 ");
    }
}

#[test]
fn cve_2025_46817_a_range_beyond_an_int_is_refused() {
    for (low, high) in [
        ("0", "2147483647"),
        ("-1", "2147483646"),
        ("-1", "2147483647"),
        ("-2147483648", "2147483647"),
        ("-2147483648", "-1"),
        ("-2147483648", "0"),
        ("1", "2147483647"),
        ("-5", "2147483647"),
    ] {
        assert_eq!(
            caught(&format!("unpack({{1, 2, 3}}, {low}, {high})")),
            "too many results to unpack",
            "{low} {high}"
        );
    }
    assert_eq!(run("return {unpack({1, 2, 3}, 2147483646, 2147483647)}"), "*0 ");
    assert_eq!(run("return select('#', unpack({}, -2147483648, -2147483647))"), ":2 ");
    assert_eq!(run("return {rawget({1}, -2147483648) == nil, rawget({1}, 2147483648) == nil}"), "*2 :1 :1 ");
}

#[test]
fn cve_2025_46819_delimiters_of_long_strings_are_read_to_their_end() {
    let level = |count: usize| "=".repeat(count);
    for count in [0, 1, 255, 65_536, 1 << 20] {
        let source = format!("return [{0}[text]{0}]", level(count));
        assert_eq!(run(&source), "$4 text ", "{count}");
        assert!(
            run(&format!("return [{0}[text", level(count))).contains("unfinished long string"),
            "{count}"
        );
        assert!(run(&format!("--[{0}[text", level(count))).contains("unfinished long comment"), "{count}");
    }
    assert!(run("return [==x").contains("invalid long string delimiter"));
}

#[test]
fn cve_2025_49844_the_name_of_a_chunk_outlives_collections_while_it_is_read() {
    let source = "collectgarbage('setpause', 0) collectgarbage('setstepmul', 10000)
        for round = 1, 20 do
            local parts = 0
            local chunk = load(function()
                collectgarbage('collect')
                local garbage = {} for i = 1, 50 do garbage[i] = 'name' .. round .. i .. 'xyz' end
                parts = parts + 1
                return ({'local a = 1 ', 'local b = \\'text\\' ', 'error(\"raised\")'})[parts]
            end, '@name' .. round .. string.rep('z', 20))
            local ok, text = pcall(chunk)
            assert(text == 'name' .. round .. string.rep('z', 20) .. ':1: raised', text)
        end
        return 'ok'";
    assert_eq!(run(source), "$2 ok ");
    assert!(run("return loadstring(string.rep('x ', 100000))").contains("$-1"));
}

#[test]
fn cve_2025_67733_no_text_of_a_script_begins_another_reply() {
    for reply in [
        "redis.error_reply('A\\r\\n+OK')",
        "redis.error_reply('A\\0\\r\\n+OK')",
        "redis.status_reply('A\\r\\n+OK')",
        "{err='A\\r\\n+OK'}",
        "{ok='A\\r\\n+OK'}",
        "{big_number='1\\r\\n+OK'}",
        "{verbatim_string={format='t\\r\\n', string='x'}}",
        "{{err='A\\r\\n+OK'}}",
        "error({err='A\\r\\n+OK'})",
    ] {
        let mut interpreter = interpreter();
        let source = format!("return {reply}");
        let mut out = Reply::new(Vec::new(), true);
        let script = interpreter.compile(source.as_bytes()).expect("it is valid");
        let inputs = Inputs { name: "sha", keys: &[], args: &[] };
        match interpreter.run(&script, inputs, &mut Echo::default(), &mut out) {
            Run::Failed(error) => out.error(&error.text),
            other => assert_eq!(other, Run::Replied),
        }
        let text = String::from_utf8_lossy(out.as_bytes()).into_owned();
        assert!(!text.contains("\n+OK") && text.ends_with("\r\n"), "{reply}: {text:?}");
    }
}

#[test]
fn strings_that_differ_in_any_byte_do_not_share_a_chain() {
    // Lua 5.1 hashes 32 of the bytes of a long string: these would all be in one chain.
    let source = "local begin = os.clock() local t = {}
        for i = 1, 20000 do
            local s = string.rep('x', 500) .. string.format('%05d', i) .. string.rep('x', 495)
            t[s] = i
        end return os.clock() - begin < 5";
    assert_eq!(run(source), ":1 ");
}

#[test]
fn chunks_are_text() {
    let refused =
        "local f, e = loadstring(string.dump(function() return 1 end)) return {f == nil, e:match(':1: .*')}";
    assert_eq!(run(refused), "*2 :1 $37 :1: unexpected symbol near 'char(27)' ");
    let read =
        "local done return load(function() if not done then done = true return '\\27Lua' end end) == nil";
    assert_eq!(run(read), ":1 ");
}

/// Calls of all functions with more arguments than a C function may be given otherwise.
#[test]
fn no_function_minds_how_many_arguments_it_gets() {
    let ones = vec!["1"; 200].join(",");
    let all =
        "local names = {} for _, of in ipairs({'', 'redis', 'bit', 'struct', 'cmsgpack', 'cjson', 'string',
        'table', 'math', 'coroutine', 'os'}) do
            for k, v in pairs(of == '' and _G or _G[of]) do
                if type(v) == 'function' then names[#names + 1] = v end
            end
        end";
    for first in ["", "{},", "'x',", "redis,{},", "'i4',", "function() end,"] {
        for fill in ["1", "'x'", "{}"] {
            let source = format!(
                "{all} local t = {{}} for i = 1, 7990 do t[i] = {fill} end
                for _, f in ipairs(names) do
                    pcall(f, {first} {ones}, unpack(t, 1, 7790))
                    pcall(function() return f({first} {ones}, unpack(t)) end)
                    coroutine.wrap(function() pcall(f, {first} unpack(t)) end)()
                end return #names > 80"
            );
            assert_eq!(run(&source), ":1 ", "{first} {fill}");
        }
    }
}

#[test]
fn results_that_fill_the_stack_are_returned() {
    let source = "local function results() return unpack((function() local t = {} for i = 1, LEN do t[i] = i end return t end)()) end
        return {select('#', pcall(results)), select('#', xpcall(results, error)),
            select('#', coroutine.wrap(results)()), select('#', pcall(xpcall, results, error))}";
    for len in (1..40).chain(7970..7990) {
        let expected = format!("*4 :{} :{} :{len} :{} ", len + 1, len + 1, len + 2);
        assert_eq!(run(&source.replace("LEN", &len.to_string())), expected);
    }
}

#[test]
fn a_script_with_a_full_stack_can_be_ended() {
    let source = "local t = {} for i = 1, 7990 do t[i] = i end
        local function f(...) return select('#', ...) end
        while true do pcall(function() while true do f(1, 2, 3, unpack(t)) end end) end";
    let mut host = Echo::killing_at(20);
    let killed = "-ERR Script killed by user with SCRIPT KILL...";
    assert!(run_on(&mut interpreter(), source, &mut host, false).starts_with(killed));
}

#[test]
fn loops_in_c_can_be_ended() {
    for source in [
        "return string.rep('a', 200):find(string.rep('a-', 20) .. 'b')",
        "return string.rep('a', 500000):find('.-.-b')",
        "return string.rep('(', 300000):gsub('%b()', '')",
        "return string.rep('a', 4000000):find(string.rep('a', 2000000) .. 'b', 1, true)",
        "return table.insert({}, -2147483647, 1)",
        "return load(gcinfo)",
        "return load(function() return ' ' end)",
        "local t = {1} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {1} for i = 1, 15 do t = {t, t, t, t, t, t} end return cmsgpack.pack(t)",
    ] {
        let mut host = Echo::killing_at(3);
        let reply = run_on(&mut interpreter(), source, &mut host, false);
        assert!(reply.contains("killed") || reply.contains("not enough memory"), "{source}: {reply}");
    }
}

/// However long the texts are that each operation compares, hashes or hands on.
#[test]
fn loops_over_long_texts_can_be_ended() {
    for step in
        ["while a == b do end", "local t = {} while true do t[a] = 1 end", "while type(a) do a:byte(1) end"]
    {
        let long = "string.rep('a', 1000000) for i = 1, 2 do long = long .. long end";
        let source = format!("local long = {long} local a, b = long .. 'x', long .. 'x' {step}");
        let reply = run_on(&mut interpreter(), &source, &mut Echo::killing_at(3), false);
        assert!(reply.contains("killed"), "{source}: {reply}");
    }
}

/// The length that `#` finds in a table with holes is half a billion.
#[test]
fn moves_of_elements_that_are_not_there_can_be_ended() {
    let items: String = (0..30).map(|bit| format!("[{}]=1,", 1u32 << bit)).collect();
    for call in ["table.remove(t, 1)", "table.insert(t, 1, 1)"] {
        let source = format!("local t = {{{items}}} return {call}");
        let reply = run_on(&mut interpreter(), &source, &mut Echo::killing_at(3), false);
        assert!(reply.contains("killed") || reply.contains("not enough memory"), "{source}: {reply}");
    }
}

#[test]
fn patterns_do_not_take_the_stack() {
    in_io_thread(|| {
        for item in ["a?", "a*", "a-", "[a]?", "()", "(a?)", "%a*", ".-"] {
            for count in [31, 2000, 3000, 100_000, 1_000_000] {
                let call = format!("string.find(string.rep('a', 2000000), string.rep('{item}', {count}))");
                let reply = caught(&call);
                let is_known = reply.contains("pattern too complex") || reply.contains("too many captures");
                assert!(
                    is_known || (count <= 2000 && reply == "1") || reply == "nil",
                    "{item} {count}: {reply}"
                );
            }
        }
        let deep = "local function subs(n) if n == 0 then return (string.rep('a', 1999):find(string.rep('a?', 1999))) end
                return (string.gsub('a', 'a', function() return subs(n - 1) end)) end
            local worst for n = 150, 199 do worst = select(2, pcall(subs, n)) end return worst";
        assert!(run(deep).contains("C stack overflow"));
    });
}

#[test]
fn nothing_that_nests_takes_the_stack() {
    in_io_thread(|| {
        for (call, error) in [
            ("cjson.decode(string.rep('[', 100000))", "too many nested data structures"),
            ("cjson.decode(string.rep('{\"a\":', 100000))", "too many nested data structures"),
            (
                "(function() local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t) end)()",
                "nesting",
            ),
            ("(function() local t = {} t[1] = t return cjson.encode(t) end)()", "nesting"),
            ("cmsgpack.unpack(string.rep('\\145', 100000))", "stack overflow"),
            ("cmsgpack.unpack(string.rep('\\129\\1', 100000))", "stack overflow"),
        ] {
            assert!(caught(call).contains(error), "{call}: {}", caught(call));
            let raised = format!(
                "(function() cjson.decode_max_depth(2147483647) \
                cjson.encode_max_depth(2147483647) return {call} end)()"
            );
            assert!(caught(&raised).contains(error), "{call}: {}", caught(&raised));
        }
        assert_eq!(caught("#cmsgpack.pack((function() local t = {} t[1] = t return t end)())"), "17");
        for chunk in
            ["'('", "'{'", "'-'", "'not '", "'do '", "'function() '", "'a.'", "'a..'", "'a^'", "'if a then '"]
        {
            caught(&format!("loadstring('return ' .. string.rep({chunk}, 100000))"));
            caught(&format!("loadstring(string.rep({chunk}, 190) .. string.rep('(', 190))"));
        }
        for nest in [
            "local function f(n) return pcall(f, n + 1) end return f(1)",
            "local function f(n) return coroutine.wrap(f)(n + 1) end return f(1)",
            "local function f() return (string.gsub('a', 'a', f)) end return f()",
            "local function f() table.sort({3, 1, 2}, f) end return f()",
            "local function f() return tostring(setmetatable({}, {__tostring = f})) end return f()",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]",
            "local function f() return load(f)() end return f()",
            "local function f() return table.foreach({1}, f) end return f()",
            "local function f() error(setmetatable({}, {__tostring = f})) end return xpcall(f, f)",
        ] {
            run(nest);
        }
        for reply in ["*1 ", "%1 :1 ", "~1 ", "|1 :1 "] {
            let reply = reply.replace(' ', "\\r\\n");
            assert_eq!(
                run(&format!("return type(redis.call('raw', string.rep('{reply}', 100000)))")),
                "$3 nil "
            );
        }
    });
}

#[test]
fn memory_of_scripts_includes_what_functions_of_the_server_have() {
    let chunk = "local mb = string.rep('x', 1024 * 1024)";
    for source in [
        "return #cmsgpack.unpack('\\221\\1\\49\\45\\0' .. string.rep('\\144', 20000000))",
        "return #cjson.decode('[' .. string.rep('{},', 5000000) .. '1]')",
        "cjson.encode_sparse_array(true, 0, 0) return #cjson.encode({[100000000] = 1})",
        "local t = {1} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {1} for i = 1, 40 do t = {t, t} end return t",
        "local t = {} for i = 1, 100 do t[i] = mb end return redis.call(unpack(t))",
        "local t = {} for i = 1, 100 do t[i] = mb end return cmsgpack.pack(unpack(t))",
        "local t = {} for i = 1, 100 do t[i] = mb end return struct.pack(string.rep('s', 100), unpack(t))",
        "local t = {} for i = 1, 100 do t[i] = mb end return redis.log(redis.LOG_NOTICE, unpack(t))",
        "local t = {} for i = 1, 100 do t[i] = mb end return redis.acl_check_cmd(unpack(t))",
        "local t = {} for i = 1, 100 do t[i] = mb end return t",
        "local t = {} for i = 1, 100 do t[i] = mb end return table.concat(t)",
        "return string.rep(mb, 100)",
        "return string.rep('x', 2147483647)",
        "local s = mb for i = 1, 7 do s = s .. s end return s",
        "return string.gsub(string.rep('x', 100), 'x', mb)",
        "return string.format(string.rep('%s', 100), unpack((function() local t = {} for i = 1, 100 do t[i] = mb end \
         return t end)()))",
        "return redis.call('raw', '*100000000\\r\\n' .. string.rep('*0\\r\\n', 8000000))",
        "error(string.rep('x', 30 * 1024 * 1024))",
        "return {err = string.rep('x', 30 * 1024 * 1024)}",
        "return redis.error_reply(string.rep('x', 30 * 1024 * 1024))",
        "return _G[string.rep('x', 30 * 1024 * 1024)]",
        "return cjson.encode_invalid_numbers(string.rep('x', 30 * 1024 * 1024))",
    ] {
        let mut interpreter = interpreter();
        let reply = run_on(&mut interpreter, &format!("{chunk} {source}"), &mut Echo::default(), false);
        assert!(reply.contains("not enough memory"), "{source}: {:.200}", reply);
        assert!(interpreter.used_bytes() <= MEMORY_MAX_BYTES, "{source}");
    }
}

/// A host in which commands panic.
struct Faulty;

impl Host for Faulty {
    fn call(&mut self, _: &Args<'_>, _: &mut Reply) -> Called {
        panic!("a command has failed");
    }
    fn may_call(&mut self, _: &Args<'_>) -> Option<bool> {
        None
    }
    fn interrupt(&mut self) -> Verdict {
        Verdict::Continue
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn set_propagation(&mut self, _: i64) {}
}

#[test]
fn a_panic_passes_lua_and_leaves_a_state_that_works() {
    let version = Version { text: "7.0.15", number: 0x0007_000F };
    let mut interpreter = Interpreter::new(Engine::Eval, version, MEMORY_MAX_BYTES);
    for source in [
        "return redis.call('x')",
        "while true do pcall(redis.call, 'x') end",
        "while true do xpcall(function() redis.call('x') end, function() while true do end end) end",
        "local f = coroutine.wrap(function() redis.call('x') end) while true do pcall(f) end",
        "return (string.gsub('aaa', 'a', function() pcall(redis.call, 'x') end))",
    ] {
        let script = interpreter.compile(source.as_bytes()).expect("it is valid");
        let mut reply = Reply::new(Vec::new(), false);
        let inputs = Inputs { name: "sha", keys: &[], args: &[] };
        let run = AssertUnwindSafe(|| interpreter.run(&script, inputs, &mut Faulty, &mut reply));
        let panic = catch_unwind(run).expect_err("the panic goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a command has failed"), "{source}");
        assert_eq!(run_on(&mut interpreter, "return 7", &mut Echo::default(), false), ":7 ");
    }
}
