//! Huge pages for mapped memory: at once where they are quickly had, and later where not.
//!
//! Fresh mappings are filled with pages outside of any lock. Huge pages are the slowest memory to
//! get in a virtual machine whose host reclaims what its guest left free: the host has to find each
//! of their 512 pages again. So the time is measured, and after a slow huge page the next mappings
//! use small ones, which the guest has at hand.
//!
//! A cache that stays is read faster through huge pages: a random read of 4 KiB takes a twentieth
//! less time. Once no more memory is requested, a thread asks the kernel to collapse small pages,
//! chunk by chunk, with pauses that leave the processors to others. (The kernel's own thread for
//! that collapses only a few in ten seconds.)

#![allow(
    unsafe_code,
    reason = "advice about memory is given to the kernel by its address"
)]

use cenote_base::rt::process::mpsc::{Receiver, SyncSender, sync_channel};
use cenote_base::rt::process::{self, Instant};
use rustix::mm::Advice;
use std::ffi::c_void;
use std::io::Error;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of a huge page.
pub(crate) const HUGE: usize = 2 << 20;
/// A huge page that takes longer, 2 GB/s, is not worth waiting for.
const TIME_MAX: Duration = Duration::from_millis(1);
/// Chunks that do with small pages before the next huge one is tried: half a gigabyte.
const SMALL_CHUNKS: u32 = 256;
/// Memory that is so old is put together.
pub(crate) const AGE: Duration = Duration::from_secs(1);
/// While more chunks than this arrive in that time, no chunks are collapsed.
const CALM: u32 = 16;
/// The thread rests so much longer than it works.
const REST: u32 = 3;

/// Chunks that are still to do with small pages.
static SMALL_LEFT: AtomicU32 = AtomicU32::new(0);
/// Chunks that were filled, modulo 2^32.
static FILLED: AtomicU32 = AtomicU32::new(0);
/// Wakes the thread.
static COLLAPSER: OnceLock<Option<SyncSender<()>>> = OnceLock::new();

/// Fills a fresh mapping with pages; returns whether they are small ones.
pub(crate) fn populate(base: NonNull<u8>, length: usize) -> bool {
    let order = Ordering::Relaxed;
    let less = |left: u32| left.checked_sub(1);
    let is_huge = SMALL_LEFT.fetch_update(order, order, less).is_err();
    // SAFETY: the caller mapped the range and has not shared it yet; advice changes no contents.
    // A kernel without this advice refuses it; page faults then bring the pages.
    let advise = |advice| unsafe { rustix::mm::madvise(base.as_ptr().cast(), length, advice) };
    if is_huge {
        let _ = advise(Advice::LinuxHugepage);
    }
    let start = Instant::now();
    let _ = advise(Advice::LinuxPopulateWrite);
    let chunks = u32::try_from(length / HUGE).unwrap_or(u32::MAX);
    FILLED.fetch_add(chunks, order);
    if !is_huge {
        let _ = advise(Advice::LinuxHugepage);
    } else if start.elapsed() > TIME_MAX.saturating_mul(chunks) {
        SMALL_LEFT.store(SMALL_CHUNKS, order);
    }
    !is_huge
}

/// Has the thread look at chunks of small pages when they are old enough. `find` gives the
/// addresses of those that are, and says whether others will be.
pub(crate) fn collapse_later(find: fn() -> (Vec<usize>, bool)) {
    let waker = COLLAPSER.get_or_init(|| {
        let (sender, receiver) = sync_channel(1);
        // Without a thread the pages stay small.
        let started = process::spawn("page_collapse", move || run(&receiver, find));
        started.ok().map(|_| sender)
    });
    if let Some(waker) = waker {
        // The thread is awake if the channel is full, and has ended if it is closed.
        let _ = waker.try_send(());
    }
}

fn run(woken: &Receiver<()>, find: fn() -> (Vec<usize>, bool)) {
    let mut has_succeeded = false;
    while woken.recv().is_ok() {
        let mut has_more = true;
        while has_more {
            let filled = FILLED.load(Ordering::Relaxed);
            process::sleep(AGE);
            if FILLED.load(Ordering::Relaxed).wrapping_sub(filled) > CALM {
                continue;
            }
            let chunks;
            (chunks, has_more) = find();
            for chunk in chunks {
                let start = Instant::now();
                match collapse(chunk) {
                    Ok(()) => has_succeeded = true,
                    // The kernel does not support it, or is configured without huge pages.
                    Err(error) if !has_succeeded && is_refusal(&error) => return,
                    // Pages that a device is reading or writing stay as they are.
                    Err(_) => {}
                }
                process::sleep(start.elapsed() * REST);
            }
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Puts the pages of a chunk together, if it can be done now.
fn collapse(chunk: usize) -> Result<(), Error> {
    /// Since Linux 6.1.
    const MADV_COLLAPSE: i32 = 25;
    let start = std::ptr::without_provenance_mut::<c_void>(chunk);
    // SAFETY: advice changes no contents, even if the range has another owner or none by now.
    let result = unsafe { libc::madvise(start, HUGE, MADV_COLLAPSE) };
    match result {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_keeps_its_contents() {
        let mut memory = vec![0_u8; 2 * HUGE];
        let skip = memory.as_ptr().align_offset(HUGE);
        let chunk = &mut memory[skip..skip + HUGE];
        for (index, byte) in chunk.iter_mut().enumerate() {
            *byte = (index * 7 / 5) as u8;
        }
        // Whether it can be done is the kernel's affair.
        let _ = collapse(chunk.as_ptr().addr());
        let is_right = |(index, byte): (usize, &u8)| *byte == (index * 7 / 5) as u8;
        assert!(chunk.iter().enumerate().all(is_right));
        assert!(collapse(HUGE).is_err(), "that memory is not mapped");
    }
}
