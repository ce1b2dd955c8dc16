//! States of a directory, and which of them a power cut may leave.

use crate::record::Bounds;
use anyhow::{Context, Result, ensure};
use cenote_base::ObjectId;
use cenote_posix::{FileKind, FileSystem, Znode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The attribute that writers set.
pub const XATTR: &[u8] = b"user.sim";

/// Directories that are looked into, one below the other.
const DEPTH_MAX: usize = 8;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
}

/// A file, a directory or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    /// Contents, or a symbolic link's target.
    pub bytes: Vec<u8>,
    /// The permissions; 0 for symbolic links.
    pub mode: u16,
    pub xattr: Option<Vec<u8>>,
}

impl Node {
    /// Whether this may be left after a cut, if the node had these states one after the other. The
    /// log reads the contents of a long write at `fsync`, so it has later changes, too. Of changes
    /// that were not promised there may be only the beginning.
    fn may_be_left_of(&self, nodes: &[&Self]) -> bool {
        let sizes = || nodes.iter().map(|node| node.bytes.len());
        let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else {
            return false;
        };
        let is_of_one = |(at, byte): (usize, &u8)| {
            let mut there = nodes.iter().map(|node| node.bytes.get(at).unwrap_or(&0));
            there.any(|other| other == byte)
        };
        let is_same = nodes.iter().any(|node| node.bytes == self.bytes);
        nodes.iter().all(|node| node.kind == self.kind)
            && (is_same
                || (least..=most).contains(&self.bytes.len())
                    && self.bytes.iter().enumerate().all(is_of_one))
            && nodes.iter().any(|node| node.xattr == self.xattr)
            && nodes.iter().any(|node| node.mode == self.mode)
    }
}

/// A directory with all below it: which node each path is of, and the nodes by the number that they
/// got here.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub names: BTreeMap<String, u64>,
    pub nodes: BTreeMap<u64, Arc<Node>>,
    pub next: u64,
}

impl State {
    /// Whether both states look the same to a program: paths, the kinds of their nodes, and which
    /// paths are links to one file.
    pub fn is_same(&self, other: &Self) -> bool {
        let node = |state: &Self, path: &str| state.node(path).map(|(_, node)| Arc::clone(node));
        self.links() == other.links()
            && self
                .names
                .keys()
                .all(|path| node(self, path) == node(other, path))
    }

    /// The node that a path is of.
    pub fn node(&self, path: &str) -> Option<(u64, &Arc<Node>)> {
        let number = self.names.get(path)?;
        Some((*number, self.nodes.get(number)?))
    }

    /// Gives a new node this path.
    pub fn add(&mut self, path: &str, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.names.insert(path.to_owned(), number);
        self.nodes.insert(number, Arc::new(node));
        number
    }

    /// Forgets nodes that have no path any more.
    pub fn sweep(&mut self) {
        let names = &self.names;
        self.nodes
            .retain(|number, _| names.values().any(|named| named == number));
    }

    /// Which path is of the same node as which other.
    fn links(&self) -> BTreeMap<&str, &str> {
        let mut first: BTreeMap<u64, &str> = BTreeMap::new();
        let names = self.names.iter();
        names
            .map(|(path, node)| (path.as_str(), *first.entry(*node).or_insert(path)))
            .collect()
    }

    /// The paths with what is said of their nodes, for people.
    pub fn summary(&self) -> String {
        let line = |(path, number): (&String, &u64)| {
            let node = self.nodes.get(number);
            let size = node.map_or(0, |node| node.bytes.len());
            let mode = node.map_or(0, |node| node.mode);
            let xattr = node.and_then(|node| node.xattr.as_ref());
            let xattr = xattr.map_or(String::new(), |value| format!(" +{}", value.len()));
            format!("{path}=#{number}({size} {mode:o}{xattr})")
        };
        let lines: Vec<String> = self.names.iter().map(line).collect();
        lines.join(" ")
    }
}

/// Whether `found` may be left of a directory that had these states after 0, 1, 2, … operations.
pub fn may_be_left(states: &[State], bounds: &Bounds, found: &State) -> bool {
    let most = bounds.most.min(states.len() - 1);
    let is_left = |number: u64, left: &Node| {
        // What it had when it was made came with its name.
        let all = states[bounds.of_file(number).min(most)..=most].iter();
        let nodes: Vec<&Node> = all
            .filter_map(|state| state.nodes.get(&number).map(Arc::as_ref))
            .collect();
        left.may_be_left_of(&nodes)
    };
    states[bounds.names.min(most)..=most].iter().any(|state| {
        let mut all = state.names.iter();
        state.links() == found.links()
            && all.all(|(path, number)| {
                let left = found.node(path);
                left.is_some_and(|(_, left)| is_left(*number, left))
            })
    })
}

/// What is in a directory of the root.
///
/// # Errors
/// If something cannot be read.
pub fn found(fs: &FileSystem, directory: &str) -> Result<State> {
    let mut state = State::default();
    let root = fs.znode(fs.root())?;
    let Some(target) = fs.lookup(&root, directory.as_bytes())? else {
        return Ok(state);
    };
    let mut todo = vec![(String::new(), target.object, 0)];
    while let Some((prefix, directory, depth)) = todo.pop() {
        ensure!(depth < DEPTH_MAX, "directories are in a circle at {prefix}");
        let directory = fs.znode(directory)?;
        for entry in fs.read_directory(&directory, 0)?.skip(2) {
            let entry = entry?;
            let object = entry.target.object;
            let path = format!("{prefix}{}", String::from_utf8(entry.name)?);
            state.names.insert(path.clone(), object.get());
            let node = read_node(fs, object).with_context(|| format!("at {path}"))?;
            if node.kind == Kind::Directory {
                todo.push((format!("{path}/"), object, depth + 1));
            }
            state.nodes.insert(object.get(), Arc::new(node));
        }
    }
    Ok(state)
}

fn read_node(fs: &FileSystem, object: ObjectId) -> Result<Node> {
    let znode = fs.znode(object)?;
    let (kind, bytes) = match znode.kind() {
        FileKind::Directory => (Kind::Directory, Vec::new()),
        FileKind::Symlink => (Kind::Symlink, fs.read_link(&znode)?),
        _ => (Kind::File, contents(fs, &znode)?),
    };
    let mode = match kind {
        Kind::Symlink => 0,
        Kind::File | Kind::Directory => znode.attributes().permissions(),
    };
    let xattr = fs.xattr(&znode, XATTR)?;
    Ok(Node {
        kind,
        bytes,
        mode,
        xattr,
    })
}

/// All bytes of a file.
///
/// # Errors
/// If they cannot be read.
pub fn contents(fs: &FileSystem, file: &Znode) -> Result<Vec<u8>> {
    let mut bytes = vec![0xEE; usize::try_from(file.attributes().size)?];
    let count = fs.read(file, 0, &mut bytes)?;
    ensure!(count == bytes.len(), "a read was short");
    Ok(bytes)
}
