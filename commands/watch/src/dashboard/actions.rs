//! The dashboard's actions: scrubs, clearing errors, snapshots. There are no others.
//!
//! A form becomes one [`control`](cenote_control) request. The daemon executes it as for its own
//! user, and records the equivalent command in the pool's history.

use cenote_control::model::{
    Access as Class, Change, ControlError, Request, Response, ScanCommand, SnapshotChange,
};

use super::layout::field;
use super::recorder::Asker;

/// An action that a form requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The pool, whose page is shown afterwards.
    pub pool: String,
    /// The change.
    change: Change,
    /// The equivalent command.
    command: String,
}

/// Parses a form. The error is a message for the user.
pub fn read(body: &str) -> Result<Action, String> {
    let given = |name: &str| field(body, name).filter(|value| !value.is_empty());
    let pool = given("pool").ok_or("the form names no pool")?;
    let (change, command) = match given("action").as_deref() {
        Some("scrub") => {
            let command = ScanCommand::Scrub { since_last: false };
            (scan(&pool, command), format!("zpool scrub {pool}"))
        }
        Some("pause") => (
            scan(&pool, ScanCommand::Pause),
            format!("zpool scrub -p {pool}"),
        ),
        Some("stop") => (
            scan(&pool, ScanCommand::Stop),
            format!("zpool scrub -s {pool}"),
        ),
        Some("clear") => {
            let change = Change::ClearErrors {
                pool: pool.clone(),
                device: None,
            };
            (change, format!("zpool clear {pool}"))
        }
        Some("snapshot") => {
            let dataset = given("dataset").ok_or("name a dataset")?;
            let snapshot = given("snapshot").ok_or("name the snapshot")?;
            let is_within = dataset == pool || dataset.starts_with(&format!("{pool}/"));
            if !is_within || dataset.contains('@') || snapshot.contains(['@', '/', '#']) {
                return Err(format!(
                    "'{dataset}@{snapshot}' is no name of a snapshot in pool '{pool}'"
                ));
            }
            let recursive = given("recursive").is_some();
            let name = format!("{dataset}@{snapshot}");
            let option = if recursive { "-r " } else { "" };
            let command = format!("zfs snapshot {option}{name}");
            let change = SnapshotChange::Create {
                names: vec![name],
                recursive,
                properties: Vec::new(),
            };
            (Change::Snapshots(change), command)
        }
        _ => return Err("the form asks for nothing that can be done here".to_owned()),
    };
    Ok(Action {
        pool,
        change,
        command,
    })
}

fn scan(pool: &str, command: ScanCommand) -> Change {
    Change::Scan {
        pool: pool.to_owned(),
        command,
    }
}

/// Performs the action; returns a message for the user.
pub fn carry_out(action: &Action, asker: &Asker<'_>) -> Result<String, ControlError> {
    let request = Request::Change {
        change: action.change.clone(),
        command: action.command.clone(),
    };
    // A request that is not a change would leave no record in the history.
    assert_eq!(request.access(), Class::Change, "{}", action.command);
    match asker.ask(request, |_| {})? {
        Response::Failures { failures, .. } => match failures.into_iter().next() {
            Some((name, error)) => Ok(format!("{name}: {error}")),
            None => Ok(format!("Done: {}", action.command)),
        },
        _ => Ok(format!("Done: {}", action.command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_become_changes_with_their_commands() {
        let command = |body: &str| read(body).expect("an action").command;
        assert_eq!(command("pool=tank&action=scrub"), "zpool scrub tank");
        assert_eq!(command("pool=tank&action=pause"), "zpool scrub -p tank");
        assert_eq!(command("pool=tank&action=stop"), "zpool scrub -s tank");
        assert_eq!(command("pool=tank&action=clear"), "zpool clear tank");
        let body = "pool=tank&action=snapshot&dataset=tank%2Fa&snapshot=now&recursive=on";
        assert_eq!(command(body), "zfs snapshot -r tank/a@now");
    }

    #[test]
    fn what_is_no_action_is_refused() {
        for body in [
            "",
            "action=scrub",
            "pool=&action=scrub",
            "pool=tank&action=destroy",
            "pool=tank&action=snapshot&dataset=tank",
            "pool=tank&action=snapshot&dataset=other&snapshot=a",
            "pool=tank&action=snapshot&dataset=tank2%2Fa&snapshot=a",
            "pool=tank&action=snapshot&dataset=tank&snapshot=a%40b",
            "pool=tank&action=snapshot&dataset=tank%40x&snapshot=a",
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }
}
