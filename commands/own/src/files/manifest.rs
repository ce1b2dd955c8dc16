//! `cenote manifest`: everything in a dataset, as JSON.
//!
//! Each file is one line, written during the walk. So a dataset with millions of files needs no
//! more memory than a small one.

use super::content;
use crate::reading::datasets::DatasetWalk;
use crate::reading::failure::{Exit, Failure, ended, posix_words};
use crate::reading::options::PoolOptions;
use crate::reading::output::{Output, json_key};
use crate::reading::place::Place;
use crate::reading::session::{OpenFileSystem, Session};
use crate::reading::spec::Spec;
use cenote_dsl::{Dataset, DatasetType, DslError};
use cenote_words::command::{Command, Run, flags};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::sync::Arc;

/// The command.
pub const COMMAND: Command = Command {
    name: "manifest",
    summary: "List everything in a dataset as JSON",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]",
    about: "\
Describes everything in a dataset as JSON: for each path of a file system type, mode, owner,
mtime in nanoseconds, inode number, links, size, target, device number and extended
attributes; of a volume its size.

Paths that are not UTF-8 are the text {\"b64\":\"...\"}.",
    flags: flags! {
        _ "sha256" _ "read everything, and add its hash; files above 1 GiB have 'data' in its\n\
            place, [offset, length, sha256] of each stretch that is stored";
        'r' "recursive" _ "the dataset, its snapshots and bookmarks, and all datasets below";
    },
    run: Run::Reading(|words| ended(run(words))),
};

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, &words)?;
    let specs = line.specs("give a dataset or snapshot")?;
    let [spec] = specs.as_slice() else {
        let problem = "give one dataset or snapshot, or the one above with --recursive";
        return Err(line.wrong(problem));
    };
    if !matches!(spec.path.as_deref(), None | Some(b"" | b"/")) {
        return Err(line.wrong("a manifest lists a whole dataset: give its name without a path"));
    }
    let session = Session::open(&pool, spec.pool())?;
    let mut writer = Writer {
        output: Output::new(),
        with_hashes: line.has("sha256"),
    };
    if line.has("recursive") {
        writer.all(&session, spec)?;
    } else {
        let dataset = session.dataset(&spec.dataset)?;
        writer.dataset(&session, dataset)?;
        writer.output.bytes(b"\n")?;
    }
    writer.output.finish()
}

struct Writer {
    output: Output,
    with_hashes: bool,
}

/// The facts about a dataset, before its contents.
fn facts(dataset: &Dataset, kind: &str) -> Vec<(&'static str, Value)> {
    let phys = dataset.phys();
    vec![
        ("type", kind.into()),
        ("guid", phys.guid.0.to_string().into()),
        ("createtxg", phys.creation_txg.0.into()),
    ]
}

impl Writer {
    fn members(&mut self, members: &[(&'static str, Value)]) -> Result<(), Failure> {
        for (index, (key, value)) in members.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            self.output.text(&format!("{comma}\"{key}\": {value}"))?;
        }
        Ok(())
    }

    /// One dataset, as an object without a newline.
    fn dataset(&mut self, session: &Session, dataset: Dataset) -> Result<(), Failure> {
        let is_snapshot = dataset.is_snapshot();
        match session.dataset_type(&dataset)? {
            DatasetType::Volume => {
                let kind = if is_snapshot { "snapshot" } else { "volume" };
                let volume = session.volume_of(&dataset)?;
                let mut members = facts(&dataset, kind);
                members.push(("volsize", volume.size().into()));
                if self.with_hashes {
                    let hash = content::hash_all(&volume).map_err(|source| Failure::Volume {
                        dataset: dataset.name().as_str().to_owned(),
                        source: Box::new(source),
                    })?;
                    members.push(("sha256", hash.into()));
                }
                self.output.bytes(b"{")?;
                self.members(&members)?;
            }
            DatasetType::Filesystem => {
                let kind = if is_snapshot {
                    "snapshot"
                } else {
                    "filesystem"
                };
                let members = facts(&dataset, kind);
                let open = session.file_system_of(dataset)?;
                self.output.bytes(b"{")?;
                self.members(&members)?;
                self.output.bytes(b", \"entries\": {")?;
                self.entries(&open)?;
                self.output.bytes(b"\n}")?;
            }
        }
        self.output.bytes(b"}")
    }

    fn entries(&mut self, open: &OpenFileSystem) -> Result<(), Failure> {
        let root = open.files.root();
        let walk = open.files.walk(root).map_err(|source| Failure::Path {
            place: Box::new(Place::new(&open.name, "")),
            source: Box::new(source),
        })?;
        let mut comma = "";
        for item in walk {
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    self.output
                        .complain(&format!("{}: {}", open.name, posix_words(&error)));
                    continue;
                }
            };
            let (entry, errors) = open.manifest_entry(&item.znode, self.with_hashes);
            for error in errors {
                let place = Place::new(&open.name, item.path.as_slice());
                self.output
                    .complain(&format!("{place}: {}", posix_words(&error)));
            }
            let key = match item.path.is_empty() {
                true => ".".to_owned(),
                false => json_key(&item.path),
            };
            let entry = Value::Object(entry);
            self.output
                .text(&format!("{comma}\n{}: {entry}", Value::String(key)))?;
            comma = ",";
        }
        Ok(())
    }

    /// A dataset and everything below it, with snapshots and bookmarks.
    fn all(&mut self, session: &Session, spec: &Spec) -> Result<(), Failure> {
        let pool = session.pool();
        let members = [
            ("pool", json!(pool.name())),
            ("guid", json!(pool.guid().0.to_string())),
        ];
        self.output.bytes(b"{")?;
        self.members(&members)?;
        self.output.bytes(b", \"datasets\": {")?;
        let first = session.dataset(&spec.dataset)?;
        let mut comma = "";
        if first.is_snapshot() {
            self.named(session, first, &mut comma)?;
        } else {
            let walk = DatasetWalk::below(Arc::clone(first.directory()));
            drop(first);
            for head in walk {
                let written = head.and_then(|head| self.family(session, head, &mut comma));
                match written {
                    Ok(()) => {}
                    Err(Failure::Output(error)) => return Err(Failure::Output(error)),
                    Err(error) => self.output.complain(&error.to_string()),
                }
            }
        }
        self.output.bytes(b"\n}}\n")
    }

    /// A head, its snapshots and bookmarks.
    fn family(
        &mut self,
        session: &Session,
        head: Dataset,
        comma: &mut &'static str,
    ) -> Result<(), Failure> {
        let name = head.name().as_str().to_owned();
        let failed = |source: DslError| Failure::Dataset {
            dataset: name.clone(),
            source: Box::new(source),
        };
        session.unlock(&head)?;
        let snapshots = head.listed_snapshots().map_err(failed)?;
        let opened: Vec<_> = snapshots
            .iter()
            .map(|entry| head.open_snapshot(entry))
            .collect();
        let bookmarks = head.bookmarks().map_err(failed)?;
        self.named(session, head, comma)?;
        for snapshot in opened {
            let snapshot = snapshot.map_err(failed)?;
            self.named(session, snapshot, comma)?;
        }
        for bookmark in bookmarks {
            let bookmark_name = bookmark.name.as_str().to_owned();
            let fact = json!({
                "type": "bookmark",
                "guid": bookmark.phys.guid.0.to_string(),
                "createtxg": bookmark.phys.creation_txg.0,
            });
            let key = Value::String(bookmark_name);
            self.output.text(&format!("{comma}\n{key}: {fact}"))?;
            *comma = ",";
        }
        Ok(())
    }

    /// A dataset under its name. If it cannot be opened, the reason is printed instead.
    fn named(
        &mut self,
        session: &Session,
        dataset: Dataset,
        comma: &mut &'static str,
    ) -> Result<(), Failure> {
        let key = Value::String(dataset.name().as_str().to_owned());
        self.output.text(&format!("{comma}\n{key}: "))?;
        *comma = ",";
        match self.dataset(session, dataset) {
            Ok(()) => Ok(()),
            Err(Failure::Output(error)) => Err(Failure::Output(error)),
            Err(error) => {
                self.output.complain(&error.to_string());
                self.output
                    .text(&json!({"error": error.to_string()}).to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_refused_before_anything_is_opened() {
        let refused = run(vec!["tank/files:/nope".into()]).expect_err("a path");
        assert!(refused.to_string().contains("a whole dataset"), "{refused}");
    }
}
