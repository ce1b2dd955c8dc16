//! A resume token's list, as OpenZFS's `zstream token` prints it.

use cenote_ondisk::{NvList, NvValue};
use std::io::{self, Write};

/// Prints the entries of `list`, one a line. Of kinds that no token has, only the name.
///
/// # Errors
/// If `out` takes no more.
pub fn print_token(list: &NvList, out: &mut impl Write) -> io::Result<()> {
    for (name, value) in list.iter() {
        match value {
            NvValue::Uint64Array(numbers) => {
                for (index, number) in numbers.iter().enumerate() {
                    print_name(name, out)?;
                    writeln!(out, "[{index}]: {number}")?;
                }
                continue;
            }
            _ => print_name(name, out)?,
        }
        match value {
            NvValue::Uint64(number) => writeln!(out, ": {number}")?,
            NvValue::String(text) => {
                out.write_all(b": '")?;
                out.write_all(text)?;
                writeln!(out, "'")?;
            }
            _ => writeln!(out)?,
        }
    }
    Ok(())
}

fn print_name(name: &[u8], out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"     ")?;
    out.write_all(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program of OpenZFS 2.3.2 prints of the same list.
    const REFERENCE: &str = "     fromguid: 9223372036854775809
     object: 7
     toname: 'tank/a b@x'y'
     largeblockok
     redact_snaps[0]: 3
     redact_snaps[1]: 9223372036854775808
";

    #[test]
    fn the_text_is_that_of_the_reference() {
        let mut list = NvList::new();
        list.set_u64("fromguid", 1 << 63 | 1);
        list.set_u64("object", 7);
        list.set_str("toname", "tank/a b@x'y");
        list.set("largeblockok", NvValue::Boolean);
        list.set("redact_snaps", NvValue::Uint64Array(vec![3, 1 << 63]));
        let mut text = Vec::new();
        print_token(&list, &mut text).expect("memory takes everything");
        assert_eq!(String::from_utf8_lossy(&text), REFERENCE);
    }
}
