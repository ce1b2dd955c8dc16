//! Blocks of the cache, lent to the server.

use bytes::Bytes;
use cenote_posix::Segment;

/// What holes are made of.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A piece of a block, lent to the server.
struct Lent(Segment);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

/// What was read, as it goes to the socket: the blocks as they lie in the cache.
pub(super) fn pieces(segments: Vec<Segment>) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(segments.len());
    for segment in segments {
        if segment.block.is_some() {
            pieces.push(Bytes::from_owner(Lent(segment)));
            continue;
        }
        let mut left = segment.length;
        while left > 0 {
            let length = left.min(ZEROS.len());
            pieces.push(Bytes::from_static(&ZEROS[..length]));
            left -= length;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zeros_of_their_length() {
        let hole = Segment {
            block: None,
            start: 0,
            length: 150_000,
        };
        let pieces = pieces(vec![hole]);
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 150_000);
        assert!(
            pieces
                .iter()
                .all(|piece| piece.iter().all(|byte| *byte == 0))
        );
    }
}
