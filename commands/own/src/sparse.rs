//! Files with holes.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::ops::Range;

/// What is no hole of a file; all of what has none.
pub fn data_of(file: &File, range: Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            // Nothing but a hole comes.
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => at,
        };
        if start >= range.end {
            break;
        }
        let end = rustix::fs::seek(file, SeekFrom::Hole(start));
        let end = end.ok().filter(|end| *end > start).unwrap_or(range.end);
        found.push(start..end.min(range.end));
        at = end;
    }
    found
}
