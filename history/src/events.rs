//! What changes of datasets add to the history, besides the command: an event for each dataset.
//!
//! The names and details of events are OpenZFS's (`zpool history -i`).

use crate::write::{Actor, Happened, log_changes, log_event};
use cenote_base::ObjectId;
use cenote_dsl::write::{
    BeginReceive, ChangeKey, CloneDataset, CreateBookmarks, CreateDataset, CreateSnapshots,
    Delegate, DestroyBookmarks, DestroyDataset, DestroySnapshots, EndReceive, HoldSnapshots,
    MadeBy, PromoteDataset, ReleaseSnapshots, RenameDataset, RenameSnapshots, RevertProperty,
    RollbackDataset, SetPoolProperty, SetProperties, SetReceived, Setting, SyncContext, SyncTask,
};
use cenote_dsl::{DatasetName, DslError, Stored};
use cenote_ondisk::{NvList, NvValue};

/// Events of one change that are noted one by one; of more, only how many. A command may change
/// every dataset of a large pool, and must not push everything else out of the history.
const EVENTS_MAX: usize = 1000;

/// Something that happens to a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetEvent {
    /// Its name.
    pub event: &'static str,
    /// The dataset.
    pub dataset: DatasetName,
    /// The details.
    pub detail: String,
    /// The dataset is there before the change, not after it.
    pub is_before: bool,
}

impl DatasetEvent {
    fn new(event: &'static str, dataset: &DatasetName, detail: String) -> Self {
        Self {
            event,
            dataset: dataset.clone(),
            detail,
            is_before: false,
        }
    }

    fn before(event: &'static str, dataset: &DatasetName, detail: String) -> Self {
        Self {
            is_before: true,
            ..Self::new(event, dataset, detail)
        }
    }
}

/// A change that can say what it does to which datasets.
pub trait Events: SyncTask {
    /// One event for each dataset.
    fn events(&self) -> Vec<DatasetEvent> {
        Vec::new()
    }

    /// The request as it was asked, if it names many datasets: its name and its input.
    fn request(&self) -> Option<(&'static str, NvList)> {
        None
    }
}

/// A change, with its events noted in the same transaction group.
pub struct WithEvents<T> {
    /// The change.
    pub task: T,
    /// Who asked for it.
    pub actor: Actor,
}

fn id_of(context: &SyncContext<'_>, name: &DatasetName) -> Option<ObjectId> {
    let found = context.dsl.dataset(name);
    found.ok().map(|dataset| dataset.id())
}

impl<T: Events> SyncTask for WithEvents<T> {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.task.check(context)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut events = self.task.events();
        let more = events.len().saturating_sub(EVENTS_MAX);
        events.truncate(EVENTS_MAX);
        let before = |event: &DatasetEvent| match event.is_before {
            true => id_of(context, &event.dataset),
            false => None,
        };
        let before: Vec<Option<ObjectId>> = events.iter().map(before).collect();
        self.task.sync(context)?;
        let happened = events.iter().zip(before).filter_map(|(event, before)| {
            let now = id_of(context, &event.dataset);
            // What is not there was not changed.
            let id = before.filter(|_| event.is_before).or(now)?;
            let event_name = match event.event {
                "destroy" if now == Some(id) => "defer_destroy",
                name => name,
            };
            Some(Happened {
                event: event_name,
                dataset: &event.dataset,
                id,
                detail: &event.detail,
            })
        });
        let happened: Vec<Happened<'_>> = happened.collect();
        let request = self.task.request().filter(|_| more == 0);
        log_changes(context, &self.actor, &happened, request)?;
        match events.first() {
            Some(first) if more > 0 => {
                let detail = format!("and {more} more datasets");
                log_event(context, &self.actor, first.event, &detail)
            }
            _ => Ok(()),
        }
    }
}

/// `name=value`, or `name=` for a value that is taken away.
fn assignment(setting: &Setting) -> String {
    let value = match &setting.value {
        Some(Stored::Text(text)) => text.clone(),
        Some(Stored::Number(number)) => number.to_string(),
        None => String::new(),
    };
    format!("{}={value}", setting.name)
}

/// A list of names, as requests have it.
fn names<'a>(names: impl IntoIterator<Item = &'a DatasetName>) -> NvValue {
    let mut list = NvList::new();
    for name in names {
        list.set(name.as_str(), NvValue::Boolean);
    }
    NvValue::List(list)
}

/// What is made for a user is the same.
impl<T: Events> Events for MadeBy<T> {
    fn events(&self) -> Vec<DatasetEvent> {
        self.task.events()
    }

    fn request(&self) -> Option<(&'static str, NvList)> {
        self.task.request()
    }
}

/// The command's own record says what was delegated.
impl Events for Delegate {}

impl Events for CreateDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        vec![DatasetEvent::new("create", &self.name, String::new())]
    }
}

impl Events for CloneDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("origin={}", self.origin);
        vec![DatasetEvent::new("clone", &self.name, detail)]
    }
}

impl Events for DestroyDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        vec![DatasetEvent::before("destroy", &self.name, String::new())]
    }
}

impl Events for RenameDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("-> {}", self.to);
        vec![DatasetEvent::before("rename", &self.from, detail)]
    }
}

impl Events for PromoteDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        vec![DatasetEvent::new("promote", &self.name, String::new())]
    }
}

impl Events for RollbackDataset {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("snapshot={}", self.snapshot);
        vec![DatasetEvent::new(
            "rollback",
            &self.snapshot.dataset(),
            detail,
        )]
    }
}

impl Events for SetProperties {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |setting: &Setting| {
            let name = if setting.value.is_some() {
                "set"
            } else {
                "inherit"
            };
            DatasetEvent::new(name, &self.name, assignment(setting))
        };
        self.settings.iter().map(event).collect()
    }
}

impl Events for RevertProperty {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("{}=", self.property);
        vec![DatasetEvent::new("inherit", &self.name, detail)]
    }
}

impl Events for CreateSnapshots {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |name| DatasetEvent::new("snapshot", name, String::new());
        self.names.iter().map(event).collect()
    }

    fn request(&self) -> Option<(&'static str, NvList)> {
        let mut input = NvList::new();
        input.set("snaps", names(&self.names));
        Some(("snapshot", input))
    }
}

impl Events for DestroySnapshots {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |name| DatasetEvent::before("destroy", name, String::new());
        self.names.iter().map(event).collect()
    }

    fn request(&self) -> Option<(&'static str, NvList)> {
        let mut input = NvList::new();
        input.set("snaps", names(&self.names));
        if self.defer {
            input.set("defer", NvValue::Boolean);
        }
        Some(("destroy_snaps", input))
    }
}

impl Events for RenameSnapshots {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |head: &DatasetName| {
            let name = DatasetName::parse(&format!("{head}@{}", self.from)).ok()?;
            Some(DatasetEvent::before(
                "rename",
                &name,
                format!("-> {head}@{}", self.to),
            ))
        };
        self.datasets.iter().filter_map(event).collect()
    }
}

impl Events for HoldSnapshots {
    fn events(&self) -> Vec<DatasetEvent> {
        let event =
            |(name, tag): &(_, String)| DatasetEvent::new("hold", name, format!("tag={tag}"));
        self.holds.iter().map(event).collect()
    }
}

impl Events for ReleaseSnapshots {
    fn events(&self) -> Vec<DatasetEvent> {
        // It may be destroyed by that.
        let event =
            |(name, tag): &(_, String)| DatasetEvent::before("release", name, format!("tag={tag}"));
        self.holds.iter().map(event).collect()
    }
}

impl Events for CreateBookmarks {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |(source, name): &(DatasetName, DatasetName)| {
            let short = name.after_delimiter().unwrap_or_default();
            let detail = format!("name={short} source={source}");
            DatasetEvent::new("bookmark", &name.dataset(), detail)
        };
        self.bookmarks.iter().map(event).collect()
    }
}

impl Events for DestroyBookmarks {
    fn events(&self) -> Vec<DatasetEvent> {
        let event = |name: &DatasetName| {
            let short = name.after_delimiter().unwrap_or_default();
            DatasetEvent::new("remove bookmark", &name.dataset(), format!("name={short}"))
        };
        self.names.iter().map(event).collect()
    }
}

impl Events for BeginReceive {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("snap={}", self.snapshot);
        vec![DatasetEvent::new("receive", &self.name, detail)]
    }
}

impl Events for EndReceive {
    fn events(&self) -> Vec<DatasetEvent> {
        let detail = format!("snap={}", self.snapshot);
        vec![DatasetEvent::new("finish receiving", &self.name, detail)]
    }
}

impl Events for ChangeKey {}
impl Events for SetPoolProperty {}
impl Events for SetReceived {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_say_what_they_do() {
        let parse = |name: &str| DatasetName::parse(name).expect("a name");
        let setting = |name: &str, value| Setting {
            name: name.to_owned(),
            value,
        };
        let set = SetProperties {
            name: parse("tank/fs"),
            settings: vec![
                setting("quota", Some(Stored::Number(5))),
                setting("mountpoint", None),
            ],
        };
        let told = set
            .events()
            .into_iter()
            .map(|event| (event.event, event.detail));
        let expected = [("set", "quota=5"), ("inherit", "mountpoint=")];
        assert_eq!(
            told.collect::<Vec<_>>(),
            expected.map(|(event, detail)| (event, detail.to_owned()))
        );
        let rename = RenameSnapshots {
            datasets: vec![parse("tank"), parse("tank/fs")],
            from: "a".to_owned(),
            to: "b".to_owned(),
        };
        let last = rename.events().pop().expect("two");
        assert_eq!(
            (last.dataset, last.detail.as_str()),
            (parse("tank/fs@a"), "-> tank/fs@b")
        );
        assert!(last.is_before);
    }
}
