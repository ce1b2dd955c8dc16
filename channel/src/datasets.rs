//! The answers to what a program asks about its pool.

use super::changes::{Refusal, change};
use super::properties::{clones, property, system_properties, user_properties};
use super::view::{View, refused};
use cenote_dsl::{DatasetName, DslError, NameKind};
use cenote_program::{Answer, Datum, Errno, List, Operation, Refused, Zfs};
use std::sync::atomic::Ordering;

/// Messages that a program may record, in bytes; later ones are left out.
const MESSAGES_MAX: usize = 64 << 10;
/// The same, by number.
const MESSAGE_COUNT_MAX: usize = 1000;

impl View<'_> {
    fn listed(&self, list: List, of: &str) -> Result<Vec<Vec<Datum>>, Refused> {
        let one = |name: &DatasetName| vec![Datum::from(name.as_str())];
        let read = |error: DslError| refused(&error);
        Ok(match list {
            List::Bookmarks => {
                let bookmarks = self.of_kind(of, false)?.bookmarks().map_err(read)?;
                bookmarks
                    .iter()
                    .map(|bookmark| one(&bookmark.name))
                    .collect()
            }
            List::Children => {
                let directory = self.of_kind(of, false)?;
                let directory = directory.directory();
                let mut names = Vec::new();
                for child in directory.listed_children().map_err(read)? {
                    let child = directory.open_child(&child).map_err(read)?;
                    names.push(one(child.name()));
                }
                names
            }
            List::Clones => {
                let snapshot = self.of_kind(of, true)?;
                clones(&snapshot).map_err(read)?.iter().map(one).collect()
            }
            List::Holds => {
                let holds = self.of_kind(of, true)?.holds().map_err(read)?;
                let row = |tag: &str, time| vec![Datum::from(tag), Datum::Number(time)];
                let rows = holds.iter();
                rows.map(|hold| row(&hold.tag, hold.time.cast_signed()))
                    .collect()
            }
            List::Snapshots => {
                let head = self.of_kind(of, false)?;
                let mut names = Vec::new();
                for entry in head.listed_snapshots().map_err(read)? {
                    let snapshot = head.name().snapshot(&entry.name);
                    names.extend(snapshot.iter().map(one));
                }
                names
            }
            List::UserProperties => user_properties(&self.any(of)?).map_err(read)?,
            List::SystemProperties => {
                let names = system_properties(&self.any(of)?).map_err(read)?;
                names
                    .into_iter()
                    .map(|name| vec![Datum::from(name)])
                    .collect()
            }
        })
    }
}

impl Zfs for View<'_> {
    fn is_cancelled(&mut self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn debug(&mut self, message: &str) {
        let messages = &mut self.followers.messages;
        let used: usize = messages.iter().map(String::len).sum();
        if messages.len() < MESSAGE_COUNT_MAX && used + message.len() <= MESSAGES_MAX {
            messages.push(message.to_owned());
        }
    }

    fn exists(&mut self, dataset: &str) -> Result<bool, Refused> {
        let name = self.name(dataset)?;
        let dsl = self.imported.dsl();
        let found = match name.kind() {
            NameKind::Bookmark => dsl.bookmark(&name).map(drop),
            _ => dsl.dataset(&name).map(drop),
        };
        match found {
            Ok(()) => Ok(true),
            Err(DslError::NoSuchDataset { .. }) => Ok(false),
            Err(error) => Err(refused(&error)),
        }
    }

    fn property(&mut self, dataset: &str, name: &str) -> Result<(Datum, Option<String>), Refused> {
        let dataset = self.any(dataset)?;
        property(self.imported, self.mounts, &dataset, name)
    }

    fn list(&mut self, list: List, of: &str) -> Result<Vec<Vec<Datum>>, Refused> {
        self.listed(list, of)
    }

    fn operate(&mut self, operation: &Operation, is_dry: bool) -> Result<Answer, Refused> {
        let Some(context) = self.context else {
            return match self.imported.pool.is_writable() {
                true => Err(Refused::NeedsGroup),
                false => Ok(Answer::refused(Errno::EROFS)),
            };
        };
        match change(self, context, operation, is_dry) {
            Ok(()) => Ok(Answer::DONE),
            Err(Refusal::Answer(answer)) => Ok(answer),
            Err(Refusal::Fatal(error)) => {
                let text = error.to_string();
                self.fatal = Some(error);
                Err(Refused::Fatal(text))
            }
        }
    }
}
