//! The lines of single records.

use super::options::Options;
use cenote_ondisk::stream::{Begin, Checksum, Crypt, End, HeaderKind, MAGIC, Record};
use std::fmt;
use std::io::{self, Write};

/// Bytes in a row of a payload, in groups.
const ROW: usize = 16;
const GROUP: usize = 4;

/// Bytes as hexadecimal digits without blanks.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub(super) fn print_begin(begin: &Begin, options: Options, out: &mut impl Write) -> io::Result<()> {
    let kind = match begin.header_kind {
        HeaderKind::Substream => 1,
        HeaderKind::Package => 2,
    };
    writeln!(out, "BEGIN record")?;
    writeln!(out, "\thdrtype = {kind}")?;
    writeln!(out, "\tfeatures = {:x}", begin.features.0)?;
    writeln!(out, "\tmagic = {MAGIC:x}")?;
    writeln!(out, "\tcreation_time = {:x}", begin.creation_time)?;
    writeln!(out, "\ttype = {}", begin.objset_type)?;
    writeln!(out, "\tflags = 0x{:x}", begin.flags)?;
    writeln!(out, "\ttoguid = {:x}", begin.to_guid.0)?;
    writeln!(out, "\tfromguid = {:x}", begin.from_guid.0)?;
    out.write_all(b"\ttoname = ")?;
    out.write_all(&begin.to_name)?;
    writeln!(out, "\n\tpayloadlen = {}", begin.payload_length)?;
    if options.records {
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn print_end(end: &End, out: &mut impl Write) -> io::Result<()> {
    let [a, b, c, d] = end.checksum;
    writeln!(out, "END checksum = {a:x}/{b:x}/{c:x}/{d:x}")
}

pub(super) fn print_checksum(checksum: &Checksum, out: &mut impl Write) -> io::Result<()> {
    let [a, b, c, d] = checksum;
    writeln!(out, "    checksum = {a:x}/{b:x}/{c:x}/{d:x}")
}

/// What a record should have had where it has another checksum.
pub(super) fn print_expected(checksum: &Checksum, out: &mut impl Write) -> io::Result<()> {
    let [a, b, c, d] = checksum;
    writeln!(out, "Incorrect checksum in record header.")?;
    writeln!(out, "Expected checksum = {a:x}/{b:x}/{c:x}/{d:x}")
}

/// The line of a record that is neither BEGIN nor END.
pub(super) fn print(record: &Record, out: &mut impl Write) -> io::Result<()> {
    match record {
        Record::Begin(_) | Record::End(_) => Ok(()),
        Record::Object(object) => writeln!(
            out,
            "OBJECT object = {} type = {} bonustype = {} blksz = {} bonuslen = {} dn_slots = {} \
             raw_bonuslen = {} flags = {} maxblkid = {} indblkshift = {} nlevels = {} nblkptr = {}",
            object.object,
            object.object_type,
            object.bonus_type,
            object.block_size,
            object.bonus_length,
            object.slots,
            object.raw_bonus_length,
            object.flags,
            object.raw.block_id_max,
            object.raw.indirect_shift,
            object.raw.levels,
            object.raw.block_pointers,
        ),
        Record::FreeObjects(range) => {
            let (first, count) = (range.first, range.count);
            writeln!(out, "FREEOBJECTS firstobj = {first} numobjs = {count}")
        }
        Record::Write(write) => {
            write!(
                out,
                "WRITE object = {} type = {} checksum type = {} compression type = {} flags = {} \
                 offset = {} logical_size = {} compressed_size = {} payload_size = {} props = {:x}",
                write.object,
                write.object_type,
                write.checksum,
                write.compression,
                write.flags,
                write.offset,
                write.logical_size,
                write.compressed_size,
                write.payload_length(),
                write.key.properties,
            )?;
            print_crypt(&write.crypt, out)
        }
        record => print_rarer(record, out),
    }
}

fn print_rarer(record: &Record, out: &mut impl Write) -> io::Result<()> {
    match record {
        // The length is printed as if it had a sign: to the end of the object is -1.
        Record::Free(free) => {
            let (object, offset, length) = (free.object, free.offset, free.length.cast_signed());
            writeln!(
                out,
                "FREE object = {object} offset = {offset} length = {length}"
            )
        }
        Record::Redact(free) => {
            let (object, offset, length) = (free.object, free.offset, free.length);
            writeln!(
                out,
                "REDACT object = {object} offset = {offset} length = {length}"
            )
        }
        Record::WriteByReference(write) => writeln!(
            out,
            "WRITE_BYREF object = {} checksum type = {} props = {:x} offset = {} length = {} \
             toguid = {:x} refguid = {:x} refobject = {} refoffset = {}",
            write.object,
            write.checksum,
            write.key.properties,
            write.offset,
            write.length,
            write.to_guid.0,
            write.reference_guid.0,
            write.reference_object,
            write.reference_offset,
        ),
        Record::Spill(spill) => {
            write!(
                out,
                "SPILL block for object = {} length = {} flags = {} compression type = {} \
                 compressed_size = {} payload_size = {}",
                spill.object,
                spill.length,
                spill.flags,
                spill.compression,
                spill.compressed_size,
                spill.payload_length(),
            )?;
            print_crypt(&spill.crypt, out)
        }
        Record::WriteEmbedded(write) => writeln!(
            out,
            "WRITE_EMBEDDED object = {} offset = {} length = {} toguid = {:x} comp = {} etype = {} \
             lsize = {} psize = {}",
            write.object,
            write.offset,
            write.length,
            write.to_guid.0,
            write.compression,
            write.embedded_type,
            write.logical_size,
            write.physical_size,
        ),
        Record::ObjectRange(range) => {
            write!(
                out,
                "OBJECT_RANGE firstobj = {} numslots = {} flags = {}",
                range.first, range.slots, range.flags,
            )?;
            print_crypt(&range.crypt, out)
        }
        _ => Ok(()),
    }
}

fn print_crypt(crypt: &Crypt, out: &mut impl Write) -> io::Result<()> {
    let (salt, iv, mac) = (Hex(&crypt.salt), Hex(&crypt.iv), Hex(&crypt.mac));
    writeln!(out, " salt = {salt} iv = {iv} mac = {mac}")
}

/// Rows of digits and, beside them, of what can be read.
pub(super) fn print_payload(payload: &[u8], out: &mut impl Write) -> io::Result<()> {
    for row in payload.chunks(ROW) {
        let mut line = String::with_capacity(80);
        for index in 0..ROW {
            match row.get(index) {
                Some(byte) => line.push_str(&format!(" {byte:02x}")),
                None => line.push_str("   "),
            }
            if index % GROUP == GROUP - 1 {
                line.push(' ');
            }
        }
        line.push(' ');
        for group in row.chunks(GROUP) {
            line.push(' ');
            line.extend(group.iter().map(|byte| match byte {
                b' '..=b'~' => char::from(*byte),
                _ => '.',
            }));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
