//! Answers of several ranges (`multipart/byteranges`, RFC 9110, 14.6).
//!
//! The boundary between the parts is random, so that the author of a file cannot put the boundary
//! of the next answer into it.

use crate::body::Segment;
use cenote_base::rt::fill_random;
use http::HeaderValue;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parts, and what the whole is called.
pub(crate) struct Parts {
    pub content_type: HeaderValue,
    pub segments: Vec<Segment>,
}

/// Parts for ranges of a file of `size` bytes and the type `kind`.
pub(crate) fn parts(ranges: &[Range<u64>], size: u64, kind: &str) -> Parts {
    let boundary = boundary();
    let mut segments = Vec::with_capacity(2 * ranges.len() + 1);
    for range in ranges {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {}-{}/{size}\r\n\r\n",
            range.start,
            range.end - 1
        );
        segments.push(Segment::Text(head.into()));
        segments.push(Segment::Range {
            begin: range.start,
            end: range.end,
        });
    }
    segments.push(Segment::Text(format!("\r\n--{boundary}--\r\n").into()));
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    Parts {
        content_type: HeaderValue::try_from(content_type)
            .unwrap_or_else(|_| HeaderValue::from_static("multipart/byteranges")),
        segments,
    }
}

fn boundary() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 16];
    if fill_random(&mut random).is_err() {
        // Without random bits there is still a boundary that no other answer has.
        random[..8].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    }
    format!("{:032x}", u128::from_le_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_heads_and_an_end() {
        let parts = parts(&[0..5, 90..100], 100, "text/plain");
        let kind = parts.content_type.to_str().expect("text").to_owned();
        let boundary = kind.split_once("boundary=").expect("a boundary").1;
        assert_eq!(parts.segments.len(), 5);
        let Segment::Text(head) = &parts.segments[2] else {
            panic!("a head");
        };
        let expected = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 90-99/100\r\n\r\n"
        );
        assert_eq!(head, expected.as_bytes());
        let end = Segment::Text(format!("\r\n--{boundary}--\r\n").into());
        assert_eq!(parts.segments.last(), Some(&end));
    }
}
