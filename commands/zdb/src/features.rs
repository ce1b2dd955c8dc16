//! How many things use each feature, against what the pool says.

use crate::print::Printer;
use crate::problem::Problem;
use cenote_dsl::{CheckProblem, check};
use cenote_ondisk::features::{FEATURE_VERSION, FEATURES};
use cenote_own_commands::reading::session::Session;
use std::collections::HashMap;

/// The features whose uses are counted, in OpenZFS's order.
const COUNTED: [&str; 18] = [
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "encryption",
    "project_quota",
    "redaction_bookmarks",
    "redacted_datasets",
    "bookmark_written",
    "livelist",
    "zstd_compress",
    "zilsaxattr",
    "blake3",
    "redaction_list_spill",
    "longname",
    "large_microzap",
];

/// Counts, and prints a line for each feature. Wrong figures of datasets are reported, too.
pub fn print(session: &Session, printer: &mut Printer) -> Result<(), Problem> {
    let dsl = session.pool().dsl();
    let mut wrong: HashMap<String, i128> = HashMap::new();
    let mut is_complete = true;
    for problem in check(dsl) {
        let guid = match &problem {
            CheckProblem::Mismatch {
                place, expected, ..
            } => Some((place, *expected)),
            CheckProblem::Unreadable { .. } => {
                is_complete = false;
                None
            }
        };
        let feature = guid.filter(|(place, _)| FEATURES.iter().any(|known| known.guid == *place));
        match feature {
            Some((guid, found)) => _ = wrong.insert(guid.clone(), found),
            None => printer.complain(&problem.to_string())?,
        }
    }
    if !is_complete || dsl.version() < FEATURE_VERSION {
        return Ok(());
    }
    let known = COUNTED.iter();
    for feature in known.filter_map(|name| FEATURES.iter().find(|known| known.name == *name)) {
        let (name, guid) = (feature.name, feature.guid);
        let Some(stored) = dsl.features().get(guid).map(|feature| feature.count) else {
            continue;
        };
        match wrong.get(guid) {
            None => printer.line(&format!(
                "Verified {name} feature refcount of {stored} is correct"
            ))?,
            Some(found) => {
                let problem = format!(
                    "{name} feature refcount mismatch: {found} consumers != {stored} refcount"
                );
                printer.complain(&problem)?;
            }
        }
    }
    Ok(())
}
