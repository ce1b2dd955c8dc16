//! Numbers as the kernel's module parameters take them, and sizes with a unit.
//!
//! The kernel takes decimal digits, hexadecimal ones behind `0x` and octal ones behind `0`. A
//! number of bytes may also be written with K, M, G, T, P or E behind it, as in properties.

use super::unit::Unit;

/// Parses a number; `None` if `text` is not a number, or not below 2^64.
pub(super) fn parse(text: &str, unit: Unit) -> Option<u64> {
    if unit == Unit::Bytes
        && let Some((last, letter)) = text.char_indices().next_back()
        && let Some(shift) = shift_of(letter)
    {
        return plain(&text[..last])?.checked_mul(1 << shift);
    }
    match (unit, text) {
        (Unit::Switch, "Y" | "y") => Some(1),
        (Unit::Switch, "N" | "n") => Some(0),
        _ => plain(text),
    }
}

fn shift_of(letter: char) -> Option<u32> {
    match letter.to_ascii_uppercase() {
        'K' => Some(10),
        'M' => Some(20),
        'G' => Some(30),
        'T' => Some(40),
        'P' => Some(50),
        'E' => Some(60),
        _ => None,
    }
}

fn plain(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    // `from_str_radix` also takes a sign.
    let are_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    are_digits.then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_the_kernel_takes() {
        let count = |text| parse(text, Unit::Count);
        assert_eq!(
            [count("0"), count("12"), count("0x1F")],
            [Some(0), Some(12), Some(31)]
        );
        assert_eq!([count("010"), count("08")], [Some(8), None]);
        assert_eq!(count("18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "-1",
            "+1",
            "1.5",
            "1 ",
            "0x",
            "1k",
            "18446744073709551616",
            "é",
        ] {
            assert_eq!(count(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn bytes_have_units() {
        let bytes = |text| parse(text, Unit::Bytes);
        assert_eq!([bytes("4k"), bytes("2G")], [Some(4096), Some(2 << 30)]);
        assert_eq!([bytes("3p"), bytes("1E")], [Some(3 << 50), Some(1 << 60)]);
        assert_eq!([bytes("G"), bytes("16E"), bytes("1é")], [None; 3]);
        assert_eq!(parse("Y", Unit::Switch), Some(1));
    }
}
