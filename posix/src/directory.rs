//! Directories: finding a name, and listing.
//!
//! A directory is a ZAP from names to object numbers; `.` and `..` are not stored (format/3b 4).
//! A place in a listing is the ZAP's cursor, a hash and a differentiator, so it stays good while
//! entries come and go; it needs at most 60 bits. Cookies 0, 1 and 2 are `.`, `..` and room for a
//! control directory.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::CaseSensitivity;
use crate::stat::Stat;
pub use crate::target::Target;
use crate::znode::Znode;
use cenote_dmu::zap::normalize::{self, normalize};
use cenote_dmu::zap::{ZapEntries, ZapKey, ZapValue};
use cenote_ondisk::DecodeError;
use std::sync::Arc;

/// The longest name, with the feature `longname`; without it 255 bytes (format/3b 4).
pub const NAME_LENGTH_MAX: usize = 1023;

/// The cookie behind `.`; a listing begins at 0.
const COOKIE_DOT: u64 = 1;
/// The cookie behind `..`: entries follow.
const COOKIE_DOT_DOT: u64 = 2;
/// Cookies of entries are below it.
const COOKIE_END: u64 = 1 << 62;

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name as stored.
    pub name: Vec<u8>,
    /// What it leads to.
    pub target: Target,
    /// Where to resume after this entry; below 2^63.
    pub cookie: u64,
}

impl DirectoryEntry {
    /// Whether this is `.` or `..`, which no directory stores.
    pub fn is_dots(&self) -> bool {
        self.cookie <= COOKIE_DOT_DOT
    }

    /// Whether a path can go through this name. A stored `..`, or a name with a slash, comes from a
    /// manipulated disk and would lead elsewhere.
    pub fn has_usable_name(&self) -> bool {
        let is_path = || self.name.contains(&b'/') || self.name.contains(&0);
        self.is_dots() || !matches!(&self.name[..], b"" | b"." | b"..") && !is_path()
    }
}

/// Lists a directory from a cookie on. Ends after the first error.
#[derive(Debug)]
pub struct DirectoryReader {
    directory: Arc<Znode>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Dot,
    DotDot,
    Stored(Box<ZapEntries>),
    End,
}

impl DirectoryReader {
    fn new(directory: Arc<Znode>, cookie: u64) -> Result<Self, PosixError> {
        directory.require_directory()?;
        let mut reader = Self {
            directory,
            stage: Stage::End,
        };
        reader.stage = match cookie {
            0 => Stage::Dot,
            COOKIE_DOT => Stage::DotDot,
            COOKIE_DOT_DOT | 3 => reader.stored_from(0)?,
            COOKIE_END.. => Stage::End,
            _ => reader.stored_from(cookie)?,
        };
        Ok(reader)
    }

    fn stored_from(&self, cursor: u64) -> Result<Stage, PosixError> {
        Ok(match self.directory.zap()? {
            Some(zap) => Stage::Stored(Box::new(zap.entries_from(cursor))),
            None => Stage::End,
        })
    }

    fn next_stored(&mut self) -> Result<Option<DirectoryEntry>, PosixError> {
        let Stage::Stored(entries) = &mut self.stage else {
            return Ok(None);
        };
        let Some(entry) = entries.next() else {
            return Ok(None);
        };
        let entry = entry?;
        let ZapKey::Name(name) = entry.key else {
            return Err(self.directory.inconsistent("an entry's key is not a name"));
        };
        if entry.cursor >= COOKIE_END {
            return Err(self
                .directory
                .inconsistent("a directory with a 48-bit hash"));
        }
        let target = decode_target(&self.directory, &entry.value)?;
        Ok(Some(DirectoryEntry {
            name,
            target,
            cookie: entry.cursor,
        }))
    }

    fn next_entry(&mut self) -> Result<Option<DirectoryEntry>, PosixError> {
        if let Stage::Dot = self.stage {
            self.stage = Stage::DotDot;
            let target = Target::directory(self.directory.id());
            return Ok(Some(DirectoryEntry {
                name: b".".into(),
                target,
                cookie: COOKIE_DOT,
            }));
        }
        if let Stage::DotDot = self.stage {
            self.stage = self.stored_from(0)?;
            let target = Target::directory(self.directory.attributes().parent);
            return Ok(Some(DirectoryEntry {
                name: b"..".into(),
                target,
                cookie: COOKIE_DOT_DOT,
            }));
        }
        self.next_stored()
    }
}

impl Iterator for DirectoryReader {
    type Item = Result<DirectoryEntry, PosixError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.next_entry();
        if !matches!(result, Ok(Some(_))) {
            self.stage = Stage::End;
        }
        result.transpose()
    }
}

/// The first integer is the object; further ones are tolerated, as OpenZFS does.
fn decode_target(directory: &Znode, value: &ZapValue) -> Result<Target, PosixError> {
    let first_of = || value.as_u64s().and_then(|words| words.first().copied());
    let first = value.as_u64().or_else(first_of);
    first
        .map(Target::from_stored)
        .ok_or_else(|| PosixError::Malformed {
            object: directory.id(),
            source: DecodeError::Inconsistent {
                structure: "directory entry",
                problem: "its value has no 64-bit integer",
            },
        })
}

impl FileSystem {
    /// What `name` in `directory` leads to; `None` if there is no such name.
    ///
    /// Names are compared by the dataset's rules, as for a local caller: `mixed` looks at the
    /// case. `.` is the directory itself and `..` its parent.
    pub fn lookup(&self, directory: &Znode, name: &[u8]) -> Result<Option<Target>, PosixError> {
        Ok(self
            .lookup_spelling(directory, name)?
            .map(|(_, target)| target))
    }

    /// As [`Self::lookup`], with the name as it is stored.
    pub fn lookup_spelling(
        &self,
        directory: &Znode,
        name: &[u8],
    ) -> Result<Option<(Vec<u8>, Target)>, PosixError> {
        directory.require_directory()?;
        if name.len() > NAME_LENGTH_MAX {
            let (length, limit) = (name.len(), NAME_LENGTH_MAX);
            return Err(PosixError::NameTooLong { length, limit });
        }
        match name {
            b"." => return Ok(Some((name.into(), Target::directory(directory.id())))),
            b".." => {
                let parent = directory.attributes().parent;
                return Ok(Some((name.into(), Target::directory(parent))));
            }
            _ => {}
        }
        self.lookup_stored(directory, name)
    }

    /// Looks among the entries on disk.
    fn lookup_stored(
        &self,
        directory: &Znode,
        name: &[u8],
    ) -> Result<Option<(Vec<u8>, Target)>, PosixError> {
        let Some(zap) = directory.zap()? else {
            return Ok(None);
        };
        let decode = |spelling: Vec<u8>, value: ZapValue| {
            decode_target(directory, &value).map(|target| Some((spelling, target)))
        };
        // Most lookups spell the name as it is stored, so try that first.
        if let Some(value) = zap.lookup(name)? {
            return decode(name.to_vec(), value);
        }
        let flags = self.name_flags();
        if flags == 0 || zap.normalization() == 0 {
            return Ok(None);
        }
        let Some((spelling, value)) = zap.lookup_normalized(name)? else {
            return Ok(None);
        };
        let wanted = normalize(name, flags);
        if normalize(&spelling, flags) == wanted {
            return decode(spelling, value);
        }
        // The ZAP folds more than a local caller does (`mixed`): an entry that differs only in case
        // hides the right one.
        for entry in zap.entries() {
            let entry = entry?;
            let name = entry.key.as_name().unwrap_or_default();
            if normalize(name, flags) == wanted {
                return decode(name.to_vec(), entry.value);
            }
        }
        Ok(None)
    }

    /// The normalization by which local callers' names are compared; 0 for exact names.
    pub(crate) fn name_flags(&self) -> u64 {
        let rules = &self.master().names;
        match rules.case {
            CaseSensitivity::Insensitive => rules.normalization | normalize::FLAG_TOUPPER,
            CaseSensitivity::Sensitive | CaseSensitivity::Mixed => rules.normalization,
        }
    }

    /// Lists `directory` from `cookie` on: 0, or that of the last entry seen.
    ///
    /// The first two entries are `.` and `..`.
    pub fn read_directory(
        &self,
        directory: &Arc<Znode>,
        cookie: u64,
    ) -> Result<DirectoryReader, PosixError> {
        DirectoryReader::new(Arc::clone(directory), cookie)
    }

    /// The next up to `count` entries behind `cookie`, each with what `stat` shows.
    ///
    /// What must be read for that is read in batches. A file that cannot be read is an error in
    /// its place and does not end the listing.
    #[expect(clippy::type_complexity, reason = "an entry and its file or error")]
    pub fn read_directory_plus(
        &self,
        directory: &Arc<Znode>,
        cookie: u64,
        count: usize,
    ) -> Result<Vec<(DirectoryEntry, Result<Stat, PosixError>)>, PosixError> {
        let reader = self.read_directory(directory, cookie)?;
        let entries = reader.take(count).collect::<Result<Vec<_>, _>>()?;
        let objects: Vec<_> = entries.iter().map(|entry| entry.target.object).collect();
        let stats = self.stats(&objects);
        Ok(entries.into_iter().zip(stats).collect())
    }
}
