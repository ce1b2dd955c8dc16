//! `zdb -R`: what is stored at an address, whether it belongs to a block or not.

use crate::line::Asked;
use crate::pointer;
use crate::print::Printer;
use crate::problem::Problem;
use crate::session::Target;
use cenote_base::{Txg, VdevId};
use cenote_dmu::IoContext;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::{BlockPointer, Dva};

/// The most that is read at a time: the largest block.
const SIZE_MAX: u64 = 16 << 20;

/// An address, and how to print what is there.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    vdev: u64,
    offset: u64,
    size: u64,
    /// As block pointers.
    pointers: bool,
    /// As bytes.
    raw: bool,
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let mut hex = |what: &str| {
            let part = parts.next().unwrap_or_default();
            u64::from_str_radix(part, 16).map_err(|_| format!("no {what} in '{text}'"))
        };
        let (offset_of, size_of) = ("offset in hexadecimal", "size in hexadecimal");
        let vdev = hex("vdev")?;
        let (offset, size) = (hex(offset_of)?, hex(size_of)?);
        let flags = parts.next().unwrap_or_default();
        if let Some(wrong) = flags.chars().find(|flag| !"ir".contains(*flag)) {
            return Err(format!("flag '{wrong}' is not supported; i and r are"));
        }
        if parts.next().is_some() {
            return Err(format!("'{text}' has too many parts"));
        }
        if size == 0 || size > SIZE_MAX || size % 512 != 0 || offset % 512 != 0 {
            return Err("offset and size are multiples of 200, and size is at most 1000000".into());
        }
        if vdev >= 1 << 24 {
            return Err(format!("there is no vdev {vdev:x}"));
        }
        Ok(Self {
            vdev,
            offset,
            size,
            pointers: flags.contains('i'),
            raw: flags.contains('r'),
        })
    }
}

/// Prints what is at an address.
pub fn print(asked: &Asked, printer: &mut Printer) -> Result<(), Problem> {
    let [_, _] = asked.operands.as_slice() else {
        return Err(Problem::Usage(
            "-R: give a pool and VDEV:OFFSET:SIZE".to_owned(),
        ));
    };
    let address = Address::parse(asked.operand(1, "an address")?);
    let address = address.map_err(|problem| Problem::Usage(format!("-R: {problem}")))?;
    let target = Target::open(asked, asked.operand(0, "a pool")?)?;
    let dva = Dva::new(VdevId(address.vdev), address.offset, address.size);
    let length = usize::try_from(address.size).expect("at most 16 MiB");
    let vdevs = target.session.pool().vdevs();
    let read = vdevs.read(dva, length, Txg(0), &|_| true, &IoContext::COMMAND);
    let read = read.map_err(|error| Problem::Failed(format!("{dva}: {error}")))?;
    if address.raw {
        return printer.bytes(&read.bytes);
    }
    if address.pointers {
        let (pointers, _) = read.bytes.as_chunks::<BLOCK_POINTER_SIZE>();
        for bytes in pointers {
            printer.line(&pointer::full(&BlockPointer::from_array(bytes)))?;
        }
        return Ok(());
    }
    printer.line(&format!("\n{dva}"))?;
    printer.line("          0 1 2 3 4 5 6 7   8 9 a b c d e f  0123456789abcdef")?;
    for (row, at) in read.bytes.chunks(16).zip((0_u64..).step_by(16)) {
        let halves: Vec<String> = row
            .chunks(8)
            .map(cenote_own_commands::reading::output::hex)
            .collect();
        let letters: String = row.iter().map(|byte| letter(*byte)).collect();
        printer.line(&format!("{at:06x}:  {}  {letters}", halves.join("  ")))?;
    }
    Ok(())
}

fn letter(byte: u8) -> char {
    match byte {
        0x20..=0x7e => char::from(byte),
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_in_block_pointers() {
        let address = Address::parse("0:4e00:200:r").expect("an address");
        assert_eq!((address.offset, address.size), (0x4e00, 0x200));
        assert!(address.raw && !address.pointers);
        for wrong in [
            "",
            "0:1",
            "0:200:0",
            "x:200:200",
            "0:g:200",
            "0:0:200:z",
            "0:100:200",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Address::parse("1000000:0:200").is_err());
    }
}
