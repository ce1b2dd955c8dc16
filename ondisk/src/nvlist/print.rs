//! Lists as OpenZFS's libraries print them.

use super::{NvList, NvValue};
use std::fmt::LowerHex;
use std::io::{self, Write};

/// A list under way: its pairs to come, and what to print when it is over.
struct Frame<'a> {
    pairs: Box<dyn Iterator<Item = (&'a [u8], &'a NvValue)> + 'a>,
    /// The name, and the number within an array.
    name: &'a [u8],
    index: Option<usize>,
    /// The later lists of the array.
    later: &'a [NvList],
}

/// Prints `list`, nested ones indented.
///
/// # Errors
/// If `out` takes no more.
pub fn print_list(list: &NvList, out: &mut impl Write) -> io::Result<()> {
    let mut frames = Vec::new();
    open(&mut frames, list, (b"", None), &[], out)?;
    while let Some(frame) = frames.last_mut() {
        let Some((name, value)) = frame.pairs.next() else {
            let frame = frames.pop();
            if let Some(frame) = frame {
                close(&mut frames, &frame, out)?;
            }
            continue;
        };
        let depth = frames.len() - 1;
        indent(depth, out)?;
        out.write_all(b"\t")?;
        out.write_all(name)?;
        match value {
            NvValue::List(list) => {
                writeln!(out, " = (embedded nvlist)")?;
                open(&mut frames, list, (name, None), &[], out)?;
            }
            NvValue::ListArray(lists) => {
                writeln!(out, " = (array of embedded nvlists)")?;
                if let Some((first, later)) = lists.split_first() {
                    open(&mut frames, first, (name, Some(0)), later, out)?;
                }
            }
            value => print_value(value, out)?,
        }
    }
    Ok(())
}

fn indent(depth: usize, out: &mut impl Write) -> io::Result<()> {
    (0..depth).try_for_each(|_| out.write_all(b"\t"))
}

/// Begins a list that is to be printed next.
fn open<'a>(
    frames: &mut Vec<Frame<'a>>,
    list: &'a NvList,
    (name, index): (&'a [u8], Option<usize>),
    later: &'a [NvList],
    out: &mut impl Write,
) -> io::Result<()> {
    let depth = frames.len();
    if let Some(index) = index {
        indent(depth, out)?;
        out.write_all(b"(start ")?;
        out.write_all(name)?;
        writeln!(out, "[{index}])")?;
    }
    indent(depth, out)?;
    writeln!(out, "nvlist version: 0")?;
    frames.push(Frame {
        pairs: Box::new(list.iter()),
        name,
        index,
        later,
    });
    Ok(())
}

/// Ends a list, and begins the next one of its array.
fn close<'a>(
    frames: &mut Vec<Frame<'a>>,
    frame: &Frame<'a>,
    out: &mut impl Write,
) -> io::Result<()> {
    if frames.is_empty() {
        return Ok(());
    }
    indent(frames.len(), out)?;
    out.write_all(b"(end ")?;
    out.write_all(frame.name)?;
    match frame.index {
        Some(index) => writeln!(out, "[{index}])")?,
        None => writeln!(out, ")\n")?,
    }
    match (frame.index, frame.later.split_first()) {
        (Some(index), Some((next, later))) => {
            open(frames, next, (frame.name, Some(index + 1)), later, out)
        }
        _ => Ok(()),
    }
}

/// The rest of a pair's line.
fn print_value(value: &NvValue, out: &mut impl Write) -> io::Result<()> {
    match value {
        NvValue::Boolean => writeln!(out, " = 1"),
        NvValue::BooleanValue(value) => writeln!(out, " = {}", u8::from(*value)),
        NvValue::Byte(number) | NvValue::Uint8(number) => writeln!(out, " = {number:#x}"),
        NvValue::Uint16(number) => writeln!(out, " = {number:#x}"),
        NvValue::Uint32(number) => writeln!(out, " = {number:#x}"),
        NvValue::Uint64(number) | NvValue::Double(number) => writeln!(out, " = {number:#x}"),
        NvValue::HrTime(number) => writeln!(out, " = {number:#x}"),
        NvValue::Int8(number) => writeln!(out, " = {number}"),
        NvValue::Int16(number) => writeln!(out, " = {number}"),
        NvValue::Int32(number) => writeln!(out, " = {number}"),
        NvValue::Int64(number) => writeln!(out, " = {number}"),
        NvValue::String(text) => {
            out.write_all(b" = ")?;
            out.write_all(text)?;
            writeln!(out)
        }
        NvValue::StringArray(texts) => {
            out.write_all(b" =")?;
            for text in texts {
                out.write_all(b" ")?;
                out.write_all(text)?;
            }
            writeln!(out)
        }
        NvValue::BooleanArray(values) => print_numbers(values.iter().map(|v| u8::from(*v)), out),
        NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) => {
            print_numbers(bytes.iter().copied(), out)
        }
        NvValue::Int8Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Int16Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Int32Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Int64Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Uint16Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Uint32Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::Uint64Array(numbers) => print_numbers(numbers.iter().copied(), out),
        NvValue::List(_) | NvValue::ListArray(_) => Ok(()),
    }
}

fn print_numbers(
    numbers: impl Iterator<Item = impl LowerHex>,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(b" =")?;
    for number in numbers {
        write!(out, " {number:#x}")?;
    }
    writeln!(out)
}
