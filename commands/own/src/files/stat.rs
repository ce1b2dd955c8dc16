//! `cenote stat`: everything stored about a file except its contents.

use super::entry::{Entry, kind_word};
use super::ls::with_dataset;
use super::show::{Clock, mode_text};
use crate::reading::failure::{Exit, Failure, ended};
use crate::reading::options::PoolOptions;
use crate::reading::output::{Output, base64, escaped, json_key};
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_posix::{FileKind, PosixError, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run, flags};
use serde_json::{Value, json};
use std::ffi::OsString;

/// The command.
pub const COMMAND: Command = Command {
    name: "stat",
    summary: "Show everything about files",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
    about: "\
Shows everything that is stored about files: also object number, generation, flags, project,
extended attributes, NFSv4 access control list.",
    flags: flags! {
        'L' "dereference" _ "follow a symbolic link";
        'j' "json" _ "as JSON, values of extended attributes in base64";
    },
    run: Run::Reading(|words| ended(run(words))),
};

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, options) = PoolOptions::read(&COMMAND, &words)?;
    let specs = line.specs("give POOL/DATASET:/path")?;
    let policy = match line.has("dereference") {
        true => SymlinkPolicy::Follow,
        false => SymlinkPolicy::FollowParents,
    };
    let clock = (!line.has("json")).then(Clock::local);
    let mut output = Output::new();
    each_place(
        &options,
        &specs,
        &mut output,
        |output| output,
        |output, session, spec| describe(session, spec, policy, clock.as_ref(), output),
    )?;
    output.finish()
}

/// Prints one file, as JSON if no clock is given.
fn describe(
    session: &Session,
    spec: &Spec,
    policy: SymlinkPolicy,
    clock: Option<&Clock>,
    output: &mut Output,
) -> Result<(), Failure> {
    let open = session.file_system(spec)?;
    let path = spec.path_or_root();
    let znode = open.resolve(path, policy)?;
    let Some(clock) = clock else {
        let entry = full_entry(&open, &znode, path);
        let entry = entry.map_err(|source| open.failure(path, source))?;
        return output.json_pretty(&Value::Object(entry));
    };
    let text = text(&open, &znode, path, clock);
    let text = text.map_err(|source| open.failure(path, source))?;
    output.text(&text)
}

/// The name and value of an extended attribute.
type Xattr = (Vec<u8>, Vec<u8>);

/// All extended attributes.
fn xattrs(open: &OpenFileSystem, znode: &Znode) -> Result<Vec<Xattr>, PosixError> {
    let names = open.files.xattr_names(znode)?;
    let each = names.into_iter().map(|name| {
        let value = open.files.require_xattr(znode, &name)?;
        Ok((name, value))
    });
    each.collect()
}

fn full_entry(open: &OpenFileSystem, znode: &Znode, path: &[u8]) -> Result<Entry, PosixError> {
    let mut entry = with_dataset(open.stat_entry(znode, path)?, open);
    let attributes = znode.attributes();
    entry.insert("object".into(), znode.id().0.into());
    entry.insert("flags".into(), attributes.flags.into());
    entry.insert("project".into(), attributes.project.into());
    let mut shown = Entry::new();
    for (name, value) in xattrs(open, znode)? {
        shown.insert(json_key(&name), json!({"b64": base64(&value)}));
    }
    entry.insert("xattrs".into(), shown.into());
    entry.insert("acl".into(), open.files.acl_text(znode)?.into());
    Ok(entry)
}

fn text(
    open: &OpenFileSystem,
    znode: &Znode,
    path: &[u8],
    clock: &Clock,
) -> Result<String, PosixError> {
    let stat = open.files.stat(znode);
    let attributes = znode.attributes();
    let mut text = format!("  File: {}:{}", open.name, escaped(path));
    match stat.kind {
        FileKind::Symlink => {
            let target = open.files.read_link(znode)?;
            text.push_str(&format!(" -> {}", escaped(&target)));
        }
        FileKind::CharDevice | FileKind::BlockDevice => {
            text.push_str(&format!("  ({}, {})", stat.device.major, stat.device.minor));
        }
        _ => {}
    }
    let lines = [
        format!(
            "  Type: {}  Size: {}  Blocks: {} of 512  Block size: {}",
            kind_word(stat.kind),
            stat.size,
            stat.blocks,
            stat.block_size
        ),
        format!(
            "Object: {}  Inode: {}  Links: {}  Generation: {}  Parent: {}",
            znode.id(),
            open.inode(znode),
            stat.links,
            stat.generation,
            attributes.parent
        ),
        format!(
            "  Mode: {:04o} {}  Uid: {}  Gid: {}  Project: {}  Flags: {:#x}",
            stat.mode,
            mode_text(stat.kind, stat.mode),
            open.files.domains().owner(stat.uid),
            open.files.domains().owner(stat.gid),
            attributes.project,
            attributes.flags
        ),
        format!("Access: {}", clock.exact(stat.accessed)),
        format!("Modify: {}", clock.exact(stat.modified)),
        format!("Change: {}", clock.exact(stat.changed)),
        format!(" Birth: {}", clock.exact(stat.created)),
    ];
    for line in lines {
        text.push('\n');
        text.push_str(&line);
    }
    text.push('\n');
    for (name, value) in xattrs(open, znode)? {
        let name = escaped(&name);
        text.push_str(&format!(" Xattr: {name}, {} bytes\n", value.len()));
    }
    for entry in open.files.acl_text(znode)? {
        text.push_str(&format!("   ACL: {entry}\n"));
    }
    Ok(text)
}
