//! Datasets and snapshots in the simulation: one thread changes them while others write.
//!
//! What there is after an operation is looked up once it is done: this judges what a cut leaves,
//! and not what the operations do, which other tests do. Each operation is on disk when it
//! returns, and is done as a whole or not at all. What a cut receive left is not looked at.

use crate::disks::Disks;
use crate::machine::{self, POOL, named};
use crate::record::{Bounds, Event};
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::Guid;
use cenote_base::rt::{self, Random};
use cenote_dsl::Dataset;
use cenote_dsl::write::{
    BeginReceive, CloneDataset, CreateSnapshots, DestroyDataset, DestroySnapshots, Encryption,
    EndReceive, KeyOwner, Postponed, PromoteDataset, ReceiveInto, RenameDataset, RollbackDataset,
};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::stream::{Begin, Record as StreamRecord};
use cenote_pool::Pool;
use cenote_posix::write::{NewFile, WriteOptions, WriteSettings};
use cenote_posix::{FileKind, FileSystem};
use cenote_stream::receive::{self, Target};
use cenote_stream::send::{self, Base, Options, Snapshot};
use cenote_stream::{Checks, Reader};
use std::collections::BTreeMap;

/// The file that each dataset has.
const FILE: &[u8] = b"file";
/// The datasets under test are children of this one.
const TOP: &str = "h";
/// More datasets and snapshots are not made.
const COUNT_MAX: usize = 14;

/// What there is: names of datasets and snapshots, and what the file in each holds.
type Forest = BTreeMap<String, Vec<u8>>;

/// A thread that changes datasets, and remembers the state after each operation.
#[derive(Debug)]
pub struct Gardener {
    /// Its number in the record.
    number: usize,
    random: Random,
    settings: WriteSettings,
    states: Vec<Forest>,
    operations: Vec<String>,
    names: u64,
}

fn top() -> String {
    format!("{POOL}/{TOP}")
}

/// How many bytes the file gets, at most.
const LENGTH_MAX: u64 = 60_000;

impl Gardener {
    /// Makes a first dataset.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(
        pool: &Pool,
        number: usize,
        settings: WriteSettings,
        random: Random,
    ) -> Result<Self> {
        let mut gardener = Self {
            number,
            random,
            settings,
            states: Vec::new(),
            operations: Vec::new(),
            names: 0,
        };
        gardener.create(pool, &top())?;
        let first = format!("{}/first", top());
        gardener.create(pool, &first)?;
        gardener.write(pool, &first)?;
        gardener.states.push(look(pool)?);
        Ok(gardener)
    }

    /// Says in the record that all operations so far last.
    pub fn promise(&self, disks: &Disks) {
        let (writer, operations) = (self.number, self.states.len() - 1);
        disks.note(Event::Promised { writer, operations });
    }

    /// Does a random operation, or tries to.
    ///
    /// # Errors
    /// If it fails half way, or the pool takes no changes.
    pub fn operate(&mut self, disks: &Disks, pool: &Pool) -> Result<()> {
        let (writer, operation) = (self.number, self.states.len() - 1);
        disks.note(Event::Begun { writer, operation });
        let (words, done) = self.try_one(pool);
        rt::trace!("{words}: {done:?}");
        let state = look(pool).with_context(|| format!("after {words}"))?;
        if let Err(error) = done {
            if let Some(cause) = pool.suspended() {
                // Its group may be on disk all the same, if some labels took the uberblock.
                self.states.push(state);
                self.operations.push(words.clone());
                bail!("{words}: the pool takes no changes: {cause}");
            }
            let is_whole = Some(&state) == self.states.last();
            ensure!(is_whole, "{words} failed half way: {error:#}");
        }
        self.states.push(state);
        self.operations.push(words);
        self.promise(disks);
        Ok(())
    }

    /// Compares what a cut left with what it may have left.
    ///
    /// # Errors
    /// How it differs, or that it cannot be read.
    pub fn compare(&self, pool: &Pool, bounds: &Bounds) -> Result<()> {
        let found = look(pool)?;
        let most = bounds.most.min(self.states.len() - 1);
        let least = bounds.least.min(most);
        let is_one = self.states[least..=most].contains(&found);
        if !is_one {
            bail!(Wrong(format!(
                "datasets are as after none of the operations {least} to {most}: {}\n\
                 found: {}\n\
                 then:  {}",
                self.operations[least..most].join("; "),
                told(&found),
                told(&self.states[least])
            )));
        }
        Ok(())
    }

    fn try_one(&mut self, pool: &Pool) -> (String, Result<()>) {
        let heads = self.names(false);
        let snapshots = self.names(true);
        let is_full = heads.len() + snapshots.len() >= COUNT_MAX;
        let Some(head) = pick(&mut self.random, &heads) else {
            let name = self.new_name("n");
            return (format!("create {name}"), self.create(pool, &name));
        };
        let drawn = self.random.below(20);
        let Some(snapshot) = pick(&mut self.random, &snapshots).filter(|_| drawn >= 3) else {
            let name = format!("{head}@s{}", self.next());
            return (format!("snapshot {name}"), self.snapshot(pool, &name));
        };
        match drawn {
            3..7 => (format!("write {head}"), self.write(pool, &head)),
            7..9 if !is_full => {
                let name = self.new_name("c");
                let task = self.clone_of(&snapshot, &name);
                (format!("clone {snapshot} {name}"), run(pool, task))
            }
            9..11 => {
                let task = named(&head).map(|name| PromoteDataset { name });
                (format!("promote {head}"), run(pool, task))
            }
            11..13 => {
                let task = named(&snapshot).map(|snapshot| RollbackDataset { snapshot });
                (format!("rollback {snapshot}"), run(pool, task))
            }
            13 => {
                let to = self.new_name("m");
                let names = named(&head).and_then(|from| Ok((from, named(&to)?)));
                let task = names.map(|(from, to)| RenameDataset { from, to });
                (format!("rename {head} {to}"), run(pool, task))
            }
            14..16 if !is_full => {
                let name = self.new_name("r");
                let words = format!("receive {snapshot} as {name}");
                (words, self.receive(pool, &snapshot, &name, None))
            }
            16 => self.receive_more(pool, &snapshots),
            17 => {
                let task = named(&head).map(|name| DestroyDataset { name });
                (format!("destroy {head}"), run(pool, task))
            }
            _ => {
                let task = named(&snapshot).map(|name| DestroySnapshots {
                    names: vec![name],
                    defer: self.random.happens(20),
                });
                (format!("destroy {snapshot}"), run(pool, task))
            }
        }
    }

    fn names(&self, are_snapshots: bool) -> Vec<String> {
        let state = self.states.last().into_iter().flatten();
        let names = state.map(|(name, _)| name.clone());
        names
            .filter(|name| name.contains('@') == are_snapshots && *name != top())
            .collect()
    }

    fn next(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn new_name(&mut self, kind: &str) -> String {
        format!("{}/{kind}{}", top(), self.next())
    }

    fn create(&mut self, pool: &Pool, name: &str) -> Result<()> {
        run(pool, machine::new_file_system(name))
    }

    fn snapshot(&mut self, pool: &Pool, name: &str) -> Result<()> {
        let task = CreateSnapshots {
            names: vec![named(name)?],
            properties: Vec::new(),
        };
        run(pool, Ok(task))
    }

    fn clone_of(&self, origin: &str, name: &str) -> Result<CloneDataset> {
        Ok(CloneDataset {
            origin: named(origin)?,
            name: named(name)?,
            properties: Vec::new(),
            created: None,
        })
    }

    /// Opens a head, changes its file, and closes it.
    fn write(&mut self, pool: &Pool, name: &str) -> Result<()> {
        let fs = machine::files(pool, name, self.settings)?;
        let root = fs.znode(fs.root())?;
        let object = match fs.lookup(&root, FILE)? {
            Some(target) => target.object,
            None => {
                let new = NewFile::new(FileKind::Regular, 0o644);
                fs.create(fs.root(), FILE, &new)?.id()
            }
        };
        let mut bytes = vec![0; usize::try_from(1 + self.random.below(LENGTH_MAX))?];
        self.random.fill(&mut bytes);
        fs.write(object, 0, &bytes, WriteOptions::default())?;
        fs.dataset()?.end()?;
        Ok(())
    }

    /// Sends what is between two snapshots of a dataset and receives it where the first one was.
    fn receive_more(&mut self, pool: &Pool, snapshots: &[String]) -> (String, Result<()>) {
        let received = |name: &&String| name.starts_with(&format!("{}/r", top()));
        let there: Vec<String> = snapshots.iter().filter(received).cloned().collect();
        let Some(base) = pick(&mut self.random, &there) else {
            return ("receive more of nothing".to_owned(), Ok(()));
        };
        let name = base.split('@').next().unwrap_or_default().to_owned();
        // What was sent is a snapshot with the same guid.
        let source = snapshots.iter().find(|other| {
            let guid = |name: &str| Some(machine::dataset(pool, name).ok()?.phys().guid);
            **other != base && guid(other) == guid(&base)
        });
        let newer = source.and_then(|source| {
            let (of, _) = source.split_once('@')?;
            let txg = |name: &str| Some(machine::dataset(pool, name).ok()?.phys().creation_txg);
            let mut all = snapshots.iter();
            all.find(|other| other.split('@').next() == Some(of) && txg(other) > txg(source))
        });
        let (Some(source), Some(newer)) = (source.cloned(), newer.cloned()) else {
            return (
                format!("receive more upon {base}: there is nothing"),
                Ok(()),
            );
        };
        let words = format!("receive {source} to {newer} upon {base}");
        let base = Some((source.as_str(), base.as_str()));
        (words, self.receive(pool, &newer, &name, base))
    }

    /// Sends a snapshot and receives it; `base` names what it builds upon, at the sender and at the
    /// receiver.
    fn receive(
        &mut self,
        pool: &Pool,
        snapshot: &str,
        name: &str,
        base: Option<(&str, &str)>,
    ) -> Result<()> {
        let source = machine::dataset(pool, snapshot)?;
        let sent = Snapshot::of(&source)?;
        let from = match base {
            Some((theirs, _)) => Some(Base::snapshot(&machine::dataset(pool, theirs)?, &source)?),
            None => None,
        };
        let mut stream = Vec::new();
        send::send(&sent, from.as_ref(), Options::default(), None, &mut stream)?;
        let into = match base {
            Some((_, ours)) => ReceiveInto::Existing(Some(machine::dataset(pool, ours)?.id())),
            None => ReceiveInto::New,
        };
        receive_stream(pool, &stream, name, format!("s{}", self.next()), into)
    }
}

fn receive_stream(
    pool: &Pool,
    stream: &[u8],
    name: &str,
    snapshot: String,
    into: ReceiveInto,
) -> Result<()> {
    let mut reader = Reader::with_checks(stream, Checks::default());
    let item = reader.next_item()?.context("a stream begins")?;
    let StreamRecord::Begin(begin) = item.header.record.clone() else {
        bail!("a stream begins with BEGIN");
    };
    let task = BeginReceive {
        name: named(name)?,
        snapshot: snapshot.clone(),
        into,
        kind: ObjsetKind::Zfs,
        ignores_case: false,
        properties: Vec::new(),
        postponed: Postponed::default(),
        refused: Vec::new(),
        encryption: Encryption::Inherit,
        keys: None,
        redaction: None,
        resume: None,
        created: None,
    };
    let received = pool.run_task(task)?.created.context("the task made it")?;
    let begin: &Begin = &begin;
    let open = machine::open_received(pool, received)?;
    let target = Target {
        dataset: &open,
        resumed: cenote_dsl::write::ResumePoint::default(),
        is_resumable: false,
        replaces: false,
        is_cancelled: &|| false,
    };
    let done = receive::receive(&mut reader, begin, &target);
    open.end()?;
    done?;
    let end = EndReceive {
        name: named(name)?,
        snapshot,
        received,
        force: true,
        guid: begin.to_guid,
        creation_time: begin.creation_time,
        ivset_guid: None::<Guid>,
        keys: None,
        key_owner: KeyOwner::Unknown,
        refused: Vec::new(),
    };
    pool.run_task(end)?;
    Ok(())
}

fn pick(random: &mut Random, names: &[String]) -> Option<String> {
    match names.is_empty() {
        true => None,
        false => Some(names[random.index(names.len())].clone()),
    }
}

fn run<T: cenote_dsl::write::SyncTask + 'static>(pool: &Pool, task: Result<T>) -> Result<()> {
    pool.run_task(task?)?;
    Ok(())
}

fn told(forest: &Forest) -> String {
    let entry = |(name, bytes): (&String, &Vec<u8>)| {
        let start = bytes.iter().take(4).map(|byte| format!("{byte:02x}"));
        format!("{name}={}:{}", bytes.len(), start.collect::<String>())
    };
    forest.iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// The datasets below the gardener's, but for what was received in part.
fn look(pool: &Pool) -> Result<Forest> {
    let mut forest = Forest::new();
    let mut stack = vec![top()];
    while let Some(name) = stack.pop() {
        let head = machine::dataset(pool, &name)?;
        if head.is_inconsistent() {
            continue;
        }
        for child in head.directory().children()? {
            let child = String::from_utf8(child.component)?;
            if !child.starts_with('%') {
                stack.push(format!("{name}/{child}"));
            }
        }
        for snapshot in head.snapshots()? {
            let name = format!("{name}@{}", String::from_utf8(snapshot.name)?);
            let snapshot = machine::dataset(pool, &name)?;
            forest.insert(name, contents(&snapshot)?);
        }
        forest.insert(name, contents(&head)?);
    }
    Ok(forest)
}

/// What the file of a dataset holds; nothing if there is none.
fn contents(dataset: &Dataset) -> Result<Vec<u8>> {
    let fs = FileSystem::open(dataset.object_set()?)?;
    let root = fs.znode(fs.root())?;
    let Some(target) = fs.lookup(&root, FILE)? else {
        return Ok(Vec::new());
    };
    let file = fs.znode(target.object)?;
    crate::files::contents(&fs, &file).with_context(|| format!("{}", dataset.name()))
}
