//! The library `string`. Absent, as in OpenZFS: `dump`, and formats of fractions.

use super::fault::{Fault, Stop};
use super::heap::Function;
use super::machine::{Arguments, Builtin, Native, Vm};
use super::pattern::{Capture, Failure, Matcher};
use super::value::{Text, Value};
use std::rc::Rc;

const FUNCTIONS: [(&str, Native); 12] = [
    ("byte", byte),
    ("char", char_of),
    ("find", find),
    ("format", super::format::format),
    ("gmatch", gmatch),
    ("gsub", gsub),
    ("len", length),
    ("lower", lower),
    ("match", match_of),
    ("rep", repeat),
    ("reverse", reverse),
    ("upper", upper),
];

/// The iterator of `gmatch`.
const GMATCH: &str = "gmatch";

/// Steps of a search that count as an instruction.
const SEARCHES_PER_STEP: u64 = 4;

/// Adds the library to a machine, and its functions as methods of texts.
pub(crate) fn add(vm: &mut Vm<'_>) -> Result<(), Fault> {
    let library = vm.library(&FUNCTIONS)?;
    vm.add_to(library, &[("sub", sub)])?;
    let globals = vm.globals;
    vm.set_field(globals, "string", Value::Table(library))?;
    let metatable = vm.heap.new_table()?;
    vm.set_field(metatable, "__index", Value::Table(library))?;
    vm.text_metatable = Some(metatable);
    let next = vm.add_native(Builtin::Plain(gmatch_next));
    vm.hidden.insert(GMATCH, next);
    Ok(())
}

/// A position from the begin, or from the end if it is negative; from 1 on.
fn position(position: i64, length: usize) -> i64 {
    let length = length as i64;
    match position {
        position if position >= 0 => position,
        position if position < -length => 0,
        position => length + position + 1,
    }
}

/// The bytes from one position to another.
fn range(text: &[u8], first: i64, last: i64) -> &[u8] {
    let first = position(first, text.len()).max(1);
    let last = position(last, text.len()).min(text.len() as i64);
    match first > last {
        true => &[],
        false => &text[first as usize - 1..last as usize],
    }
}

fn byte(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let text = vm.bytes(arguments, 0)?;
    let first = vm.number_or(arguments, 1, 1)?;
    let first = position(first, text.bytes().len());
    let last = vm.number_or(arguments, 2, first)?;
    let bytes = range(text.bytes(), first, last);
    vm.meter.check(size_of_val(bytes) * size_of::<Value>())?;
    vm.charge_values(bytes.len())?;
    for byte in bytes {
        vm.push(Value::Number(i64::from(*byte)));
    }
    Ok(bytes.len() as u32)
}

fn char_of(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let mut bytes = Vec::with_capacity(arguments.count);
    for number in 0..arguments.count {
        match u8::try_from(vm.number(arguments, number)?) {
            Ok(byte) => bytes.push(byte),
            Err(_) => return Err(vm.argument_error(arguments, number, "value out of range")),
        }
    }
    vm.answer_text(&bytes)
}

fn length(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let length = vm.bytes(arguments, 0)?.bytes().len() as i64;
    vm.answer(length)
}

fn sub(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let text = vm.bytes(arguments, 0)?;
    let first = vm.number(arguments, 1)?;
    let last = vm.number_or(arguments, 2, -1)?;
    let part = range(text.bytes(), first, last);
    vm.charge_bytes(part.len())?;
    vm.answer_text(part)
}

fn changed(
    vm: &mut Vm<'_>,
    arguments: Arguments,
    change: impl FnOnce(&mut [u8]),
) -> Result<u32, Fault> {
    let text = vm.bytes(arguments, 0)?;
    vm.meter.check(text.bytes().len())?;
    vm.charge_bytes(text.bytes().len())?;
    let mut bytes = text.bytes().to_vec();
    change(&mut bytes);
    vm.answer_text(&bytes)
}

fn lower(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    changed(vm, arguments, <[u8]>::make_ascii_lowercase)
}

fn upper(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    changed(vm, arguments, <[u8]>::make_ascii_uppercase)
}

fn reverse(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    changed(vm, arguments, <[u8]>::reverse)
}

fn repeat(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let text = vm.bytes(arguments, 0)?;
    let count = vm.number(arguments, 1)?.max(0) as usize;
    let separator = match vm.argument(arguments, 2) {
        Value::Nil => None,
        _ => Some(vm.bytes(arguments, 2)?),
    };
    let separator: &[u8] = separator.as_ref().map_or(&[], |text| text.bytes());
    let bytes = (text.bytes().len() + separator.len()).saturating_mul(count);
    vm.meter.check(bytes)?;
    vm.charge_bytes(bytes)?;
    if bytes == 0 {
        return vm.answer_text(&[]);
    }
    let mut repeated = Vec::with_capacity(bytes);
    for turn in 0..count {
        repeated.extend_from_slice(text.bytes());
        if turn + 1 < count {
            repeated.extend_from_slice(separator);
        }
    }
    vm.answer_text(&repeated)
}

// Searches.

/// Searches with a matcher, and counts its steps.
fn search<T>(
    vm: &mut Vm<'_>,
    (subject, pattern): (&[u8], &[u8]),
    search: impl FnOnce(&mut Matcher<'_>) -> Result<T, Failure>,
) -> Result<T, Fault> {
    let steps = vm.steps_left().saturating_mul(SEARCHES_PER_STEP);
    let mut matcher = Matcher::new(subject, pattern, steps);
    let found = search(&mut matcher);
    let used = steps - matcher.left;
    vm.charge(used / SEARCHES_PER_STEP)?;
    found.map_err(|failure| match failure {
        Failure::Bad(problem) => vm.error(problem),
        Failure::BadCapture(number) => vm.error(&format!("invalid capture index %{number}")),
        Failure::Steps => Fault::Stopped(Stop::Instructions),
    })
}

/// A match: its begin and end, and what it captured.
struct Match {
    begin: usize,
    end: usize,
    captures: Vec<Capture>,
}

/// The first match from a place on.
fn first_match(
    vm: &mut Vm<'_>,
    subject: &[u8],
    pattern: &[u8],
    from: usize,
) -> Result<Option<Match>, Fault> {
    let (is_anchored, begin) = match pattern.first() {
        Some(b'^') => (true, 1),
        _ => (false, 0),
    };
    search(vm, (subject, pattern), |matcher| {
        let mut at = from;
        loop {
            matcher.captures.clear();
            if let Some(end) = matcher.match_at(at, begin)? {
                let captures = std::mem::take(&mut matcher.captures);
                let begin = at;
                return Ok(Some(Match {
                    begin,
                    end,
                    captures,
                }));
            }
            if is_anchored || at >= subject.len() {
                return Ok(None);
            }
            at += 1;
        }
    })
}

/// What a match captured; the whole of it if the pattern captures nothing.
fn captured(vm: &mut Vm<'_>, subject: &[u8], found: &Match) -> Result<Vec<Value>, Fault> {
    if found.captures.is_empty() {
        let whole = vm.text(&subject[found.begin..found.end])?;
        return Ok(vec![whole]);
    }
    let mut values = Vec::with_capacity(found.captures.len());
    for capture in &found.captures {
        values.push(match *capture {
            Capture::Text(begin, end) => vm.text(&subject[begin..end])?,
            Capture::Position(at) => Value::Number(at as i64 + 1),
            Capture::Open(_) => return Err(vm.error("unfinished capture")),
        });
    }
    Ok(values)
}

/// Subject, pattern, and where the search begins; `None` if that is behind the end.
type Wanted = (Rc<Text>, Rc<Text>, Option<usize>);

fn wanted(vm: &mut Vm<'_>, arguments: Arguments) -> Result<Wanted, Fault> {
    let (subject, pattern) = (vm.bytes(arguments, 0)?, vm.bytes(arguments, 1)?);
    let from = vm.number_or(arguments, 2, 1)?;
    let from = position(from, subject.bytes().len()).max(1) as usize - 1;
    let from = Some(from).filter(|from| *from <= subject.bytes().len());
    Ok((subject, pattern, from))
}

fn find(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (subject, pattern, from) = wanted(vm, arguments)?;
    let Some(from) = from else {
        return vm.answer(Value::Nil);
    };
    let (subject, pattern) = (subject.bytes(), pattern.bytes());
    let is_special = pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if vm.argument(arguments, 3).is_true() || !is_special {
        return find_plain(vm, subject, pattern, from);
    }
    let Some(found) = first_match(vm, subject, pattern, from)? else {
        return vm.answer(Value::Nil);
    };
    let values = match found.captures.is_empty() {
        true => Vec::new(),
        false => captured(vm, subject, &found)?,
    };
    vm.push(Value::Number(found.begin as i64 + 1));
    vm.push(Value::Number(found.end as i64));
    let count = values.len() as u32;
    vm.current().stack.extend(values);
    Ok(2 + count)
}

fn find_plain(vm: &mut Vm<'_>, subject: &[u8], wanted: &[u8], from: usize) -> Result<u32, Fault> {
    let rest = &subject[from..];
    let found = match wanted.first() {
        None => Some(0),
        Some(first) => {
            let mut places = rest.iter().enumerate();
            loop {
                let Some((place, _)) = places.find(|(_, byte)| *byte == first) else {
                    break None;
                };
                // It may begin in very many places, and differ at its end.
                vm.charge_bytes(wanted.len().max(8) * 8)?;
                if rest[place..].starts_with(wanted) {
                    break Some(place);
                }
            }
        }
    };
    vm.charge_bytes(found.unwrap_or(rest.len()))?;
    let Some(found) = found else {
        return vm.answer(Value::Nil);
    };
    let begin = (from + found) as i64;
    vm.push(Value::Number(begin + 1));
    vm.push(Value::Number(begin + wanted.len() as i64));
    Ok(2)
}

fn match_of(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (subject, pattern, from) = wanted(vm, arguments)?;
    let Some(from) = from else {
        return vm.answer(Value::Nil);
    };
    match first_match(vm, subject.bytes(), pattern.bytes(), from)? {
        None => vm.answer(Value::Nil),
        Some(found) => {
            let values = captured(vm, subject.bytes(), &found)?;
            let count = values.len() as u32;
            vm.current().stack.extend(values);
            Ok(count)
        }
    }
}

fn gmatch(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (subject, pattern) = (vm.bytes(arguments, 0)?, vm.bytes(arguments, 1)?);
    let state = vec![Value::Text(subject), Value::Text(pattern), Value::Number(0)];
    let native = vm.hidden[GMATCH];
    let iterator = vm.heap.new_function(Function::Bound { native, state })?;
    vm.answer(Value::Function(iterator))
}

fn gmatch_next(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let own = arguments.state.expect("it was made with a state");
    let state = vm.heap.state_mut(own).clone();
    let [
        Value::Text(subject),
        Value::Text(pattern),
        Value::Number(from),
    ] = state.as_slice()
    else {
        unreachable!("it was made with this state")
    };
    let (subject, from) = (subject.bytes(), *from as usize);
    if from > subject.len() {
        return vm.answer(Value::Nil);
    }
    // An anchor would make no sense here, and is none.
    let pattern = pattern.bytes();
    let found = search(vm, (subject, pattern), |matcher| {
        for at in from..=subject.len() {
            matcher.captures.clear();
            if let Some(end) = matcher.match_at(at, 0)? {
                let captures = std::mem::take(&mut matcher.captures);
                let begin = at;
                return Ok(Some(Match {
                    begin,
                    end,
                    captures,
                }));
            }
        }
        Ok(None)
    })?;
    let Some(found) = found else {
        return vm.answer(Value::Nil);
    };
    let next = match found.end == found.begin {
        true => found.end + 1,
        false => found.end,
    };
    vm.heap.state_mut(own)[2] = Value::Number(next as i64);
    let values = captured(vm, subject, &found)?;
    let count = values.len() as u32;
    vm.current().stack.extend(values);
    Ok(count)
}

// Replacing.

fn gsub(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (subject, pattern) = (vm.bytes(arguments, 0)?, vm.bytes(arguments, 1)?);
    let replacement = match vm.argument(arguments, 2) {
        Value::Number(_) => Value::Text(vm.bytes(arguments, 2)?),
        value @ (Value::Text(_) | Value::Table(_) | Value::Function(_) | Value::Native(_)) => value,
        _ => {
            let problem = "string/function/table expected";
            return Err(vm.argument_error(arguments, 2, problem));
        }
    };
    let (subject, pattern) = (subject.bytes(), pattern.bytes());
    let most = vm.number_or(arguments, 3, subject.len() as i64 + 1)?;
    let (is_anchored, begin) = match pattern.first() {
        Some(b'^') => (true, 1),
        _ => (false, 0),
    };
    let (mut at, mut count, mut changed) = (0, 0, Vec::new());
    while count < most {
        vm.charge(1)?;
        let found = search(vm, (subject, pattern), |matcher| {
            let end = matcher.match_at(at, begin)?;
            let captures = std::mem::take(&mut matcher.captures);
            Ok(end.map(|end| Match {
                begin: at,
                end,
                captures,
            }))
        })?;
        if let Some(found) = &found {
            count += 1;
            replace(vm, subject, found, &replacement, &mut changed)?;
        }
        match found {
            Some(found) if found.end > at => at = found.end,
            _ if at < subject.len() => {
                changed.push(subject[at]);
                at += 1;
            }
            _ => break,
        }
        vm.meter.check(changed.len())?;
        if is_anchored {
            break;
        }
    }
    changed.extend_from_slice(&subject[at.min(subject.len())..]);
    vm.charge_bytes(changed.len())?;
    let text = vm.text(&changed)?;
    vm.push(text);
    vm.push(Value::Number(count));
    Ok(2)
}

/// Adds what takes the place of a match.
fn replace(
    vm: &mut Vm<'_>,
    subject: &[u8],
    found: &Match,
    replacement: &Value,
    changed: &mut Vec<u8>,
) -> Result<(), Fault> {
    let whole = &subject[found.begin..found.end];
    let value = match replacement {
        Value::Text(text) => {
            let text = Rc::clone(text);
            return replace_by_text(vm, subject, found, text.bytes(), changed);
        }
        Value::Table(table) => {
            let key = captured(vm, subject, found)?.swap_remove(0);
            vm.get(Value::Table(*table), key)?
        }
        function => {
            let captures = captured(vm, subject, found)?;
            let results = vm.call(function, &captures)?;
            results.into_iter().next().unwrap_or_default()
        }
    };
    if !value.is_true() {
        changed.extend_from_slice(whole);
        return Ok(());
    }
    match Vm::joined(&value) {
        Some(bytes) => {
            vm.charge_bytes(bytes.len())?;
            changed.extend(bytes);
            Ok(())
        }
        None => {
            let kind = value.type_name();
            Err(vm.error(&format!("invalid replacement value (a {kind})")))
        }
    }
}

/// `%1` is the first capture, `%0` the match.
fn replace_by_text(
    vm: &mut Vm<'_>,
    subject: &[u8],
    found: &Match,
    text: &[u8],
    changed: &mut Vec<u8>,
) -> Result<(), Fault> {
    vm.charge_bytes(text.len())?;
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            changed.push(*first);
            continue;
        }
        let Some((digit, behind)) = behind.split_first() else {
            return Err(vm.error("invalid use of '%' in replacement string"));
        };
        rest = behind;
        match digit {
            b'%' => changed.push(b'%'),
            b'0' => {
                vm.charge_bytes(found.end - found.begin)?;
                changed.extend_from_slice(&subject[found.begin..found.end]);
            }
            b'1'..=b'9' => {
                let number = usize::from(digit - b'1');
                let mut values = captured(vm, subject, found)?;
                if number >= values.len() {
                    return Err(vm.error(&format!("invalid capture index %{}", number + 1)));
                }
                let value = values.swap_remove(number);
                let bytes = Vm::joined(&value).unwrap_or_default();
                vm.charge_bytes(bytes.len())?;
                changed.extend(bytes);
            }
            _ => return Err(vm.error("invalid use of '%' in replacement string")),
        }
        vm.meter.check(changed.len())?;
    }
    Ok(())
}
