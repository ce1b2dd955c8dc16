//! Copies the non-zero data between an image and a volume.

use crate::reading::stop::Stop;
use cenote_words::progress::Progress;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes per copy operation.
const PIECE: u64 = 1 << 20;
/// The granularity of the search for zeros.
const HOLE: usize = 64 << 10;
/// Pieces copied in parallel.
const THREADS: usize = 8;

/// The error of a copy that a signal stopped.
pub const INTERRUPTED: &str = "interrupted by a signal";

/// Fills a buffer from an offset.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), String> + Sync + 'a;
/// Writes bytes at an offset.
pub type WriteAt<'a> = dyn Fn(u64, &[u8]) -> Result<(), String> + Sync + 'a;

/// Copies non-zero data, several pieces in parallel; the target must be all zeros.
pub struct Copy<'a> {
    pub read: &'a ReadAt<'a>,
    pub write: &'a WriteAt<'a>,
    /// Set by a signal, which ends the copy.
    pub stop: &'a Stop,
}

impl Copy<'_> {
    /// Returns the number of bytes that were copied.
    ///
    /// The first failure, or that a signal arrived.
    pub fn run(
        &self,
        ranges: Vec<Range<u64>>,
        size: u64,
        progress: &Progress,
    ) -> Result<u64, String> {
        let pieces = ranges.into_iter().flat_map(|range| {
            let starts = (range.start..range.end).step_by(PIECE as usize);
            starts.map(move |at| at..(at + PIECE).min(range.end))
        });
        let (pieces, copied) = (Mutex::new(pieces), AtomicU64::new(0));
        let (failure, is_over) = (Mutex::new(None), AtomicBool::new(false));
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut buffer = Vec::new();
            while let Some(piece) = next().filter(|_| !is_over.load(Ordering::Relaxed)) {
                progress.set(piece.start, Some(size), "copying");
                match self.piece(&piece, &mut buffer) {
                    Ok(bytes) => drop(copied.fetch_add(bytes, Ordering::Relaxed)),
                    Err(reason) => {
                        is_over.store(true, Ordering::Relaxed);
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        *failure = Some(reason);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(work);
            }
            work();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(copied.load(Ordering::Relaxed)), Err)
    }

    fn piece(&self, piece: &Range<u64>, buffer: &mut Vec<u8>) -> Result<u64, String> {
        if self.stop.is_set() {
            return Err(INTERRUPTED.to_owned());
        }
        buffer.resize((piece.end - piece.start) as usize, 0);
        (self.read)(piece.start, buffer)?;
        let mut copied = 0;
        let mut at = piece.start;
        for part in buffer.chunks(HOLE) {
            let is_zero = part.iter().all(|byte| *byte == 0);
            if !is_zero {
                (self.write)(at, part)?;
                copied += part.len() as u64;
            }
            at += part.len() as u64;
        }
        Ok(copied)
    }
}
