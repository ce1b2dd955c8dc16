//! A file as JSON: the keys of `cenote manifest`, and the additional ones of `cenote stat`.

use super::content::{self, Content, FileContent, Hash};
use crate::reading::output::{base64, hex, json_bytes, json_key};
use crate::reading::session::OpenFileSystem;
use cenote_posix::{FileKind, PosixError, Stat, Timestamp, Znode};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};

/// Files above this are described by their segments of data instead of a hash of everything.
const HASHED_SIZE_MAX: u64 = 1 << 30;
/// Attribute values up to this are given in full.
const XATTR_SHOWN_MAX: usize = 300;
/// Inode numbers of snapshots' roots, as directories below `.zfs/snapshot`, count down from this.
const SNAPSHOT_INODE: u64 = 0xffff_ffff_fffc;

/// A JSON object under construction.
pub type Entry = Map<String, Value>;

/// The word for a file's type.
pub fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "dir",
        FileKind::Symlink => "symlink",
        FileKind::CharDevice => "char",
        FileKind::BlockDevice => "block",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// Nanoseconds as a number, or as text where JSON's numbers of 64 bits end.
pub fn nanoseconds(time: Timestamp) -> Value {
    let total = time.total_nanoseconds();
    match i64::try_from(total) {
        Ok(total) => Value::Number(Number::from(total)),
        Err(_) => Value::String(total.to_string()),
    }
}

impl OpenFileSystem {
    /// The inode number that a mount shows: a snapshot's root has one of its own.
    pub fn inode(&self, znode: &Znode) -> u64 {
        match self.dataset.is_snapshot() && znode.id() == self.files.root() {
            true => SNAPSHOT_INODE.saturating_sub(self.dataset.objset_id().0),
            false => znode.id().0,
        }
    }

    /// The fields of `lstat` that manifests have.
    fn basics(&self, znode: &Znode, stat: &Stat) -> Entry {
        let mut entry = Entry::new();
        entry.insert("type".into(), kind_word(stat.kind).into());
        entry.insert("mode".into(), format!("{:04o}", stat.mode).into());
        entry.insert("uid".into(), stat.uid.posix_id().into());
        entry.insert("gid".into(), stat.gid.posix_id().into());
        entry.insert("mtime".into(), nanoseconds(stat.modified));
        entry.insert("ino".into(), self.inode(znode).into());
        entry
    }

    fn add_target(&self, znode: &Znode, entry: &mut Entry) -> Result<(), PosixError> {
        match znode.kind() {
            FileKind::Symlink => {
                let target = self.files.read_link(znode)?;
                entry.insert("target".into(), json_bytes(&target));
            }
            FileKind::CharDevice | FileKind::BlockDevice => {
                let device = znode.attributes().device;
                entry.insert("rdev".into(), json!([device.major, device.minor]));
            }
            _ => {}
        }
        Ok(())
    }

    /// A manifest's entry. Unreadable parts are omitted, and their errors returned.
    pub fn manifest_entry(&self, znode: &Znode, with_hashes: bool) -> (Entry, Vec<PosixError>) {
        let stat = self.files.stat(znode);
        let mut entry = self.basics(znode, &stat);
        let mut errors = Vec::new();
        if stat.kind != FileKind::Directory {
            entry.insert("nlink".into(), stat.links.into());
        }
        if stat.kind == FileKind::Regular {
            entry.insert("size".into(), stat.size.into());
            errors.extend(self.add_content(znode, with_hashes, &mut entry).err());
        }
        errors.extend(self.add_target(znode, &mut entry).err());
        errors.extend(self.add_xattrs(znode, with_hashes, &mut entry).err());
        (entry, errors)
    }

    fn add_content(
        &self,
        znode: &Znode,
        with_hashes: bool,
        entry: &mut Entry,
    ) -> Result<(), PosixError> {
        let files = &self.files;
        let content = FileContent { files, znode };
        if content.size() > HASHED_SIZE_MAX {
            entry.insert("data".into(), segments(&content, with_hashes)?);
        } else if with_hashes {
            entry.insert("sha256".into(), content::hash_all(&content)?.into());
        }
        Ok(())
    }

    fn add_xattrs(
        &self,
        znode: &Znode,
        with_hashes: bool,
        entry: &mut Entry,
    ) -> Result<(), PosixError> {
        let mut xattrs = Entry::new();
        for name in self.files.xattr_names(znode)? {
            let value = self.files.require_xattr(znode, &name)?;
            let shown = match (value.len() <= XATTR_SHOWN_MAX, with_hashes) {
                (true, _) => json!({"b64": base64(&value)}),
                (false, false) => json!({"len": value.len()}),
                (false, true) => {
                    json!({"len": value.len(), "sha256": hex(&Sha256::digest(&value))})
                }
            };
            xattrs.insert(json_key(&name), shown);
        }
        if !xattrs.is_empty() {
            entry.insert("xattrs".into(), xattrs.into());
        }
        Ok(())
    }

    /// Everything that `stat` and `ls --json` say.
    pub fn stat_entry(&self, znode: &Znode, path: &[u8]) -> Result<Entry, PosixError> {
        let stat = self.files.stat(znode);
        let mut entry = self.basics(znode, &stat);
        entry.insert("path".into(), json_bytes(path));
        entry.insert("nlink".into(), stat.links.into());
        entry.insert("size".into(), stat.size.into());
        entry.insert("blocks".into(), stat.blocks.into());
        entry.insert("blksize".into(), stat.block_size.into());
        entry.insert("atime".into(), nanoseconds(stat.accessed));
        entry.insert("ctime".into(), nanoseconds(stat.changed));
        entry.insert("btime".into(), nanoseconds(stat.created));
        entry.insert("generation".into(), stat.generation.into());
        self.add_target(znode, &mut entry)?;
        Ok(entry)
    }
}

/// `[offset, length, sha256]` of each stretch of data; without the hash if none is wanted.
fn segments(content: &FileContent<'_>, with_hashes: bool) -> Result<Value, PosixError> {
    let mut list = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = content::next_stretch(content, at)? {
        list.push(match with_hashes {
            false => json!([start, end - start]),
            true => {
                let mut hash = Hash::default();
                content::hash_range(content, start, end, &mut hash)?;
                json!([start, end - start, hash.finish()])
            }
        });
        at = end;
    }
    Ok(list.into())
}
