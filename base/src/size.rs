//! Sizes as people write them: `128K`, `1.5GiB`.
//!
//! One reader serves properties, settings and the command line, so that a size means the same
//! everywhere; the messages are OpenZFS's. Printing sizes is the clients' business.

use std::mem::replace;

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum SizeError {
    #[error("bad numeric value '{0}'")]
    BadNumber(String),
    #[error("invalid numeric suffix '{0}'")]
    BadSuffix(String),
    #[error("numeric value is too large")]
    TooLarge,
}

/// Reads a number with an optional fraction and a suffix of K, M, G, T, P, E or Z, an optional `B`
/// or `iB` behind it (cli/contract 2).
///
/// # Errors
/// If it is no such number, or does not fit into 64 bits.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let bad = || SizeError::BadNumber(text.to_owned());
    let mut has_point = false;
    let is_number = |c: char| c.is_ascii_digit() || (c == '.' && !replace(&mut has_point, true));
    let end = text.len() - text.trim_start_matches(is_number).len();
    let (number, suffix) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(bad());
    }
    let shift = suffix_shift(suffix).ok_or_else(|| SizeError::BadSuffix(suffix.to_owned()))?;
    let too_large = SizeError::TooLarge;
    match number.split_once('.') {
        None => {
            let whole: u64 = number.parse().map_err(|_| too_large.clone())?;
            match shift {
                0..64 if whole.leading_zeros() >= shift || whole == 0 => Ok(whole << shift),
                _ => Err(too_large),
            }
        }
        Some(_) => {
            let value: f64 = number.parse().map_err(|_| bad())?;
            let bytes = value * 2_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX));
            // Below 2^64 the conversion keeps the whole part.
            match bytes < 18_446_744_073_709_551_616.0 {
                true => Ok(bytes as u64),
                false => Err(too_large),
            }
        }
    }
}

fn suffix_shift(suffix: &str) -> Option<u32> {
    let upper = suffix.to_ascii_uppercase();
    let letter = match upper.as_str() {
        "" | "B" => return Some(0),
        other => other
            .strip_suffix("IB")
            .or(other.strip_suffix('B'))
            .unwrap_or(other),
    };
    let place = "KMGTPEZ".find(letter).filter(|_| letter.len() == 1)?;
    u32::try_from(10 * (place + 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("128K"), Ok(131_072));
        assert_eq!(parse_size("1.5kib"), Ok(1536));
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("15EB"), Ok(15 << 60));
        assert_eq!(parse_size("16E"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("1Z"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("12q"), Err(SizeError::BadSuffix("q".into())));
        let twice = Err(SizeError::BadSuffix(".2".into()));
        assert_eq!(parse_size("1.7.2"), twice);
        assert_eq!(parse_size("abc"), Err(SizeError::BadNumber("abc".into())));
        assert_eq!(parse_size(""), Err(SizeError::BadNumber(String::new())));
    }
}
