//! What is done to a tree before its increments are received, one thing at a time.

use cenote_control::model::{Change, SnapshotChange};

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Promote(String),
    /// A snapshot, and the clone that is made of it.
    Clone(String, String),
    DestroySnapshot(String),
    DestroyDataset(String),
    RenameSnapshot(String, String),
    RenameDataset(String, String),
}

impl Step {
    /// What it is done to.
    fn subject(&self) -> &String {
        match self {
            Self::Promote(name) | Self::DestroySnapshot(name) | Self::DestroyDataset(name) => name,
            Self::RenameSnapshot(from, _) | Self::RenameDataset(from, _) => from,
            Self::Clone(origin, _) => origin,
        }
    }

    /// The change that it is, to be judged.
    pub fn change(&self) -> Change {
        Change::Snapshots(match self.clone() {
            Self::Promote(dataset) => SnapshotChange::Promote { dataset },
            Self::Clone(origin, name) => SnapshotChange::Clone {
                origin,
                name,
                properties: Vec::new(),
                parents: false,
                unmounted: true,
            },
            Self::DestroySnapshot(name) => SnapshotChange::Destroy {
                names: vec![name],
                defer: false,
            },
            Self::RenameSnapshot(from, to) => SnapshotChange::Rename {
                from,
                to: to.split('@').next_back().unwrap_or_default().to_owned(),
                recursive: false,
            },
            Self::DestroyDataset(dataset) => {
                return Change::DestroyDataset {
                    dataset,
                    recursive: true,
                    clones: false,
                    force: false,
                    dry_run: false,
                };
            }
            Self::RenameDataset(from, to) => {
                return Change::RenameDataset {
                    from,
                    to,
                    parents: false,
                    force: false,
                    unmounted: false,
                };
            }
        })
    }

    /// The line that reports it.
    pub fn text(&self) -> String {
        match self {
            Self::Promote(name) => format!("promoting {name}"),
            Self::Clone(origin, name) => format!("cloning {origin} as {name}"),
            Self::DestroySnapshot(name) | Self::DestroyDataset(name) => {
                format!("attempting destroy {name}")
            }
            Self::RenameSnapshot(from, to) | Self::RenameDataset(from, to) => {
                format!("attempting rename {from} to {to}")
            }
        }
    }
}

/// Candidates for a temporary name. First those that wait for a name that is taken or within their
/// own; then those that have such a name, if a step is due for them. Others keep their names.
pub(super) fn in_the_way(steps: &[Step], is_taken: impl Fn(&String) -> bool) -> Vec<&String> {
    let is_within = |to: &String, from: &String| {
        to.strip_prefix(from.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let (mut waiting, mut taken) = (Vec::new(), Vec::new());
    for step in steps {
        let (Step::RenameDataset(from, to) | Step::RenameSnapshot(from, to)) = step else {
            continue;
        };
        if is_taken(to) {
            waiting.push(from);
            taken.push(to);
        } else if is_within(to, from) {
            waiting.push(from);
        }
    }
    let is_due = |name: &String| steps.iter().any(|step| step.subject() == name);
    waiting.extend(taken.into_iter().filter(|name| is_due(name)));
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_due_gets_out_of_the_way() {
        let rename = |from: &str, to: &str| Step::RenameDataset(from.into(), to.into());
        let steps = [
            rename("t/a", "t/b"),
            rename("t/c", "t/d"),
            rename("t/e", "t/e/f"),
            rename("t/g", "t/h"),
            Step::DestroyDataset("t/b".into()),
        ];
        let is_taken = |name: &String| ["t/b", "t/d"].contains(&name.as_str());
        let found = in_the_way(&steps, is_taken);
        // There is no step for t/d.
        assert_eq!(found, ["t/a", "t/c", "t/e", "t/b"]);
    }
}
