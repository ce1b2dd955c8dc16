//! Lists of names and values, indented.

use cenote_ondisk::{NvList, NvValue};
use std::fmt::Display;

/// Spaces for each level of lists in lists.
const STEP: usize = 4;

enum Work<'a> {
    Pair(&'a [u8], &'a NvValue),
    Title(String),
}

/// The lines of a list, each indented by `indent` spaces.
pub fn text(list: &NvList, indent: usize) -> String {
    let mut lines = String::new();
    let mut work: Vec<(usize, Work<'_>)> = Vec::new();
    push(&mut work, list, indent);
    while let Some((indent, item)) = work.pop() {
        let blank = " ".repeat(indent);
        match item {
            Work::Title(title) => lines.push_str(&format!("{blank}{title}:\n")),
            Work::Pair(name, value) => {
                let name = cenote_own_commands::reading::output::escaped(name);
                match value {
                    NvValue::List(list) => {
                        lines.push_str(&format!("{blank}{name}:\n"));
                        push(&mut work, list, indent + STEP);
                    }
                    NvValue::ListArray(lists) => {
                        for (index, list) in lists.iter().enumerate().rev() {
                            push(&mut work, list, indent + STEP);
                            work.push((indent, Work::Title(format!("{name}[{index}]"))));
                        }
                    }
                    value => {
                        for line in scalar(&name, value) {
                            lines.push_str(&format!("{blank}{line}\n"));
                        }
                    }
                }
            }
        }
    }
    lines
}

fn push<'a>(work: &mut Vec<(usize, Work<'a>)>, list: &'a NvList, indent: usize) {
    let pairs = list.iter().rev();
    work.extend(pairs.map(|(name, value)| (indent, Work::Pair(name, value))));
}

fn each<T: Display>(name: &str, values: impl IntoIterator<Item = T>) -> Vec<String> {
    let values = values.into_iter().enumerate();
    values
        .map(|(index, value)| format!("{name}[{index}]: {value}"))
        .collect()
}

fn quoted(text: &[u8]) -> String {
    format!("'{}'", cenote_own_commands::reading::output::escaped(text))
}

fn scalar(name: &str, value: &NvValue) -> Vec<String> {
    let one = |value: &dyn Display| vec![format!("{name}: {value}")];
    match value {
        NvValue::Boolean => vec![name.to_owned()],
        NvValue::BooleanValue(value) => one(value),
        NvValue::Byte(number) | NvValue::Uint8(number) => one(number),
        NvValue::Uint16(number) => one(number),
        NvValue::Uint32(number) => one(number),
        NvValue::Uint64(number) | NvValue::Double(number) => one(number),
        NvValue::HrTime(number) => one(number),
        NvValue::Int8(number) => one(number),
        NvValue::Int16(number) => one(number),
        NvValue::Int32(number) => one(number),
        NvValue::Int64(number) => one(number),
        NvValue::String(text) => one(&quoted(text)),
        NvValue::StringArray(texts) => each(name, texts.iter().map(|text| quoted(text))),
        NvValue::BooleanArray(values) => each(name, values),
        NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) => each(name, bytes),
        NvValue::Int8Array(numbers) => each(name, numbers),
        NvValue::Int16Array(numbers) => each(name, numbers),
        NvValue::Int32Array(numbers) => each(name, numbers),
        NvValue::Int64Array(numbers) => each(name, numbers),
        NvValue::Uint16Array(numbers) => each(name, numbers),
        NvValue::Uint32Array(numbers) => each(name, numbers),
        NvValue::Uint64Array(numbers) => each(name, numbers),
        NvValue::List(_) | NvValue::ListArray(_) => Vec::new(),
    }
}
