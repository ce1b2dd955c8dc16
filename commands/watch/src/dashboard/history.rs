//! The activity of pools: a day in memory in steps of 10 seconds, a year on disk in steps of 5
//! minutes.
//!
//! On disk each pool has a ring of fixed-size records, `history/GUID.ring` in the daemon's state
//! directory. The time of a record determines its position. So the file never exceeds a year, needs
//! no index, and records never move. Each record is written with one call and has a checksum. A
//! torn record, or one of an earlier year, counts as absent. So a killed daemon loses only the
//! steps that it had not written.
//!
//! ```text
//!         0            16       24      28      32                40
//! head    magic        guid     step    slots   zeros
//!         0            8                                36      40
//! record  time         seven numbers of 4 bytes         check
//! ```
//!
//! All of it is little-endian. `check` is the beginning of the SHA-256 of the guid and the record.
//! An unknown number is a NaN. If there are more than [`FILES_MAX`] files, those of the pools that
//! were absent longest are removed.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Seconds between two points in memory.
pub const STEP: u64 = 10;
/// Points of a pool in memory: a day.
const DAY_POINTS: usize = 8640;
/// Seconds of a record on disk.
const THIN_STEP: u64 = 300;
/// Records of a pool on disk: 366 days.
const SLOTS: u64 = 366 * 86_400 / THIN_STEP;
/// Maximum number of pools in memory.
const POOLS_MAX: usize = 32;
/// Maximum number of files: 64 of 4.2 MB.
const FILES_MAX: usize = 64;
/// Bytes of the head, and of each record.
const RECORD: usize = 40;
const MAGIC: &[u8; 16] = b"cenote history 1";

/// The recorded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Blocks read in a second.
    Reads,
    /// Blocks written in a second.
    Writes,
    /// Bytes read in a second.
    ReadBytes,
    /// Bytes written in a second.
    WrittenBytes,
    /// Bytes allocated.
    Allocated,
    /// Bytes of the pool.
    Size,
    /// Hits among the lookups of readers, in per cent.
    Hits,
}

/// Numbers in the order of [`Series`].
pub type Values = [f32; 7];

/// The values at one time.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Seconds since 1970.
    pub time: u64,
    /// The values.
    pub values: Values,
}

/// What one pool did.
struct PoolHistory {
    guid: u64,
    day: VecDeque<Point>,
}

/// What all pools did.
pub struct History {
    directory: Option<PathBuf>,
    pools: Mutex<BTreeMap<String, PoolHistory>>,
}

impl History {
    /// A history that stores its year in this directory; without one it has only a day.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory,
            pools: Mutex::default(),
        }
    }

    /// Adds a point: names, guids and values of pools. Other pools are removed from memory; their
    /// files stay.
    pub fn add(&self, time: u64, fresh: &[(String, u64, Values)]) {
        let mut written = Vec::new();
        {
            let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.retain(|name, _| fresh.iter().any(|(known, ..)| known == name));
            for (name, guid, values) in fresh.iter().take(POOLS_MAX) {
                let pool = pools.entry(name.clone()).or_insert_with(|| PoolHistory {
                    guid: *guid,
                    day: VecDeque::new(),
                });
                if pool.guid != *guid {
                    pool.guid = *guid;
                    pool.day.clear();
                }
                written.extend(pool.add(Point {
                    time,
                    values: *values,
                }));
            }
        }
        // Not under the lock: readers must not wait for a slow disk.
        for (guid, point) in written {
            self.write(guid, &point);
        }
    }

    /// Writes the incomplete steps, so that the next daemon can continue them.
    pub fn finish(&self) {
        let unfinished: Vec<(u64, Point)> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            let each = pools.values().filter_map(|pool| {
                let last = pool.day.back()?;
                Some((pool.guid, pool.thin(last.time / THIN_STEP)?))
            });
            each.collect()
        };
        for (guid, point) in unfinished {
            self.write(guid, &point);
        }
    }

    fn write(&self, guid: u64, point: &Point) {
        let Some(directory) = &self.directory else {
            return;
        };
        if let Err(error) = write(directory, guid, point) {
            let directory = directory.display();
            log::warn!("the history of a pool is not written to {directory}: {error}");
        }
    }

    /// The activity of a pool between two times, in this many steps; a step without data is `None`.
    pub fn steps(&self, pool: &str, from: u64, until: u64, steps: usize) -> Vec<Option<Values>> {
        let mut thin = Vec::new();
        let (guid, recent) = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pool) = pools.get(pool) else {
                return vec![None; steps];
            };
            let is_wanted = |point: &&Point| (from..=until).contains(&point.time);
            let recent: Vec<Point> = pool.day.iter().filter(is_wanted).copied().collect();
            (pool.guid, recent)
        };
        let begin = recent.first().map_or(until, |point| point.time);
        if from + THIN_STEP < begin
            && let Some(directory) = &self.directory
        {
            // An unreadable file counts as empty: the graph has a gap.
            thin = read(directory, guid, from, begin.saturating_sub(1)).unwrap_or_default();
        }
        let width = (until - from).max(1);
        let step_of = |time: u64| (time - from) as u128 * steps as u128 / u128::from(width);
        let mut groups: Vec<Vec<Values>> = vec![Vec::new(); steps];
        let mut put = |first: u64, last: u64, values: Values| {
            let place = |time: u64| (step_of(time) as usize).min(steps.saturating_sub(1));
            for group in groups.iter_mut().take(place(last) + 1).skip(place(first)) {
                group.push(values);
            }
        };
        for point in thin {
            // The point is the mean of its whole step.
            let last = point.time + THIN_STEP - 1;
            put(point.time, last.min(begin.saturating_sub(1)), point.values);
        }
        for point in recent {
            put(point.time, point.time, point.values);
        }
        let means = groups.iter().map(|group| mean(group));
        means.collect()
    }
}

impl PoolHistory {
    /// Adds a point. Returns the step for the disk if it is complete.
    fn add(&mut self, point: Point) -> Option<(u64, Point)> {
        // If the clock was set back, new points replace the old ones of the same time.
        while self.day.back().is_some_and(|last| last.time >= point.time) {
            self.day.pop_back();
        }
        let due = self.day.back().and_then(|last| {
            let step = last.time / THIN_STEP;
            (point.time / THIN_STEP > step).then_some(step)
        });
        let due = due.and_then(|step| Some((self.guid, self.thin(step)?)));
        self.day.push_back(point);
        if self.day.len() > DAY_POINTS {
            self.day.pop_front();
        }
        due
    }

    /// The mean of the last step, for the disk.
    fn thin(&self, step: u64) -> Option<Point> {
        let own = self.day.iter().rev();
        let own = own.take_while(|point| point.time / THIN_STEP == step);
        let values: Vec<Values> = own.map(|point| point.values).collect();
        let time = step * THIN_STEP;
        let values = mean(&values)?;
        Some(Point { time, values })
    }
}

/// The mean of the known values of each number; `None` if there are no points.
fn mean(all: &[Values]) -> Option<Values> {
    if all.is_empty() {
        return None;
    }
    let of = |place: usize| {
        let known = all.iter().map(|values| values[place]);
        let known = known.filter(|value| value.is_finite());
        let (sum, count) = known.fold((0.0_f64, 0_u32), |(sum, count), value| {
            (sum + f64::from(value), count + 1)
        });
        match count {
            0 => f32::NAN,
            count => (sum / f64::from(count)) as f32,
        }
    };
    Some(std::array::from_fn(of))
}

fn head(guid: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..16].copy_from_slice(MAGIC);
    bytes[16..24].copy_from_slice(&guid.to_le_bytes());
    bytes[24..28].copy_from_slice(&(THIN_STEP as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&(SLOTS as u32).to_le_bytes());
    bytes
}

fn check(guid: u64, body: &[u8]) -> [u8; 4] {
    let digest = Sha256::new()
        .chain_update(guid.to_le_bytes())
        .chain_update(body)
        .finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

fn encode(guid: u64, point: &Point) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&point.time.to_le_bytes());
    for (place, value) in point.values.iter().enumerate() {
        let at = 8 + place * 4;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let check = check(guid, &bytes[..36]);
    bytes[36..].copy_from_slice(&check);
    bytes
}

/// A record, if its checksum is correct.
fn decode(guid: u64, bytes: &[u8; RECORD]) -> Option<Point> {
    if check(guid, &bytes[..36]) != bytes[36..] {
        return None;
    }
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let mut values = [0.0; 7];
    for (value, four) in values.iter_mut().zip(rest.as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*four);
    }
    Some(Point {
        time: u64::from_le_bytes(*time),
        values,
    })
}

fn file_of(directory: &Path, guid: u64) -> PathBuf {
    directory.join(format!("{guid:016x}.ring"))
}

fn place_of(time: u64) -> u64 {
    RECORD as u64 * (1 + time / THIN_STEP % SLOTS)
}

fn write(directory: &Path, guid: u64, point: &Point) -> io::Result<()> {
    let path = file_of(directory, guid);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory)?;
            make_room(directory)?;
            options.create(true).truncate(false).open(&path)?
        }
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() < RECORD as u64 {
        file.write_all_at(&head(guid), 0)?;
    } else {
        check_head(&file, guid, &path)?;
    }
    file.write_all_at(&encode(guid, point), place_of(point.time))
}

fn check_head(file: &File, guid: u64, path: &Path) -> io::Result<()> {
    let mut found = [0; RECORD];
    file.read_exact_at(&mut found, 0)?;
    if found == head(guid) {
        return Ok(());
    }
    let path = path.display();
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{path} is not a history of this version; move it away to start a new one"),
    ))
}

/// Removes the oldest files to make room for one more.
fn make_room(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|word| word == "ring") {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(FILES_MAX);
    for (_, path) in files.iter().take(surplus) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The records between two times.
fn read(directory: &Path, guid: u64, from: u64, until: u64) -> io::Result<Vec<Point>> {
    let path = file_of(directory, guid);
    let file = File::open(&path)?;
    check_head(&file, guid, &path)?;
    let first = from
        .div_ceil(THIN_STEP)
        .max((until / THIN_STEP + 1).saturating_sub(SLOTS));
    let mut points = Vec::new();
    let mut step = first;
    while step <= until / THIN_STEP {
        // To the end of the ring, and then from its beginning.
        let run = (until / THIN_STEP - step + 1).min(SLOTS - step % SLOTS);
        let mut bytes = vec![0; run as usize * RECORD];
        let length = read_at(&file, &mut bytes, place_of(step * THIN_STEP))?;
        let (records, _) = bytes[..length].as_chunks::<RECORD>();
        let whole = records.iter().filter_map(|record| decode(guid, record));
        // Old positions may still have records of the previous year.
        points.extend(whole.filter(|point| (from..=until).contains(&point.time)));
        step += run;
    }
    points.sort_by_key(|point| point.time);
    Ok(points)
}

/// Reads up to the end of the file: it ends with the last record written so far.
fn read_at(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], place + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;

    fn add(history: &History, time: u64, reads: f32) {
        let mut values = [f32::NAN; 7];
        values[Series::Reads as usize] = reads;
        history.add(time, &[("tank".to_owned(), 7, values)]);
    }

    fn reads(steps: &[Option<Values>]) -> Vec<Option<f32>> {
        let steps = steps.iter();
        steps.map(|step| step.map(|values| values[0])).collect()
    }

    #[test]
    fn a_day_is_in_memory_and_no_more() {
        let history = History::new(None);
        for point in 0..DAY_POINTS as u64 + 100 {
            add(&history, START + point * STEP, point as f32);
        }
        let pools = history.pools.lock().expect("not poisoned");
        assert_eq!(pools["tank"].day.len(), DAY_POINTS);
        drop(pools);
        let from = START + 8000 * STEP;
        let steps = history.steps("tank", from, from + 40, 4);
        assert_eq!(reads(&steps)[..2], [Some(8000.0), Some(8001.0)]);
        assert_eq!(history.steps("other", from, from + 40, 2), [None, None]);
    }

    /// If the daemon is killed at any moment, written records survive and the rest is a gap.
    #[test]
    fn a_year_outlives_the_daemon() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state/history");
        let history = History::new(Some(place.clone()));
        for point in 0..100 {
            add(
                &history,
                START + point * STEP,
                if point < 30 { 4.0 } else { 8.0 },
            );
        }
        drop(history);
        let next = History::new(Some(place.clone()));
        let later = START + 3600;
        add(&next, later, 1.0);
        let steps = next.steps("tank", START, later, 12);
        let found = reads(&steps);
        assert_eq!(found[..3], [Some(4.0), Some(8.0), Some(8.0)], "{found:?}");
        assert_eq!(found[4], None);
        assert_eq!(found[11], Some(1.0));
        let size = fs::metadata(file_of(&place, 7)).expect("the file").len();
        assert!(size <= (SLOTS + 1) * RECORD as u64, "{size}");
    }

    /// Previously, the incomplete step was lost, and a step from the disk was a single dot in an
    /// hour's graph.
    #[test]
    fn an_hour_has_no_gap_over_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().to_owned();
        let history = History::new(Some(place.clone()));
        for point in 0..100 {
            add(&history, START + point * STEP, 8.0);
        }
        history.finish();
        drop(history);
        let next = History::new(Some(place));
        add(&next, START + 1010, 1.0);
        let steps = reads(&next.steps("tank", START, START + 1020, 102));
        assert!(
            steps[..101].iter().all(|step| *step == Some(8.0)),
            "{steps:?}"
        );
        assert_eq!(steps[101], Some(1.0));
    }

    #[test]
    fn a_torn_record_and_one_of_last_year_are_gaps() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        let point = |time: u64, value: f32| Point {
            time,
            values: [value; 7],
        };
        let year = SLOTS * THIN_STEP;
        write(place, 7, &point(START, 1.0)).expect("written");
        write(place, 7, &point(START + THIN_STEP, 2.0)).expect("written");
        let found = read(place, 7, START, START + 600).expect("read");
        assert_eq!(found.len(), 2);
        assert!(
            read(place, 7, START + year, START + year + 600)
                .expect("read")
                .is_empty()
        );
        // The same position one year later.
        write(place, 7, &point(START + year, 3.0)).expect("written");
        let found = read(place, 7, START, START + year).expect("read");
        let times: Vec<u64> = found.iter().map(|point| point.time).collect();
        assert_eq!(times, [START + THIN_STEP, START + year]);
        let file = OpenOptions::new()
            .write(true)
            .open(file_of(place, 7))
            .expect("open");
        file.write_all_at(&[9], place_of(START + THIN_STEP) + 3)
            .expect("torn");
        assert_eq!(read(place, 7, START, START + year).expect("read").len(), 1);
    }

    #[test]
    fn a_strange_file_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        let file = file_of(place, 7);
        fs::write(&file, [b'x'; 100]).expect("written");
        let point = Point {
            time: START,
            values: [0.0; 7],
        };
        assert!(write(place, 7, &point).is_err());
        assert_eq!(fs::read(&file).expect("read"), [b'x'; 100]);
        assert!(read(place, 7, 0, START).is_err());
    }

    #[test]
    fn files_are_bounded() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        for guid in 0..FILES_MAX as u64 + 5 {
            let point = Point {
                time: START,
                values: [0.0; 7],
            };
            write(place, guid, &point).expect("written");
        }
        assert_eq!(fs::read_dir(place).expect("listed").count(), FILES_MAX);
    }

    #[test]
    fn a_clock_that_is_set_back_does_no_harm() {
        let history = History::new(None);
        for time in [START, START + 10, START + 20, START + 10, START + 30] {
            add(&history, time, 1.0);
        }
        let pools = history.pools.lock().expect("not poisoned");
        let times: Vec<u64> = pools["tank"].day.iter().map(|point| point.time).collect();
        assert_eq!(times, [START, START + 10, START + 30]);
    }
}
