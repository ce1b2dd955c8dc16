//! ZLE: zero-length encoding, for blocks that are mostly nothing.
//!
//! A length byte `L` below 64 announces `L + 1` literal bytes, any other `L - 63` zeros
//! (format/2a 4.4).

use super::kind::{Compression, DecompressError};
use super::output::Output;

const LITERALS_MAX: usize = 64;
const ZEROS_MAX: usize = 192;

pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    let truncated = DecompressError::Truncated(Compression::Zle, stored.len());
    let overlong = DecompressError::Overlong(Compression::Zle, out.len());
    let (mut from, mut at) = (0, 0);
    while at < out.len() {
        let length = usize::from(*stored.get(from).ok_or(truncated)?) + 1;
        from += 1;
        if length <= LITERALS_MAX {
            let literals = stored.get(from..from + length).ok_or(truncated)?;
            out.get_mut(at..at + length)
                .ok_or(overlong)?
                .copy_from_slice(literals);
            from += length;
            at += length;
        } else {
            let zeros = length - LITERALS_MAX;
            out.get_mut(at..at + zeros).ok_or(overlong)?.fill(0);
            at += zeros;
        }
    }
    Ok(())
}

pub(super) fn compress(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut out = Output::new(out);
    let mut rest = data;
    while !rest.is_empty() {
        let zeros = rest
            .iter()
            .take(ZEROS_MAX)
            .take_while(|byte| **byte == 0)
            .count();
        // A lone zero inside literals costs one byte as a literal, but two as a run and a restart.
        if zeros > 1 || zeros == rest.len() {
            out.push((zeros + LITERALS_MAX - 1) as u8)?;
            rest = &rest[zeros..];
            continue;
        }
        let window = &rest[..rest.len().min(LITERALS_MAX)];
        let count = window
            .windows(2)
            .position(|pair| pair == [0, 0])
            .unwrap_or(window.len());
        out.push((count - 1) as u8)?;
        out.extend(&rest[..count])?;
        rest = &rest[count..];
    }
    Some(out.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_by_hand() {
        let mut out = [9; 8];
        assert_eq!(
            decompress(&[1, b'a', b'b', 64 + 3, 1, b'c', b'd'], &mut out),
            Ok(())
        );
        assert_eq!(&out, b"ab\0\0\0\0cd");
        let result = decompress(&[255], &mut out);
        assert_eq!(result, Err(DecompressError::Overlong(Compression::Zle, 8)));
    }

    #[test]
    fn long_runs_and_lone_zeros() {
        let mut data = vec![0; 1000];
        data.extend_from_slice(b"a\0b\0\0c");
        data.push(0);
        let mut stored = vec![0; 64];
        let length = compress(&data, &mut stored).expect("six runs and a few literals");
        assert!(length <= 6 + 4 + 1 + 2 + 1);
        let mut out = vec![7; data.len()];
        assert_eq!(decompress(&stored[..length], &mut out), Ok(()));
        assert_eq!(out, data);
    }
}
