//! `string.format`: whole numbers, characters and texts.

use super::fault::Fault;
use super::machine::{Arguments, Vm};

/// Flags, width and precision of one item.
#[derive(Clone, Copy, Debug, Default)]
struct Item {
    is_left: bool,
    has_sign: bool,
    has_space: bool,
    is_alternative: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
}

impl Item {
    /// Reads what is between `%` and the letter.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let mut item = Self::default();
        let mut rest = text;
        while let Some((flag, behind)) = rest.split_first() {
            match flag {
                b'-' => item.is_left = true,
                b'+' => item.has_sign = true,
                b' ' => item.has_space = true,
                b'#' => item.is_alternative = true,
                b'0' => item.has_zeros = true,
                _ => break,
            }
            rest = behind;
        }
        // As in C's library behind Lua, at most two digits.
        let (width, behind) = digits(rest)?;
        item.width = width.unwrap_or(0);
        rest = behind;
        if let [b'.', behind @ ..] = rest {
            let (precision, behind) = digits(behind)?;
            item.precision = Some(precision.unwrap_or(0));
            rest = behind;
        }
        Some((item, rest))
    }

    /// A text with spaces before or behind it.
    fn padded(&self, bytes: &[u8]) -> Vec<u8> {
        let missing = self.width.saturating_sub(bytes.len());
        let spaces = vec![b' '; missing];
        match self.is_left {
            true => [bytes, &spaces].concat(),
            false => [&spaces, bytes].concat(),
        }
    }

    /// Digits with their sign or prefix.
    fn number(&self, prefix: &str, digits: &str) -> Vec<u8> {
        let digits = match self.precision {
            Some(0) if digits == "0" => "",
            _ => digits,
        };
        let mut least = self.precision.unwrap_or(1);
        if self.has_zeros && !self.is_left && self.precision.is_none() {
            least = self.width.saturating_sub(prefix.len());
        }
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        self.padded(format!("{prefix}{zeros}{digits}").as_bytes())
    }
}

/// Up to two digits; `None` if there are more.
fn digits(text: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count > 2 {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + usize::from(digit - b'0'));
    Some(((count > 0).then_some(value), rest))
}

pub(super) fn format(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let text = vm.bytes(arguments, 0)?;
    vm.charge_bytes(text.bytes().len())?;
    let mut made = Vec::new();
    let mut rest = text.bytes();
    let mut number = 0;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            made.push(*first);
            continue;
        }
        if let [b'%', behind @ ..] = rest {
            made.push(b'%');
            rest = behind;
            continue;
        }
        let Some((item, behind)) = Item::read(rest) else {
            return Err(vm.error("invalid format (width or precision too long)"));
        };
        number += 1;
        let Some((letter, behind)) = behind.split_first() else {
            return Err(vm.error("invalid option '%' to 'format'"));
        };
        rest = behind;
        let bytes = formatted(vm, arguments, number, item, *letter)?;
        vm.meter.check(made.len() + bytes.len())?;
        vm.charge_bytes(bytes.len())?;
        made.extend(bytes);
    }
    vm.answer_text(&made)
}

fn formatted(
    vm: &mut Vm<'_>,
    arguments: Arguments,
    number: usize,
    item: Item,
    letter: u8,
) -> Result<Vec<u8>, Fault> {
    match letter {
        b'c' => {
            let value = vm.number(arguments, number)?;
            Ok(item.padded(&[value as u8]))
        }
        b'd' | b'i' => {
            let value = vm.number(arguments, number)?;
            let sign = match value {
                value if value < 0 => "-",
                _ if item.has_sign => "+",
                _ if item.has_space => " ",
                _ => "",
            };
            Ok(item.number(sign, &value.unsigned_abs().to_string()))
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = vm.number(arguments, number)?.cast_unsigned();
            let (prefix, digits) = match letter {
                b'u' => ("", value.to_string()),
                b'o' => ("0", format!("{value:o}")),
                b'x' => ("0x", format!("{value:x}")),
                _ => ("0X", format!("{value:X}")),
            };
            let has_prefix = item.is_alternative && value != 0;
            Ok(item.number(if has_prefix { prefix } else { "" }, &digits))
        }
        b's' => {
            let value = vm.any(arguments, number)?;
            let text = vm.shown(&value)?;
            let bytes = text.text().unwrap_or_default();
            let shown = item.precision.unwrap_or(bytes.len()).min(bytes.len());
            vm.meter.check(shown)?;
            Ok(item.padded(&bytes[..shown]))
        }
        b'q' => {
            let text = vm.bytes(arguments, number)?;
            vm.meter.check(text.bytes().len() * 4)?;
            Ok(quoted(text.bytes()))
        }
        other => {
            let other = char::from(other);
            Err(vm.error(&format!("invalid option '%{other}' to 'format'")))
        }
    }
}

/// A text as a program would write it.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' | b'\\' | b'\n' => text.extend([b'\\', *byte]),
            b'\r' => text.extend(b"\\r"),
            0 | 1..=31 | 127 => {
                let is_before_digit = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
                let escaped = match is_before_digit {
                    true => format!("\\{byte:03}"),
                    false => format!("\\{byte}"),
                };
                text.extend(escaped.as_bytes());
            }
            byte => text.push(*byte),
        }
    }
    text.push(b'"');
    text
}
