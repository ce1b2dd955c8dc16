//! Programs against a pool that is a few names, and hostile ones.

use super::lua::machine::Vm;
use super::*;

/// A pool that remembers what was done to it.
#[derive(Default)]
pub(crate) struct Fake {
    done: Vec<Operation>,
    messages: Vec<String>,
    is_cancelled: bool,
}

impl Zfs for Fake {
    fn is_cancelled(&mut self) -> bool {
        self.is_cancelled
    }

    fn debug(&mut self, message: &str) {
        self.messages.push(message.to_owned());
    }

    fn exists(&mut self, dataset: &str) -> Result<bool, Refused> {
        match dataset.starts_with("tank") {
            true => Ok(dataset.len() < 8),
            false => Err(Refused::Error(format!(
                "dataset '{dataset}' is not in the target pool 'tank'"
            ))),
        }
    }

    fn property(&mut self, _: &str, property: &str) -> Result<(Datum, Option<String>), Refused> {
        match property {
            "guid" => Ok((Datum::Number(-2), None)),
            "clones" => Ok((Datum::list([Datum::from("tank/c")]), None)),
            "none" => Ok((Datum::Nil, None)),
            "group" => Err(Refused::NeedsGroup),
            "damaged" => Err(Refused::Fatal("object 7 cannot be read".to_owned())),
            _ => Ok((Datum::from("on"), Some("default".to_owned()))),
        }
    }

    fn list(&mut self, list: List, of: &str) -> Result<Vec<Vec<Datum>>, Refused> {
        let name = |number: usize| Datum::Text(format!("{of}/{number}").into_bytes());
        Ok(match list {
            List::Holds => vec![vec![Datum::from("tag"), Datum::Number(5)]],
            List::SystemProperties => vec![vec![Datum::from("used")], vec![Datum::from("guid")]],
            _ => (0..3).map(|number| vec![name(number)]).collect(),
        })
    }

    fn operate(&mut self, operation: &Operation, is_dry: bool) -> Result<Answer, Refused> {
        if let Operation::Promote { .. } = operation {
            return Ok(Answer {
                error: Some(Errno::EEXIST),
                details: vec!["s1".to_owned(), "s2".to_owned()],
            });
        }
        if !is_dry {
            self.done.push(operation.clone());
        }
        Ok(Answer::DONE)
    }
}

const LIMITS: Limits = Limits {
    instructions: 10_000_000,
    memory: 10 << 20,
};

fn run_with(source: &str, limits: Limits, fake: &mut Fake) -> Result<Option<Datum>, Failure> {
    let arguments = ["foo".to_owned(), "bar".to_owned()];
    run(source.as_bytes(), &arguments, limits, true, fake)
}

fn result(source: &str) -> Result<Option<Datum>, Failure> {
    run_with(source, LIMITS, &mut Fake::default())
}

fn number(source: &str) -> i64 {
    match result(source) {
        Ok(Some(Datum::Number(number))) => number,
        other => panic!("{source}: {other:?}"),
    }
}

fn text(source: &str) -> String {
    match result(source) {
        Ok(Some(Datum::Text(text))) => String::from_utf8(text).unwrap(),
        other => panic!("{source}: {other:?}"),
    }
}

fn error(source: &str) -> String {
    result(source)
        .expect_err(&source[..source.len().min(200)])
        .to_string()
}

/// Runs a program that collects garbage at each chance: what the collector frees must be unused.
fn stressed(source: &str) -> Result<Option<Datum>, Failure> {
    let mut fake = Fake::default();
    let limits = (LIMITS.instructions * 10, LIMITS.memory as usize);
    let mut vm = Vm::new(&mut fake, true, limits).ok().unwrap();
    vm.is_stressed = true;
    run_in(&mut vm, source.as_bytes(), &[])
}

#[test]
fn arguments_come_in_and_results_go_out() {
    assert_eq!(text("local a = ... return a.argv[2] .. #a['argv']"), "bar2");
    assert_eq!(result("return"), Ok(None));
    assert_eq!(result("return nil"), Ok(Some(Datum::Nil)));
    let table = "return {foo = 'bar', baz = 2, [true] = false, 10, {}}";
    let named = |name: &str, datum| (name.as_bytes().to_vec(), datum);
    let expected = Datum::Table(vec![
        named("1", Datum::Number(10)),
        named("2", Datum::Table(Vec::new())),
        named("baz", Datum::Number(2)),
        named("foo", Datum::from("bar")),
        named("true", Datum::Boolean(false)),
    ]);
    assert_eq!(result(table), Ok(Some(expected)));
    for bad in [
        "return 1, 2",
        "return assert",
        "return {[{}] = 1}",
        "return {[1] = 1, ['1'] = 2}",
        "local a = {} a.a = a return a",
    ] {
        assert!(matches!(result(bad), Err(Failure::Raised(_))), "{bad}");
    }
}

#[test]
fn statements_and_expressions() {
    assert_eq!(
        number("local a, b, c = (function() return 1, 2 end)() return a + b"),
        3
    );
    assert_eq!(
        number("local t = {f = function(s, x) return s.n + x end, n = 2} return t:f(3)"),
        5
    );
    assert_eq!(
        number("local s = 0 for i = 10, 1, -3 do s = s + i end return s"),
        22
    );
    assert_eq!(
        number("local s = 0 for k, v in pairs{1, 2, x = 4} do s = s + v end return s"),
        7
    );
    assert_eq!(
        number("local i = 0 repeat local j = i i = i + 1 until j == 4 return i"),
        5
    );
    assert_eq!(number("for i = 1, 9 do if i == 7 then return i end end"), 7);
    assert_eq!(
        number("local n = 0 while true do n = n + 1 if n > 5 then break end end return n"),
        6
    );
    let skip = "
        local s = 0
        for i = 1, 5 do
            if i % 2 == 0 then goto next end
            s = s + i
            ::next::
        end
        return s";
    assert_eq!(number(skip), 9);
    // A label behind the last statement ended the variables, and what followed counted them.
    assert_eq!(result("local a, b = 1, 2 goto x ::x::"), Ok(None));
    assert_eq!(
        number("local i = 1 ::top:: i = i * 2 if i < 50 then goto top end return i"),
        64
    );
    assert_eq!(
        number("local a = {} local i = 1 i, a[i] = i + 1, 20 return a[1] + i"),
        22
    );
    assert_eq!(
        number("return select('#', table.unpack({1, nil, 3}, 1, 3))"),
        3
    );
    assert_eq!(
        number(
            "local function f(...) local a, b = ... return select('#', ...) + b end
             return f(1, 2, 3)"
        ),
        5
    );
    assert_eq!(text("return 1 .. 2 .. 'x' .. -3"), "12x-3");
    assert_eq!(number("return 2 ^ 3 ^ 2 - -2 * 3 % 4"), 512 + 2);
    assert_eq!(number("return 7 / 2 + (-7) / 2"), 0);
    assert_eq!(number("return 18446744073709551615 + 2"), 1);
    assert_eq!(
        result("return not nil and 1 ~= '1' and 'a' < 'b' and 2 >= 2"),
        Ok(Some(Datum::Boolean(true)))
    );
    assert_eq!(
        text("return [==[\na]]b]==] .. '\\65\\x42\\z  \n c'"),
        "a]]bABc"
    );
}

#[test]
fn closures_share_their_variables() {
    let counters = "
        local function pair()
            local n = 0
            return function() n = n + 1 return n end, function() return n end
        end
        local up, get = pair()
        up() up()
        local other = pair()
        other()
        return get()";
    assert_eq!(number(counters), 2);
    let loops = "
        local fs = {}
        for i = 1, 3 do fs[i] = function() i = i + 10 return i end end
        fs[1]()
        return fs[1]() * 100 + fs[2]()";
    assert_eq!(number(loops), 2112);
    assert_eq!(number("local _ENV = {x = 4} return x"), 4);
}

#[test]
fn coroutines_go_back_and_forth() {
    let program = "
        local co = coroutine.wrap(function(a)
            local b = coroutine.yield(a + 1)
            for i = 1, b do coroutine.yield(i) end
            return 'end'
        end)
        local t = {co(1), co(2), co(), co()}
        return table.concat(t, ' ')";
    assert_eq!(text(program), "2 1 2 end");
    let failing = "
        local co = coroutine.create(function() local x = nil x() end)
        local ok, why = coroutine.resume(co)
        return tostring(ok) .. why .. coroutine.status(co)";
    let expected =
        "false[string \"channel program\"]:2: attempt to call local 'x' (a nil value)dead";
    assert_eq!(text(failing), expected);
    let across = "
        local co = coroutine.create(function() string.gsub('a', 'a', coroutine.yield) end)
        return select(2, coroutine.resume(co))";
    assert_eq!(text(across), "attempt to yield across a C-call boundary");
    // Two that resume one another without an end.
    let endless = "
        local function f() return select(2, coroutine.resume(coroutine.create(f))) end
        return f()";
    assert_eq!(text(endless), "C stack overflow");
}

#[test]
fn errors_say_where_they_are() {
    assert_eq!(
        error("\nreturn 1 / 0"),
        "[string \"channel program\"]:2: attempt to divide by zero\nstack traceback:\n\t\
         [string \"channel program\"]:2: in main chunk"
    );
    assert_eq!(
        error("function f() error('no') end\nf()"),
        "[string \"channel program\"]:1: no\nstack traceback:\n\t[C]: in function 'error'\n\t\
         [string \"channel program\"]:1: in function 'f'\n\t\
         [string \"channel program\"]:2: in main chunk"
    );
    let gsub = error("function f(s)\nreturn string.gsub(s, '.', f)\nend\nreturn f('foo')");
    let call = "\n\t[C]: in function 'gsub'\n\t[string \"channel program\"]:2: in function \
                <[string \"channel program\"]:1>";
    let expected = format!(
        "C stack overflow\nstack traceback:{}\n\t(...tail calls...)",
        call.repeat(7)
    );
    assert_eq!(gsub, expected);
    for (source, part) in [
        ("return 1.0", "malformed number near '1.0'"),
        ("{]", "unexpected symbol near '{'"),
        ("retrn 1", "syntax error near '1'"),
        (
            "abc = nil abc.deref()",
            "attempt to index global 'abc' (a nil value)",
        ),
        (
            "local t = {} t.x.y = 1",
            "attempt to index field 'x' (a nil value)",
        ),
        (
            "return {} + 1",
            "attempt to perform arithmetic on a table value",
        ),
        ("return {} < {}", "attempt to compare two table values"),
        (
            "error(true)",
            "true\nstack traceback:\n\t[C]: in function 'error'",
        ),
        ("assert(false)", "assertion failed!"),
        (
            "string.rep()",
            "bad argument #1 to 'rep' (string expected, got no value)",
        ),
        ("goto x", "no visible label 'x' for <goto> at line 1"),
        ("if true then", "'end' expected near <eof>"),
    ] {
        assert!(error(source).contains(part), "{source}: {}", error(source));
    }
}

#[test]
fn metamethods_may_yield() {
    let program = "
        local mt = {}
        for _, name in ipairs{'add', 'concat', 'index', 'eq', 'lt', 'unm', 'len', 'call'} do
            mt['__' .. name] = function(a, b) coroutine.yield(name) return name end
        end
        local a, b = setmetatable({}, mt), setmetatable({}, mt)
        local seen = {}
        local co = coroutine.wrap(function()
            local r = {a + 1, 1 .. a .. 'x', a.y, a == b, a < b, a <= b, -a, #a, a()}
            return #r
        end)
        while true do
            local step = co()
            seen[#seen + 1] = step
            if type(step) == 'number' then break end
        end
        return table.concat(seen, ' ')";
    let expected = "add concat index eq lt lt unm len call 9";
    assert_eq!(text(program), expected);
}

#[test]
fn texts() {
    assert!(error("return ('hello'):gsub('l', 'L')").contains("Multiple return values"));
    assert_eq!(
        text("return (('x=1, y=2'):gsub('(%w)=(%w)', '%2=%1'))"),
        "1=x, 2=y"
    );
    assert_eq!(
        text("return string.format('%5d|%-5s|%05d|%x|%q|%.2s', 42, 'ab', -7, 255, 'a\\n', 'xyz')"),
        "   42|ab   |-0007|ff|\"a\\\n\"|xy"
    );
    assert_eq!(
        text(
            "local t = {}
             for k, v in ('a=1,b=2'):gmatch('(%w)=(%w)') do t[#t + 1] = v .. k end
             return table.concat(t)"
        ),
        "1a2b"
    );
    assert_eq!(number("return (('key = value'):find('%s*=%s*'))"), 4);
    assert_eq!(text("return ('f(a(b)c)d'):match('%b()')"), "(a(b)c)");
    assert_eq!(
        text("return ('THE (quick) fox'):match('%f[%a]%a+%f[%A]', 5)"),
        "quick"
    );
    assert_eq!(
        text(
            "local t = {3, 1, 2}
             table.sort(t, function(a, b) return a > b end)
             return table.concat(t)"
        ),
        "321"
    );
}

#[test]
fn the_library_asks_the_pool() {
    let mut fake = Fake::default();
    let program = "
        local names = {}
        for child in zfs.list.children('tank') do names[#names + 1] = child end
        for tag, time in zfs.list.holds('tank@a') do names[#names + 1] = tag .. time end
        local value, source = zfs.get_prop('tank', 'atime')
        zfs.debug('seen')
        assert(zfs.sync.snapshot('tank@x') == 0)
        assert(zfs.sync.destroy{'tank@y', defer = true} == 0)
        assert(zfs.check.destroy('tank@z') == 0)
        local e, details = zfs.sync.promote('tank/c')
        assert(e == EEXIST and #details == 2 and details[2] == 's2')
        assert(zfs.get_prop('tank', 'clones')[1] == 'tank/c')
        assert(#zfs.list.system_properties('tank') == 2)
        assert(zfs.exists('tank') and not zfs.exists('tank/nothing'))
        return table.concat(names, ' ') .. value .. source .. zfs.get_prop('tank', 'guid')";
    let answer = run_with(program, LIMITS, &mut fake);
    let expected = Datum::from("tank/0 tank/1 tank/2 tag5ondefault-2");
    assert_eq!(answer, Ok(Some(expected)));
    let destroyed = Operation::Destroy {
        dataset: "tank@y".to_owned(),
        defer: true,
    };
    let snapshot = Operation::Snapshot {
        dataset: "tank@x".to_owned(),
    };
    assert_eq!(fake.done, [snapshot, destroyed]);
    assert_eq!(fake.messages, ["seen"]);
    assert!(error("zfs.exists('rpool')").contains("not in the target pool"));
    assert_eq!(
        result("zfs.get_prop('tank', 'group')"),
        Err(Failure::NeedsGroup)
    );
    assert!(matches!(
        result("zfs.get_prop('tank', 'damaged')"),
        Err(Failure::Fatal(_))
    ));
    let read_only = run(b"zfs.sync.destroy('tank')", &[], LIMITS, false, &mut fake);
    let read_only = read_only.unwrap_err().to_string();
    assert!(
        read_only.contains("requires passing sync=TRUE"),
        "{read_only}"
    );
}

#[test]
fn wrong_arguments_are_answered_with_the_usage() {
    for source in [
        "zfs.sync.destroy('foo', 'bar')",
        "zfs.sync.destroy('foo', 12345)",
        "zfs.sync.destroy(12345)",
        "zfs.sync.destroy()",
        "zfs.sync.destroy{'foo', bar=true}",
        "zfs.sync.destroy{'foo', defer=12345}",
        "zfs.sync.destroy{'foo', defer=true, 12345}",
        "zfs.sync.destroy{'foo', defer=true, bar=12345}",
        "zfs.sync.destroy{defer=true}",
        "zfs.sync.destroy{12345, defer=true}",
    ] {
        assert!(
            error(source).contains("destroy{"),
            "{source}: {}",
            error(source)
        );
    }
}

#[test]
fn limits_end_programs() {
    let loops = "i = 1\nwhile true do\n i = i + 1\nend";
    for limit in [1_000, 100_000] {
        let limits = Limits {
            instructions: limit,
            ..LIMITS
        };
        match run_with(loops, limits, &mut Fake::default()) {
            Err(Failure::Instructions {
                trace,
                instructions,
            }) => {
                assert!(instructions.abs_diff(limit) <= 100, "{instructions}");
                assert!(trace.ends_with("in main chunk"), "{trace}");
            }
            other => panic!("{other:?}"),
        }
    }
    let small = Limits {
        memory: 1,
        ..LIMITS
    };
    assert_eq!(
        run_with("return 1", small, &mut Fake::default()),
        Err(Failure::Memory)
    );
    let mut fake = Fake {
        is_cancelled: true,
        ..Fake::default()
    };
    assert_eq!(run_with(loops, LIMITS, &mut fake), Err(Failure::Cancelled));
    let recursion =
        "function f(x) if x == 0 then return x end return f(x - 1) + 1 end return f(10000)";
    assert_eq!(number(recursion), 10_000);
}

#[test]
fn hostile_programs_end_soon() {
    let (failing, others) = include_str!("hostile.txt")
        .split_once("\n\n")
        .expect("two parts");
    let programs = |text: &'static str| text.lines().filter(|line| !line.starts_with('#'));
    let limits = Limits {
        instructions: 2_000_000,
        ..LIMITS
    };
    for source in programs(failing) {
        let ended = run_with(source, limits, &mut Fake::default());
        assert!(ended.is_err(), "{source}: {ended:?}");
    }
    for source in programs(others) {
        // What counts is that it ends.
        drop(run_with(source, limits, &mut Fake::default()));
    }
}

/// Deep texts must not overflow the compiler's stack.
#[test]
fn nested_texts_are_refused() {
    for (open, close) in [("(", ")"), ("{", "}"), ("- ", ""), ("not ", ""), ("#", "")] {
        let source = format!("return {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(error(&source).contains("too many C levels"), "{open}");
    }
    let blocks = format!("{}{}", "if true then ".repeat(243), "end ".repeat(243));
    assert!(error(&blocks).contains("too many C levels"));
    let functions = format!(
        "{}{}",
        "local f = function() ".repeat(500),
        "end ".repeat(500)
    );
    assert!(error(&functions).contains("too many C levels"));
    let joined = format!("return {}''", "'' .. ".repeat(100_000));
    assert!(error(&joined).contains("too many C levels"));
    // Many names in deep functions, many labels: looking them up must not take minutes.
    let locals = (0..190).map(|number| format!("local v{number} "));
    let deep = format!("local function f() {}", locals.collect::<String>()).repeat(190);
    let globals = format!("{deep} {} {}", "g=1 ".repeat(200_000), "end ".repeat(190));
    drop(result(&globals));
    let labels = (0..100_000).map(|number| format!("goto l{number} ::l{number}:: "));
    assert!(error(&labels.collect::<String>()).contains("too many labels"));
    let fine = format!("{}{}", "if true then ".repeat(150), "end ".repeat(150));
    assert_eq!(result(&fine), Ok(None));
    let many = format!("local t = {{{}}} return #t", "1,".repeat(200_000));
    let limits = Limits {
        memory: 100 << 20,
        ..LIMITS
    };
    let counted = run_with(&many, limits, &mut Fake::default());
    assert_eq!(counted, Ok(Some(Datum::Number(200_000))));
}

#[test]
fn what_is_in_use_is_never_collected() {
    let program = "
        local weak = setmetatable({}, {__mode = 'v'})
        local function make(n)
            local t = {n = n, f = function() return n end}
            weak[n] = t
            return t
        end
        local kept = {}
        for i = 1, 20 do
            local t = make(i)
            if i % 2 == 0 then kept[#kept + 1] = t end
        end
        table.sort(kept, function(a, b)
            local junk = {a.n, b.n, {}}
            return a.f() > b.f() and #junk == 3
        end)
        local co = coroutine.wrap(function()
            for _, t in ipairs(kept) do coroutine.yield(t.f()) end
        end)
        local sum = 0
        for n in co do sum = sum + n end
        local s = ('abc'):gsub('.', function(c) return c .. #{c, {}} end)
        collectgarbage()
        local left = 0
        for _ in pairs(weak) do left = left + 1 end
        return sum * 1000 + left * 10 + #s";
    assert_eq!(
        stressed(program),
        Ok(Some(Datum::Number(110_000 + 100 + 6)))
    );
    // A comparison that takes the items out of the table that is sorted.
    let hostile = "
        local t = {}
        for i = 1, 20 do t[i] = {i} end
        table.sort(t, function(a, b)
            for i = 1, 20 do t[i] = false end
            local less = a and b and a[1] < b[1]
            a, b = nil, nil
            for i = 1, 10 do local junk = {{}} end
            return less
        end)
        for i = 1, 20 do if t[i] then assert(t[i][1]) end end";
    assert!(stressed(hostile).is_ok() || stressed(hostile).is_err());
}

#[test]
fn a_program_takes_the_same_instructions_each_time() {
    let steps = || {
        let mut fake = Fake::default();
        let limits = (LIMITS.instructions, LIMITS.memory as usize);
        let mut vm = Vm::new(&mut fake, true, limits).ok().unwrap();
        let program = "
            local t = {}
            for i = 1, 2000 do t['k' .. i] = {i} end
            local s = 0
            for k, v in pairs(t) do s = s * 7 + v[1] end
            return s";
        let result = run_in(&mut vm, program.as_bytes(), &[]);
        (vm.steps, result)
    };
    assert_eq!(steps(), steps());
}
