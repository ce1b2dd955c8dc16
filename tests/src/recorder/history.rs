//! The threads' operations on files, and when each was acknowledged as durable.

use super::record::Record;
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 3;
const SIZES: [u64; 3] = [500, 9000, 300_000];
/// A thread removes files when it has more than this.
const FILES: usize = 12;

/// Something that was done: the events before which it began and ended.
#[derive(Clone, Copy, Debug)]
struct Span {
    begun: u64,
    /// `None` if the end of the record came first.
    ended: Option<u64>,
}

impl Span {
    /// Whether it was acknowledged at this event.
    fn is_done(&self, at: u64) -> bool {
        self.ended.is_some_and(|ended| ended <= at)
    }

    /// Whether it may have happened by then.
    fn has_begun(&self, at: u64) -> bool {
        self.begun <= at
    }
}

/// A file's life.
#[derive(Debug)]
struct Life {
    made: Span,
    removed: Option<Span>,
}

/// What one thread did.
#[derive(Default)]
struct Diary {
    /// Files by the number that is their name and seeds their contents.
    files: BTreeMap<u64, Life>,
    /// When each version of the state was put in its place, from version 1 on.
    versions: Vec<Span>,
    /// When each block was appended to the journal, which is synced after each.
    blocks: Vec<Span>,
}

/// What all threads did.
pub(super) struct History(Vec<Diary>);

fn contents(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let limit = *random.choose(&SIZES);
    let mut bytes = vec![0; random.below(limit) as usize];
    random.fill(&mut bytes);
    bytes
}

/// A block of the journal, with its number in each word.
fn block(number: usize) -> Vec<u8> {
    let length = 64 + number * 97 % 9000;
    let words = std::iter::repeat_n((number as u64).to_le_bytes(), length / 8);
    words.flatten().collect()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// One thread at work.
struct Writer<'a> {
    place: PathBuf,
    record: &'a Record,
    diary: Diary,
    journal: File,
}

impl Writer<'_> {
    fn make(&mut self, number: u64) -> io::Result<()> {
        let draft = self.place.join("draft");
        let mut file = File::create(&draft)?;
        file.write_all(&contents(number))?;
        file.sync_all()?;
        let begun = self.record.now();
        fs::rename(&draft, self.place.join(number.to_string()))?;
        sync(&self.place)?;
        let ended = Some(self.record.now());
        let life = Life {
            made: Span { begun, ended },
            removed: None,
        };
        self.diary.files.insert(number, life);
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        let mut lives = self.diary.files.iter_mut();
        let Some((number, life)) = lives.find(|(_, life)| life.removed.is_none()) else {
            return Ok(());
        };
        let begun = self.record.now();
        fs::remove_file(self.place.join(number.to_string()))?;
        sync(&self.place)?;
        let ended = Some(self.record.now());
        life.removed = Some(Span { begun, ended });
        Ok(())
    }

    fn replace(&mut self) -> io::Result<()> {
        let version = self.diary.versions.len() + 1;
        let draft = self.place.join("state.new");
        let mut file = File::create(&draft)?;
        file.write_all(format!("{version:>6000}").as_bytes())?;
        file.sync_all()?;
        let begun = self.record.now();
        fs::rename(&draft, self.place.join("state"))?;
        sync(&self.place)?;
        let ended = Some(self.record.now());
        self.diary.versions.push(Span { begun, ended });
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        let begun = self.record.now();
        self.journal.write_all(&block(self.diary.blocks.len()))?;
        self.journal.sync_data()?;
        let ended = Some(self.record.now());
        self.diary.blocks.push(Span { begun, ended });
        Ok(())
    }

    fn step(&mut self, random: &mut Random) -> io::Result<()> {
        let files = self.diary.files.values();
        let count = files.filter(|life| life.removed.is_none()).count();
        match random.index(5) {
            0 => self.replace(),
            1 if count > FILES => self.remove(),
            1 | 2 => self.append(),
            _ => self.make(random.next_u64()),
        }
    }
}

impl History {
    /// Runs threads that write below `root` for a time.
    pub fn write(
        root: &Path,
        record: &Record,
        random: &mut Random,
        time: Duration,
    ) -> Result<Self> {
        let mut writers = Vec::new();
        for thread in 0..THREADS {
            let place = root.join(format!("t{thread}"));
            fs::create_dir(&place)?;
            let journal = File::create(place.join("journal"))?;
            journal.sync_all()?;
            sync(&place)?;
            writers.push(Writer {
                place,
                record,
                diary: Diary::default(),
                journal,
            });
        }
        sync(root)?;
        record.begin();
        let began = Instant::now();
        let done = AtomicU64::new(0);
        let diaries: Result<Vec<Diary>> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for mut writer in writers {
                let mut random = Random::new(random.next_u64());
                let done = &done;
                threads.push(scope.spawn(move || -> Result<Diary> {
                    while began.elapsed() < time {
                        writer.step(&mut random)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(writer.diary)
                }));
            }
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.expect("no panic")).collect()
        });
        ensure!(done.load(Ordering::Relaxed) > 0, "nothing was written");
        Ok(Self(diaries?))
    }

    /// How many calls were acknowledged by this event.
    pub fn acknowledged(&self, at: u64) -> usize {
        let spans = |diary: &Diary| {
            let lives = diary.files.values();
            let made = lives.clone().filter(|life| life.made.is_done(at)).count();
            let removed = lives.filter_map(|life| life.removed);
            let removed = removed.filter(|span| span.is_done(at)).count();
            let others = diary.versions.iter().chain(&diary.blocks);
            made + removed + others.filter(|span| span.is_done(at)).count()
        };
        self.0.iter().map(spans).sum()
    }

    /// Compares the files below `root` with what may be there after a cut at this event.
    pub fn compare(&self, root: &Path, at: u64) -> Result<()> {
        for (thread, diary) in self.0.iter().enumerate() {
            let place = root.join(format!("t{thread}"));
            let compared = diary.compare(&place, at);
            compared.with_context(|| format!("thread {thread}"))?;
        }
        Ok(())
    }
}

impl Diary {
    fn compare(&self, place: &Path, at: u64) -> Result<()> {
        for (number, life) in &self.files {
            let path = place.join(number.to_string());
            let is_there = path.exists();
            let was_removed = life.removed.is_some_and(|span| span.has_begun(at));
            let is_gone = life.removed.is_some_and(|span| span.is_done(at));
            ensure!(
                is_there || !life.made.is_done(at) || was_removed,
                "{number} is lost: {life:?}"
            );
            ensure!(
                !is_there || life.made.has_begun(at) && !is_gone,
                "{number} is there: {life:?}"
            );
            if is_there {
                let found = fs::read(&path).with_context(|| number.to_string())?;
                ensure!(
                    found == contents(*number),
                    "{number} has other contents: {} bytes",
                    found.len()
                );
            }
        }
        self.compare_state(place, at)?;
        self.compare_journal(place, at)
    }

    fn compare_state(&self, place: &Path, at: u64) -> Result<()> {
        let count = |is_so: fn(&Span, u64) -> bool| {
            self.versions.iter().filter(|span| is_so(span, at)).count()
        };
        let (sure, last) = (count(Span::is_done), count(Span::has_begun));
        let version = match fs::read_to_string(place.join("state")) {
            Ok(text) => text.trim().parse().context("the state is torn")?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        ensure!(
            (sure..=last).contains(&version),
            "the state is of version {version}; {sure} was acknowledged, {last} written"
        );
        Ok(())
    }

    fn compare_journal(&self, place: &Path, at: u64) -> Result<()> {
        let journal = fs::read(place.join("journal")).context("the journal")?;
        let sure = self.blocks.iter().filter(|span| span.is_done(at)).count();
        let mut from = 0;
        for number in 0..sure {
            let wanted = block(number);
            let found = journal.get(from..from + wanted.len());
            ensure!(
                found == Some(&wanted),
                "block {number} of {sure} acknowledged ones is not in the journal, at {from} of {}",
                journal.len()
            );
            from += wanted.len();
        }
        Ok(())
    }
}
