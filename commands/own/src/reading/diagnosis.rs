//! Messages about a pool that was not found or does not open.

use super::failure::Failure;
use cenote_pool::{ImportError, PoolCandidate};
use cenote_vdev::Scan;
use std::fmt::Write;
use std::path::PathBuf;

/// Further lines of one kind are counted, not listed.
const LINES_MAX: usize = 12;

/// The places that could not be searched, one line each.
pub fn failures(scan: &Scan) -> Vec<String> {
    scan.failures.iter().map(ToString::to_string).collect()
}

fn push_lines(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "\n  {title}:");
    for line in lines.iter().take(LINES_MAX) {
        let _ = write!(text, "\n    {line}");
    }
    if lines.len() > LINES_MAX {
        let _ = write!(text, "\n    and {} more", lines.len() - LINES_MAX);
    }
}

/// One line about a pool that was found.
fn pool_line(candidate: &PoolCandidate) -> String {
    format!(
        "{} (guid {}, {}, {} of its devices)",
        candidate.name(),
        candidate.guid,
        candidate.config.state.name().to_ascii_lowercase(),
        candidate.devices().len()
    )
}

/// No pool has the name.
pub fn no_pool(
    pool: &str,
    places: &[PathBuf],
    others: &[PoolCandidate],
    failures: &[String],
) -> Failure {
    let mut diagnosis = String::new();
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    push_lines(&mut diagnosis, "looked at", &places);
    let others: Vec<String> = others.iter().map(pool_line).collect();
    push_lines(&mut diagnosis, "other pools there", &others);
    push_lines(&mut diagnosis, "could not be looked at", failures);
    diagnosis.push_str("\n  name its devices, or the directories that they are in, with -d");
    Failure::NoPool {
        pool: pool.to_owned(),
        diagnosis,
    }
}

/// Several pools have the name.
pub fn ambiguous(pool: &str, candidates: &[PoolCandidate]) -> Failure {
    let named = candidates.iter().filter(|c| c.name() == pool);
    let lines: Vec<String> = named.map(pool_line).collect();
    let mut problem = "several pools have this name".to_owned();
    push_lines(&mut problem, "give the guid of one in its place", &lines);
    Failure::Absent {
        what: pool.to_owned(),
        problem,
    }
}

/// What is known about the devices of a pool that does not open, and suggestions.
pub fn import(candidate: &PoolCandidate, error: &ImportError, failures: &[String]) -> String {
    let mut text = String::new();
    let lines: Vec<String> = candidate
        .members
        .iter()
        .map(|member| {
            let healths = member.labels.labels.iter();
            let good = healths.clone().filter(|label| label.is_valid()).count();
            let bad: Vec<String> = healths
                .filter(|label| !label.is_valid())
                .map(|label| format!("label {} {}", label.index, label.health.describe()))
                .collect();
            let path = member.candidate.path.display();
            match bad.is_empty() {
                true => format!("{path}: all labels valid"),
                false => format!("{path}: {good} valid labels; {}", bad.join(", ")),
            }
        })
        .collect();
    push_lines(&mut text, "devices found", &lines);
    push_lines(&mut text, "could not be looked at", failures);
    let hint = match error {
        ImportError::MissingDevices { .. } => {
            "give the missing devices with further -d; without them nothing can be read"
        }
        ImportError::MissingLogs { .. } => {
            "-m opens the pool without them; writes that only they hold are lost"
        }
        ImportError::Metadata(_)
        | ImportError::Config(_)
        | ImportError::Dsl(_)
        | ImportError::NeededForWriting { .. } => {
            "an older state may still be whole: try -F (the last few txgs), then -X (any); \
             'cenote inspect uberblocks' lists them"
        }
        _ => return text,
    };
    let _ = write!(text, "\n  {hint}");
    text
}
