//! Walks a mounted file system as any program would, and describes what it finds.
//!
//! Only system calls are used, and no code of Cenote: the result is what users see.

use crate::manifest::{Entries, Entry};
use crate::sparse;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::ffi::{CStr, OsStr};
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Files above this are described by their segments of data instead of a hash of everything.
const HASHED_SIZE_MAX: u64 = 1 << 30;

/// Attribute values up to this are given in full.
const XATTR_VALUE_SHOWN_MAX: usize = 300;

/// Everything below `root` on the same file system; `.zfs` is not followed.
pub fn walk(root: &Path) -> Result<Entries> {
    let device = fs::symlink_metadata(root)?.dev();
    let mut entries = Entries::new();
    entries.insert(".".into(), entry(root)?);
    let mut pending: Vec<(PathBuf, String)> = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, prefix)) = pending.pop() {
        let list = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
        for item in list {
            let item = item.with_context(|| directory.display().to_string())?;
            let name = item.file_name();
            if prefix.is_empty() && name == ".zfs" {
                continue;
            }
            let name = name
                .to_str()
                .context("every name in a golden pool is UTF-8")?;
            let relative = format!("{prefix}{name}");
            let path = item.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.dev() != device {
                continue;
            }
            let found = entry(&path).with_context(|| path.display().to_string())?;
            entries.insert(relative.clone(), found);
            if metadata.is_dir() {
                pending.push((path, relative + "/"));
            }
        }
    }
    Ok(entries)
}

/// The number of the object of a file with this inode number. Below `.zfs/snapshot` it says in the
/// bits above the object's which snapshot the file is of.
fn object(ino: u64) -> u64 {
    match ino >> 62 {
        1 => ino & ((1 << 40) - 1),
        _ => ino,
    }
}

/// What is known about the file at `path`, links not followed; `ino` is its object's number.
pub fn entry(path: &Path) -> Result<Entry> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = kind(&metadata)?;
    let mut entry = Entry::new();
    entry.insert("type".into(), kind.into());
    entry.insert(
        "mode".into(),
        format!("{:04o}", metadata.mode() & 0o7777).into(),
    );
    entry.insert("uid".into(), metadata.uid().into());
    entry.insert("gid".into(), metadata.gid().into());
    let mtime = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    entry.insert("mtime".into(), mtime.into());
    entry.insert("ino".into(), object(metadata.ino()).into());
    if kind != "dir" {
        entry.insert("nlink".into(), metadata.nlink().into());
    }
    match kind {
        "file" => {
            entry.insert("size".into(), metadata.len().into());
            let file = File::open(path).context("cannot open")?;
            if metadata.len() <= HASHED_SIZE_MAX {
                entry.insert("sha256".into(), hash(&file, metadata.len())?.into());
            } else {
                entry.insert("data".into(), describe_segments(&file)?);
            }
        }
        "symlink" => {
            let target = fs::read_link(path)?;
            let target = target.to_str().context("every target is UTF-8")?;
            entry.insert("target".into(), target.into());
        }
        "char" | "block" => {
            let device = metadata.rdev();
            let numbers = [rustix::fs::major(device), rustix::fs::minor(device)];
            entry.insert("rdev".into(), json!(numbers));
        }
        _ => {}
    }
    let xattrs = xattrs(path)?;
    if !xattrs.is_empty() {
        entry.insert("xattrs".into(), Value::Object(xattrs));
    }
    Ok(entry)
}

fn kind(metadata: &Metadata) -> Result<&'static str> {
    let kind = metadata.file_type();
    Ok(match () {
        () if kind.is_file() => "file",
        () if kind.is_dir() => "dir",
        () if kind.is_symlink() => "symlink",
        () if kind.is_char_device() => "char",
        () if kind.is_block_device() => "block",
        () if kind.is_fifo() => "fifo",
        () if kind.is_socket() => "socket",
        () => anyhow::bail!("a file of no known type"),
    })
}

/// The sha256 of the first `size` bytes of `file`, holes as zeros and not read.
pub fn hash(file: &File, size: u64) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut at = 0;
    for (start, end) in sparse::segments(file)? {
        hash_zeros(&mut hasher, start.min(size) - at);
        hash_range(&mut hasher, file, start.min(size), end.min(size))?;
        at = end.min(size);
    }
    hash_zeros(&mut hasher, size - at);
    Ok(hex(&hasher.finalize()))
}

fn hash_zeros(hasher: &mut Sha256, mut count: u64) {
    static ZEROS: [u8; 65536] = [0; 65536];
    while count > 0 {
        let length = count.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..length as usize]);
        count -= length;
    }
}

fn hash_range(hasher: &mut Sha256, file: &File, mut at: u64, end: u64) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    while at < end {
        let length = (end - at).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..length], at)
            .with_context(|| format!("cannot read {length} bytes at {at}"))?;
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    Ok(())
}

/// `[offset, length, sha256]` of each segment of data.
fn describe_segments(file: &File) -> Result<Value> {
    let mut list = Vec::new();
    for (start, end) in sparse::segments(file)? {
        let mut hasher = Sha256::new();
        hash_range(&mut hasher, file, start, end)?;
        list.push(json!([start, end - start, hex(&hasher.finalize())]));
    }
    Ok(list.into())
}

/// The extended attributes of `path`; those that cannot be listed count as none.
fn xattrs(path: &Path) -> Result<Entry> {
    let mut xattrs = Entry::new();
    for name in xattr_names(path)? {
        let value = xattr_value(path, &name).with_context(|| name.clone())?;
        let shown = match value.len() <= XATTR_VALUE_SHOWN_MAX {
            true => json!({"b64": base64(&value)}),
            false => json!({"len": value.len(), "sha256": hex(&Sha256::digest(&value))}),
        };
        xattrs.insert(name, shown);
    }
    Ok(xattrs)
}

fn xattr_names(path: &Path) -> Result<Vec<String>> {
    let mut buffer = vec![0_u8; 64 << 10];
    let length = match rustix::fs::llistxattr(path, &mut buffer) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(error) => return Err(error).context("llistxattr"),
    };
    let mut names = Vec::new();
    for name in buffer[..length].split_inclusive(|byte| *byte == 0) {
        let name = CStr::from_bytes_with_nul(name).context("a name without its end")?;
        names.push(
            name.to_str()
                .context("a name that is not UTF-8")?
                .to_string(),
        );
    }
    Ok(names)
}

fn xattr_value(path: &Path, name: &str) -> Result<Vec<u8>> {
    let mut value = vec![0_u8; 128 << 10];
    let length = rustix::fs::lgetxattr(path, OsStr::from_bytes(name.as_bytes()), &mut value)?;
    value.truncate(length);
    Ok(value)
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for index in 0..4 {
            if index <= chunk.len() {
                let digit = (group >> (18 - 6 * index)) & 63;
                text.push(char::from(DIGITS[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn a_walk_sees_what_is_there() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("d")).expect("mkdir");
        let file = File::create(directory.path().join("d/f")).expect("create");
        file.write_all_at(b"x", 1 << 20).expect("write");
        std::os::unix::fs::symlink("d/f", directory.path().join("l")).expect("symlink");
        let entries = walk(directory.path()).expect("a walk");
        let paths: Vec<&str> = entries.keys().map(String::as_str).collect();
        assert_eq!(paths, [".", "d", "d/f", "l"]);
        let mut content = vec![0; (1 << 20) + 1];
        content[1 << 20] = b'x';
        assert_eq!(entries["d/f"]["sha256"], hex(&Sha256::digest(&content)));
        assert_eq!(entries["l"]["target"], "d/f");
    }
}
