//! Files with holes.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::ops::Range;

/// The data ranges of a file; the whole range if the file system cannot report holes.
pub fn data_of(file: &File, range: Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            // Only a hole follows.
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
