//! A journal of writes that a disk has answered but not flushed, in files that outlive the daemon.
//!
//! *The problem.* The kernel's disk outlives its daemon, and file systems on it stay mounted. To
//! them the disk never lost power. But when the daemon dies, the volume loses its unflushed writes.
//! The next flush would report them as durable, and the file system would be damaged.
//!
//! *The solution.* Each write is also appended to files below `/run`. They are in memory, and last
//! as long as the machine runs, like the disk. After a successful flush they are no longer needed.
//! A daemon that takes the disk over first replays them to the volume.
//!
//! ```text
//! /run/cenote/disks/IDENTITY/7.unflushed    a segment: records, one after the other
//! | kind (8) | offset (8) | length (8) | the bytes, of a write |
//! ```
//!
//! *Order.* A record is appended after its change was made and before the change is answered. So
//! if a change follows the answer to another change of the same bytes, their records have that
//! order. A flush covers all records that were there when it began. It ends the segment. When it
//! succeeds, it removes that segment and the earlier ones. A change with only part of a record was
//! not answered.
//!
//! *Bounds.* Beyond [`SIZE_MAX`] of one disk, or [`ALL_MAX`] of all, a write makes everything
//! durable before it is answered. So does a write whose record cannot be appended.

use crate::kept::{Place, Segment as File};
use cenote_base::rt::{Mutex, ranks};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes of one disk.
const SIZE_MAX: u64 = 64 << 20;
/// The most bytes of all disks together. Beyond that each disk may still have [`SIZE_MIN`].
const ALL_MAX: u64 = 256 << 20;
const SIZE_MIN: u64 = 1 << 20;
/// The most bytes of one record: far more than the kernel writes at once.
const RECORD_MAX: u64 = 64 << 20;
const HEADER: usize = 24;

/// A change of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A write.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Contents that no longer matter.
    Trim {
        /// Where they begin.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Zeros.
    Zero {
        /// Where they begin.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Change<'_> {
    fn header(&self) -> [u8; HEADER] {
        let (kind, offset, length) = match self {
            Self::Write { offset, bytes } => (1, *offset, bytes.len() as u64),
            Self::Trim { offset, length } => (2, *offset, *length),
            Self::Zero { offset, length } => (3, *offset, *length),
        };
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&u64::to_le_bytes(kind));
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[16..].copy_from_slice(&length.to_le_bytes());
        header
    }
}

struct Segment {
    number: u64,
    size: u64,
}

#[derive(Default)]
struct State {
    /// The segment that is appended to, and its file.
    open: Option<(Segment, Box<dyn File>)>,
    /// The segments before it.
    ended: VecDeque<Segment>,
    next: u64,
}

impl State {
    /// Asserts that segments are in the order in which they were made: a replay in another order
    /// would put older bytes over newer ones.
    fn assert_ordered(&self) {
        let open = self.open.iter().map(|(segment, _)| segment.number);
        let numbers = self.ended.iter().map(|segment| segment.number);
        let is_sorted = numbers.chain(open).is_sorted_by(|one, two| one < two);
        let last = self.open.as_ref().map(|(segment, _)| segment.number);
        let last = last.or(self.ended.back().map(|segment| segment.number));
        assert!(
            is_sorted && last.is_none_or(|last| last < self.next),
            "segments of unflushed writes are out of order"
        );
    }

    fn size(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |(segment, _)| segment.size);
        self.ended.iter().map(|segment| segment.size).sum::<u64>() + open
    }
}

/// The changes of one disk that are not durable.
pub struct Unflushed {
    place: Box<dyn Place>,
    state: Mutex<State, ranks::UnflushedWrites>,
    /// Bytes of all disks.
    all: Arc<AtomicU64>,
}

fn wrong(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

/// Reads this many bytes, or fewer at the end of the file.
fn read_up_to(file: &mut dyn Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Calls `each` with the changes in a segment.
fn each_change<E: From<io::Error>>(
    (mut file, name): (Box<dyn Read>, String),
    each: &mut impl FnMut(Change<'_>) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let header = read_up_to(&mut *file, HEADER as u64)?;
        // A change with only part of a record was not answered.
        let Ok(header) = <[u8; HEADER]>::try_from(header.as_slice()) else {
            return Ok(());
        };
        let number = |at: usize| {
            let bytes = header[at..at + 8].first_chunk::<8>();
            u64::from_le_bytes(*bytes.expect("eight bytes were taken"))
        };
        let (offset, length) = (number(8), number(16));
        match number(0) {
            1 if length <= RECORD_MAX => {
                let bytes = read_up_to(&mut *file, length)?;
                if bytes.len() as u64 != length {
                    return Ok(());
                }
                let bytes = bytes.as_slice();
                each(Change::Write { offset, bytes })?;
            }
            2 => each(Change::Trim { offset, length })?,
            3 => each(Change::Zero { offset, length })?,
            _ => {
                let text = format!("{name}: this is no record of a write");
                return Err(wrong(text).into());
            }
        }
    }
}

impl Unflushed {
    /// Begins the journal of a disk. With `is_fresh` it removes the segments that are there, else
    /// it keeps them for [`Self::replay`].
    ///
    /// # Errors
    /// The system's.
    pub fn begin(
        place: impl Place + 'static,
        is_fresh: bool,
        all: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let mut state = State::default();
        for (number, size) in place.segments()? {
            if is_fresh {
                place.remove(number)?;
                continue;
            }
            all.fetch_add(size, Ordering::Relaxed);
            state.ended.push_back(Segment { number, size });
            let next = number.checked_add(1);
            let wrong = || wrong(format!("{}: its number is too large", place.name(number)));
            state.next = next.ok_or_else(wrong)?;
        }
        state.assert_ordered();
        Ok(Self {
            place: Box::new(place),
            state: Mutex::new(state),
            all,
        })
    }

    /// Calls `each` with the changes that an earlier process kept, oldest first.
    ///
    /// # Errors
    /// Those of `each`, or a segment cannot be read.
    pub fn replay<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut count = 0;
        let numbers: Vec<u64> = {
            let state = self.state.lock();
            state.ended.iter().map(|segment| segment.number).collect()
        };
        for number in numbers {
            let segment = (self.place.read(number)?, self.place.name(number));
            each_change(segment, &mut |change| {
                count += 1;
                each(change)
            })?;
        }
        Ok(count)
    }

    /// Appends a record of a change that was made.
    ///
    /// # Errors
    /// The record cannot be appended, or the journal is full. The caller must make everything
    /// durable before it answers the change.
    pub fn note(&self, change: Change<'_>) -> io::Result<()> {
        let header = change.header();
        let bytes = match change {
            Change::Write { bytes, .. } => bytes,
            Change::Trim { .. } | Change::Zero { .. } => &[],
        };
        let length = (HEADER + bytes.len()) as u64;
        let mut state = self.state.lock();
        let mine = state.size() + length;
        let all = self.all.load(Ordering::Relaxed) + length;
        if length > RECORD_MAX || mine > SIZE_MAX || all > ALL_MAX && mine > SIZE_MIN {
            return Err(ErrorKind::StorageFull.into());
        }
        // A deleted segment does not outlive this process: the caller makes everything durable.
        let open = state.open.as_ref().map(|(_, file)| file.is_there());
        if open.transpose()? == Some(false) {
            let (ended, _) = state.open.take().expect("it is open");
            state.ended.push_back(ended);
            return Err(ErrorKind::NotFound.into());
        }
        if state.open.is_none() {
            let number = state.next;
            let file = self.place.create(number)?;
            state.next += 1;
            state.open = Some((Segment { number, size: 0 }, file));
            state.assert_ordered();
        }
        let (segment, file) = state.open.as_mut().expect("it was opened");
        let mut slices = [IoSlice::new(&header), IoSlice::new(bytes)];
        let mut slices = &mut slices[..];
        let mut done = 0;
        while done < length {
            match file.append(slices) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(count) if count > 0 => {
                    done += count as u64;
                    IoSlice::advance_slices(&mut slices, count);
                }
                failed => {
                    // The next record must begin where this one began.
                    if file.cut(segment.size).is_err() {
                        let (ended, _) = state.open.take().expect("it is open");
                        state.ended.push_back(ended);
                    }
                    return Err(failed.err().unwrap_or(ErrorKind::WriteZero.into()));
                }
            }
        }
        segment.size += length;
        self.all.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// A flush begins. Its caller passes the result to [`Self::discard`] when it has succeeded.
    pub fn seal(&self) -> u64 {
        let mut state = self.state.lock();
        if let Some((segment, _)) = state.open.take() {
            state.ended.push_back(segment);
        }
        state.next
    }

    /// Removes the records of changes that the flush made durable.
    pub fn discard(&self, sealed: u64) {
        let mut state = self.state.lock();
        while let Some(segment) = state.ended.pop_front_if(|first| first.number < sealed) {
            match self.place.remove(segment.number) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log::warn!("{}: {error}", self.place.name(segment.number));
                    // The newer ones stay, too: replayed without them, this one would put back
                    // older bytes than the volume's.
                    state.ended.push_front(segment);
                    break;
                }
                _ => {
                    let all = self.all.fetch_sub(segment.size, Ordering::Relaxed);
                    assert!(all >= segment.size, "bytes of a segment are counted once");
                }
            }
        }
        state.assert_ordered();
    }

    /// Removes the journal: no record is needed, and no more changes come.
    pub fn end(&self) {
        let sealed = self.seal();
        self.discard(sealed);
        self.place.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept;
    use std::fs;
    use std::path::Path;

    fn kept(unflushed: &Unflushed) -> Vec<String> {
        let mut all = Vec::new();
        let counted = unflushed.replay(|change| {
            all.push(match change {
                Change::Write { offset, bytes } => format!("{offset} {bytes:?}"),
                other => format!("{other:?}"),
            });
            Ok::<(), io::Error>(())
        });
        assert_eq!(counted.expect("readable"), all.len() as u64);
        all
    }

    fn begin(directory: &Path, is_fresh: bool) -> Unflushed {
        let place = Kept::open(directory).expect("ours");
        Unflushed::begin(place, is_fresh, Arc::default()).expect("begun")
    }

    fn write(offset: u64, bytes: &[u8]) -> Change<'_> {
        Change::Write { offset, bytes }
    }

    /// Regression: a disk that was taken over had lost answered, unflushed writes, although its
    /// file system stayed mounted.
    #[test]
    fn what_was_not_flushed_outlives_the_process_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("disks/1");
        let unflushed = begin(&place, true);
        unflushed.note(write(0, &[1, 2])).expect("kept");
        let first = unflushed.seal();
        unflushed.note(write(512, &[3])).expect("kept");
        unflushed.discard(first);
        let trim = Change::Trim {
            offset: 4096,
            length: 8192,
        };
        unflushed.note(trim).expect("kept");
        // A failed flush keeps the records.
        unflushed.seal();
        unflushed.note(write(0, &[4])).expect("kept");
        drop(unflushed);
        let expected = ["512 [3]", "Trim { offset: 4096, length: 8192 }", "0 [4]"];
        let next = begin(&place, false);
        assert_eq!(kept(&next), expected);
        // The same if the process dies again before a flush.
        drop(next);
        let next = begin(&place, false);
        next.note(write(1, &[5])).expect("kept");
        drop(next);
        let next = begin(&place, false);
        assert_eq!(kept(&next).len(), 4);
        let sealed = next.seal();
        next.discard(sealed);
        assert_eq!(next.all.load(Ordering::Relaxed), 0);
        next.end();
        assert!(!place.exists());
    }

    /// Regression: a segment that could not be removed stayed alone, and a takeover replayed its
    /// bytes over newer ones.
    #[test]
    fn what_follows_a_segment_that_stays_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let unflushed = begin(directory.path(), true);
        for bytes in [[1], [2]] {
            unflushed.note(write(0, &bytes)).expect("kept");
            unflushed.seal();
        }
        // A directory in its place cannot be removed as a file.
        let [file, saved] = ["0.unflushed", "saved"].map(|name| directory.path().join(name));
        fs::rename(&file, &saved).expect("renamed");
        fs::create_dir(&file).expect("made");
        unflushed.discard(2);
        fs::remove_dir(&file).expect("empty");
        fs::rename(&saved, &file).expect("renamed");
        assert_eq!(kept(&begin(directory.path(), false)), ["0 [1]", "0 [2]"]);
        unflushed.discard(2);
        assert!(kept(&begin(directory.path(), false)).is_empty());
    }

    #[test]
    fn what_is_in_a_deleted_file_is_not_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let unflushed = begin(directory.path(), true);
        unflushed.note(write(7, &[1; 100])).expect("kept");
        fs::remove_file(directory.path().join("0.unflushed")).expect("removed");
        assert!(
            unflushed.note(write(8, &[2])).is_err(),
            "it must be made durable"
        );
        let sealed = unflushed.seal();
        unflushed.discard(sealed);
        unflushed.note(write(9, &[3])).expect("kept");
        drop(unflushed);
        assert_eq!(kept(&begin(directory.path(), false)), ["9 [3]"]);
    }

    #[test]
    fn half_a_record_had_no_answer_and_nonsense_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let unflushed = begin(directory.path(), true);
        unflushed.note(write(7, &[1; 100])).expect("kept");
        unflushed.note(write(8, &[2; 100])).expect("kept");
        drop(unflushed);
        let path = directory.path().join("0.unflushed");
        let whole = fs::read(&path).expect("readable");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            let count = usize::from(length >= HEADER + 100);
            assert_eq!(kept(&begin(directory.path(), false)).len(), count);
        }
        fs::write(&path, [9; 64]).expect("written");
        let replayed = begin(directory.path(), false).replay(|_| Ok::<(), io::Error>(()));
        assert!(replayed.is_err());
        let fresh = begin(directory.path(), true);
        assert!(kept(&fresh).is_empty(), "it was another disk's");
    }

    #[test]
    fn only_so_much_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let unflushed = begin(directory.path(), true);
        let bytes = vec![1; 1 << 20];
        let full = (0..100).find(|at| unflushed.note(write(*at, &bytes)).is_err());
        assert_eq!(full, Some(63), "63 MiB with their headers");
        let sealed = unflushed.seal();
        unflushed.discard(sealed);
        unflushed
            .note(write(0, &bytes))
            .expect("there is room again");
        // All disks together.
        unflushed.all.store(ALL_MAX, Ordering::Relaxed);
        assert!(unflushed.note(write(0, &bytes)).is_err());
        let sealed = unflushed.seal();
        unflushed.discard(sealed);
        unflushed.note(write(0, &bytes[..1000])).expect("a little");
    }

    #[test]
    fn a_directory_that_others_may_change_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let mode = fs::Permissions::from_mode(0o777);
        fs::set_permissions(directory.path(), mode).expect("set");
        let opened = Kept::open(directory.path());
        let error = opened.err().expect("refused").to_string();
        assert!(error.contains("only this user"), "{error}");
    }
}
