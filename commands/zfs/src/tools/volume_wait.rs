//! `zvol_wait`: waits until volumes are disks of this machine, with their links below `/dev/zvol`.
//!
//! The daemon makes these disks after an import. Volumes that ask for none are not waited for.

use cenote_control::model::{Request, Response, UblkAct, UblkStatus};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};
use std::path::Path;
use std::time::{Duration, Instant};

/// The command.
pub const COMMAND: Command = Command {
    name: "zvol-wait",
    summary: "Wait until volumes have their links below /dev/zvol",
    synopsis: "",
    about: "Volumes that are disks of this machine are waited for ('cenote ublk', the property\n\
            cenote:ublk), for a minute at most.",
    flags: flags! {},
    run: Run::Asking(run),
};

/// How long to wait.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(500);

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if !arguments.operands.is_empty() {
        return usage("too many arguments");
    }
    let until = Instant::now() + LIMIT;
    let mut is_told = false;
    loop {
        let status = match context.ask(Request::Ublk {
            act: UblkAct::Status,
        }) {
            Ok(Response::Ublk { status }) => status,
            Ok(_) => return failed(mismatch().to_string()),
            Err(error) => return failed(error.to_string()),
        };
        if let Some(reason) = status
            .unavailable
            .as_ref()
            .filter(|_| !status.failures.is_empty())
        {
            return failed(format!("there can be no disks: {reason}"));
        }
        let (count, missing) = missing(&status);
        match (count, missing.len()) {
            (0, _) => {
                context.line("No zvols found, nothing to do.");
                return Ok(0);
            }
            (_, 0) => {
                context.line("All zvol links are now present.");
                return Ok(0);
            }
            _ if Instant::now() >= until => {
                missing.iter().for_each(|line| context.complain(line));
                return failed("Timed out waiting on zvol links");
            }
            (count, _) if !is_told => {
                context.line(&format!("Testing {count} zvol links"));
                context.flush();
                is_told = true;
            }
            _ => {}
        }
        std::thread::sleep(POLL);
    }
}

/// How many volumes should have a link, and which of them have none, with the reason.
fn missing(status: &UblkStatus) -> (usize, Vec<String>) {
    let disks: Vec<_> = status
        .disks
        .iter()
        .filter(|disk| !disk.is_leaving)
        .collect();
    let mut missing = Vec::new();
    for disk in &disks {
        let is_there = disk
            .link
            .as_ref()
            .is_some_and(|link| Path::new(link).exists());
        if !is_there {
            missing.push(format!("{}: its link is not there", disk.dataset));
        }
    }
    let failures = status.failures.iter();
    missing.extend(failures.map(|failure| format!("{}: {}", failure.dataset, failure.reason)));
    (disks.len() + status.failures.len(), missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{UblkDisk, UblkFailure};

    #[test]
    fn disks_without_links_are_missing() {
        let disk = |dataset: &str, link: Option<&str>| UblkDisk {
            dataset: dataset.to_owned(),
            link: link.map(str::to_owned),
            ..UblkDisk::default()
        };
        let leaving = UblkDisk {
            is_leaving: true,
            ..disk("tank/d", None)
        };
        let failure = UblkFailure {
            dataset: "tank/e".to_owned(),
            reason: "no memory".to_owned(),
        };
        let status = UblkStatus {
            disks: vec![
                disk("tank/a", Some("/")),
                disk("tank/b", Some("/no/such/link")),
                disk("tank/c", None),
                leaving,
            ],
            failures: vec![failure],
            ..UblkStatus::default()
        };
        let (count, missing) = missing(&status);
        assert_eq!((count, missing.len()), (4, 3));
        assert_eq!(missing[2], "tank/e: no memory");
    }
}
