//! Numbers: 64-bit integers that wrap around, as channel programs have them. There are no others.

/// The number that a text stands for, with spaces around it. Decimal and hexadecimal digits wrap
/// around.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        _ => (10, digits),
    };
    let value = in_base(digits, base)?;
    Some(if is_negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// The same in any base from 2 to 36, without a prefix.
pub(crate) fn parse_in_base(text: &[u8], base: u32) -> Option<i64> {
    let text = trim(text);
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let value = in_base(digits, base)?;
    Some(if is_negative {
        value.wrapping_neg()
    } else {
        value
    })
}

fn in_base(digits: &[u8], base: u32) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base)?;
        value = value
            .wrapping_mul(i64::from(base))
            .wrapping_add(i64::from(digit));
    }
    Some(value)
}

fn trim(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let begin = text.iter().position(|byte| !is_space(byte));
    let end = text.iter().rposition(|byte| !is_space(byte));
    match (begin, end) {
        (Some(begin), Some(end)) => &text[begin..=end],
        _ => &[],
    }
}

/// An operation with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

impl Arithmetic {
    /// The metamethod.
    pub fn event(self) -> &'static str {
        match self {
            Self::Add => "__add",
            Self::Subtract => "__sub",
            Self::Multiply => "__mul",
            Self::Divide => "__div",
            Self::Modulo => "__mod",
            Self::Power => "__pow",
        }
    }

    /// The result; `None` for a division by zero. Divisions round towards zero.
    pub fn of(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide if b == 0 => return None,
            Self::Divide => a.wrapping_div(b),
            Self::Modulo if b == 0 => return None,
            Self::Modulo => a.wrapping_rem(b),
            Self::Power => return power(a, b),
        })
    }
}

/// A negative exponent leaves the integer part of the fraction.
fn power(base: i64, exponent: i64) -> Option<i64> {
    if exponent < 0 {
        return match base {
            0 => None,
            1 => Some(1),
            -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => Some(0),
        };
    }
    let (mut base, mut left, mut result) = (base, exponent, 1_i64);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left >>= 1;
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_numbers_that_wrap_around() {
        assert_eq!(parse(b" 12\n"), Some(12));
        assert_eq!(parse(b"-0xfF"), Some(-255));
        assert_eq!(parse(b"18446744073709551615"), Some(-1));
        for bad in ["", "0x", "1.0", "1e3", "- 1", "1 2", "x1", "00x2", "inf"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_in_base(b"-zZ", 36), Some(-(35 * 36 + 35)));
        assert_eq!(parse_in_base(b"12", 2), None);
    }

    #[test]
    fn arithmetic_has_no_overflow() {
        let of = |operation: Arithmetic, a, b| operation.of(a, b);
        assert_eq!(of(Arithmetic::Divide, i64::MIN, -1), Some(i64::MIN));
        assert_eq!(of(Arithmetic::Modulo, i64::MIN, -1), Some(0));
        assert_eq!(of(Arithmetic::Divide, -7, 2), Some(-3));
        assert_eq!(of(Arithmetic::Modulo, -7, 2), Some(-1));
        assert_eq!(of(Arithmetic::Divide, 1, 0), None);
        assert_eq!(of(Arithmetic::Modulo, 1, 0), None);
        assert_eq!(of(Arithmetic::Power, 2, 10), Some(1024));
        assert_eq!(of(Arithmetic::Power, 2, 64), Some(0));
        assert_eq!(of(Arithmetic::Power, -1, i64::MAX), Some(-1));
        assert_eq!(of(Arithmetic::Power, 0, -1), None);
    }
}
