//! The header `Range`: which bytes of a file a client wants (RFC 9110, 14).
//!
//! What is not a set of byte ranges is ignored, as the RFC asks, and the client gets all of the
//! file; so does a client that wants more ranges than the limit, which could have one file sent
//! many times over. Ranges that overlap or touch are joined, so that an answer is never longer than
//! the file by more than the heads of its parts.

use std::ops::Range;

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of the file.
    Whole,
    /// These bytes, in the order of the request; at least one range, none empty.
    Ranges(Vec<Range<u64>>),
    /// Nothing of what it wants is in the file.
    Unsatisfiable,
}

/// Reads the header's value for a file of `size` bytes.
pub(crate) fn wanted(value: &str, size: u64, ranges_max: usize) -> Wanted {
    let Some((unit, set)) = value.split_once('=') else {
        return Wanted::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    let mut ranges = Vec::new();
    let mut count = 0;
    for text in set.split(',').map(|text| text.trim_matches([' ', '\t'])) {
        // Empty members of a list mean nothing (RFC 9110, 5.6.1.2).
        if text.is_empty() {
            continue;
        }
        count += 1;
        let Some(range) = one(text, size) else {
            return Wanted::Whole;
        };
        if count > ranges_max {
            return Wanted::Whole;
        }
        ranges.extend(range);
    }
    match (count, ranges.is_empty()) {
        (0, _) => Wanted::Whole,
        (_, true) => Wanted::Unsatisfiable,
        _ => Wanted::Ranges(joined(ranges)),
    }
}

/// One range; `None` if it is none, and `Some(None)` if none of it is in the file.
fn one(text: &str, size: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        let length = number(last)?;
        let begin = size.saturating_sub(length);
        return Some((begin < size).then_some(begin..size));
    }
    let begin = number(first)?;
    let end = match last {
        "" => size,
        last => {
            let last = number(last)?;
            if last < begin {
                return None;
            }
            last.saturating_add(1).min(size)
        }
    };
    Some((begin < end).then_some(begin..end))
}

/// A number of digits only; one that is larger than any file is as good as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The same bytes, none of them twice. If nothing is to be joined the order stays.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted = ranges.clone();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    match joined.len() == ranges.len() {
        true => ranges,
        false => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(value: &str, size: u64) -> Vec<Range<u64>> {
        match wanted(value, size, 8) {
            Wanted::Ranges(ranges) => ranges,
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (value, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-", 0..100),
            ("bytes=99-", 99..100),
            ("bytes=-1", 99..100),
            ("bytes=-1000", 0..100),
            ("bytes=5-99999999999999999999999999", 5..100),
            ("BYTES = 1-2", 1..3),
            ("bytes=,1-2 ,", 1..3),
            ("bytes=1-2,200-300", 1..3),
        ] {
            assert_eq!(ranges(value, 100), [expected], "{value}");
        }
    }

    #[test]
    fn what_is_no_set_of_ranges_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "lines=1-2",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=1",
            "bytes=--1",
            "bytes=1-2-3",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes=-",
            "bytes=1-2,x",
        ] {
            assert_eq!(wanted(value, 100, 8), Wanted::Whole, "{value}");
        }
    }

    #[test]
    fn nothing_within_the_file_cannot_be_satisfied() {
        for value in ["bytes=100-", "bytes=100-200,300-", "bytes=-0"] {
            assert_eq!(wanted(value, 100, 8), Wanted::Unsatisfiable, "{value}");
        }
        assert_eq!(wanted("bytes=0-", 0, 8), Wanted::Unsatisfiable);
        assert_eq!(wanted("bytes=-5", 0, 8), Wanted::Unsatisfiable);
    }

    #[test]
    fn ranges_that_overlap_are_joined_and_others_keep_their_order() {
        let whole = 0..100;
        assert_eq!(ranges("bytes=50-59,0-9", 100), [50..60, 0..10]);
        assert_eq!(ranges("bytes=0-,0-,0-", 100), vec![whole.clone()]);
        assert_eq!(ranges("bytes=50-59,0-9,5-20,10-", 100), vec![whole]);
        let touching = 0..20;
        assert_eq!(ranges("bytes=0-9,10-19", 100), vec![touching]);
    }

    #[test]
    fn too_many_ranges_are_ignored() {
        let many = |count: usize| {
            let each = (0..count).map(|n| format!("{}-{}", 2 * n, 2 * n));
            format!("bytes={}", each.collect::<Vec<_>>().join(","))
        };
        assert_eq!(ranges(&many(8), 100).len(), 8);
        assert_eq!(wanted(&many(9), 100, 8), Wanted::Whole);
    }
}
