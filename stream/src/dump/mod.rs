//! A stream as text, as OpenZFS's `zstream dump` prints it.
//!
//! Scripts read this text, so it is the same to the last blank for every stream that is right. Of
//! one that is cut or damaged the same is printed up to there, with the summary of what was read;
//! then comes the error, which OpenZFS's program keeps to itself.

mod options;
mod record;
mod token;

pub use cenote_ondisk::nvlist::print_list;
pub use options::Options;
pub use token::print_token;

use crate::error::StreamError;
use crate::reader::{Checks, Reader};
use cenote_ondisk::stream::{Begin, RECORD_SIZE, Record, kind};
use std::io::{self, Read, Write};

/// Records, and bytes of their payloads, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    records: [u64; kind::COUNT],
    payload: [u64; kind::COUNT],
}

/// Prints the stream from `source` to `out`.
///
/// # Errors
/// What [`Reader`] says of the stream, after the summary is printed; or that `out` takes no more.
pub fn dump(source: impl Read, options: Options, out: &mut impl Write) -> Result<(), StreamError> {
    let checks = Checks {
        checksums: !options.ignores_checksums,
        contents: false,
    };
    let mut reader = Reader::with_checks(source, checks);
    let mut totals = Totals::default();
    let result = print_records(&mut reader, options, &mut totals, out);
    if matches!(result, Err(StreamError::Write { .. })) {
        return result;
    }
    let mut printed = Ok(());
    if let Err(StreamError::Checksum { computed, .. }) = &result {
        printed = record::print_expected(computed, out);
    }
    let printed = printed.and_then(|()| print_totals(&totals, reader.offset(), out));
    let printed = printed.and_then(|()| out.flush());
    printed.map_err(cannot_write)?;
    result
}

fn print_records(
    reader: &mut Reader<impl Read>,
    options: Options,
    totals: &mut Totals,
    out: &mut impl Write,
) -> Result<(), StreamError> {
    while let Some(header) = reader.next_header()? {
        let header = header.clone();
        let kind = header.record.kind() as usize;
        totals.records[kind] += 1;
        totals.payload[kind] += header.payload_length as u64;
        match &header.record {
            Record::Begin(begin) => record::print_begin(begin, options, out),
            Record::End(end) => record::print_end(end, out),
            record if options.records => record::print(record, out),
            _ => Ok(()),
        }
        .map_err(cannot_write)?;
        let payload = reader.read_payload()?;
        match &header.record {
            Record::Begin(_) if payload.is_empty() => continue,
            Record::Begin(_) => {
                let place = header.place;
                let list = Begin::list(payload);
                let list = list.map_err(|source| StreamError::Record { place, source })?;
                print_list(&list, out)
            }
            _ if options.payloads => {
                let printed = record::print_payload(payload, out);
                printed.and_then(|()| record::print_checksum(&header.checksum, out))
            }
            _ => Ok(()),
        }
        .map_err(cannot_write)?;
    }
    Ok(())
}

fn print_totals(totals: &Totals, length: u64, out: &mut impl Write) -> io::Result<()> {
    const NAMED: [(u32, &str); 9] = [
        (kind::BEGIN, "BEGIN"),
        (kind::END, "END"),
        (kind::OBJECT, "OBJECT"),
        (kind::FREE_OBJECTS, "FREEOBJECTS"),
        (kind::WRITE, "WRITE"),
        (kind::WRITE_BY_REFERENCE, "WRITE_BYREF"),
        (kind::WRITE_EMBEDDED, "WRITE_EMBEDDED"),
        (kind::FREE, "FREE"),
        (kind::SPILL, "SPILL"),
    ];
    writeln!(out, "SUMMARY:")?;
    for (kind, name) in NAMED {
        let (records, bytes) = (totals.records[kind as usize], totals.payload[kind as usize]);
        writeln!(
            out,
            "\tTotal DRR_{name} records = {records} ({bytes} bytes)"
        )?;
    }
    let records: u64 = totals.records.iter().sum();
    let payload: u64 = totals.payload.iter().sum();
    let headers = records * RECORD_SIZE as u64;
    writeln!(out, "\tTotal records = {records}")?;
    writeln!(out, "\tTotal payload size = {payload} ({payload:#x})")?;
    writeln!(out, "\tTotal header overhead = {headers} ({headers:#x})")?;
    writeln!(out, "\tTotal stream length = {length} ({length:#x})")
}

fn cannot_write(source: io::Error) -> StreamError {
    StreamError::Write { offset: 0, source }
}

#[cfg(test)]
mod tests;
