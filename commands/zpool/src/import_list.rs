//! The listing of importable pools by `zpool import`.

use cenote_control::model::{ImportCandidate, ImportCondition, PoolHealth, VdevKind, VdevNaming};

use super::status_texts::{article, import, paragraph};
use cenote_words::texts::diagnosis_line;
use cenote_words::vdev_rows::{Row, Section, aux_words, rows, shown_in_status, state_word};

/// The minimum width of the name column.
const NAME_WIDTH_MIN: usize = 10;

/// The sections below the normal vdevs: unlike in a status, devices without data come first.
const SECTIONS: [Section; 5] = [
    Section::Cache,
    Section::Spares,
    Section::Dedup,
    Section::Special,
    Section::Logs,
];

const IMPORTABLE: &str = "The pool can be imported using its name or numeric identifier.";
const DEGRADED: &str = "The pool can be imported despite missing or damaged devices.  The\n\
     fault tolerance of the pool may be compromised if imported.";
const DESTROYED: &str = "The pool was destroyed, but can be imported using the '-Df' flags.";
const DESTROYED_DAMAGED: &str =
    "The pool was destroyed and cannot be imported due to damaged devices\nor data.";

/// One pool.
pub fn candidate_text(candidate: &ImportCandidate, naming: VdevNaming) -> String {
    // `comment` is the longest label; with it all labels are indented by one more.
    let indent = if candidate.comment.is_some() { " " } else { "" };
    let destroyed = if candidate.destroyed {
        " (DESTROYED)"
    } else {
        ""
    };
    let mut text = format!(
        "{indent}  pool: {}\n{indent}    id: {}\n{indent} state: {}{destroyed}\n",
        candidate.name,
        candidate.guid,
        candidate.health.word()
    );
    let usable = matches!(candidate.health, PoolHealth::Online | PoolHealth::Degraded);
    let mut id = None;
    let mut action = IMPORTABLE.to_owned();
    if let Some(condition) = &candidate.condition {
        let (status, own_action, message_id) = import(condition, usable);
        text.push_str(&paragraph(&format!("{indent}status: "), &status));
        (action, id) = (own_action, message_id);
        if *condition == ImportCondition::ActiveElsewhere {
            let host = candidate.hostname.as_deref().unwrap_or("another system");
            let hostid = candidate.hostid.unwrap_or_default();
            action = format!(
                "The pool must be exported from {host} (hostid={hostid:x})\n\
                 before it can be safely imported."
            );
        }
    }
    if candidate.destroyed {
        let text = if usable { DESTROYED } else { DESTROYED_DAMAGED };
        action = text.to_owned();
    } else if candidate.health == PoolHealth::Degraded && action == IMPORTABLE {
        action = DEGRADED.to_owned();
    }
    text.push_str(&paragraph(&format!("{indent}action: "), &action));
    if let Some(comment) = &candidate.comment {
        text.push_str(&format!("comment: {comment}\n"));
    }
    if let Some(id) = id {
        text.push_str(&format!("{indent}   see: {}\n", article(id)));
    }
    text.push_str(&format!("{indent}config:\n\n"));
    text.push_str(&config(candidate, naming));
    if candidate.condition == Some(ImportCondition::BadGuidSum) {
        text.push_str(
            "\n\tAdditional devices are known to be part of this pool, though their\n\
             \texact configuration cannot be determined.\n",
        );
    }
    if !candidate.diagnoses.is_empty() {
        text.push('\n');
        for diagnosis in &candidate.diagnoses {
            text.push_str(&format!("\t{}\n", diagnosis_line(diagnosis)));
        }
    }
    text
}

fn config(candidate: &ImportCandidate, naming: VdevNaming) -> String {
    let tree = &candidate.vdevs;
    let root = Row {
        vdev: &tree.root,
        name: candidate.name.clone(),
        depth: 0,
    };
    let mut width = NAME_WIDTH_MIN.max(root.width());
    for section in std::iter::once(Section::Normal).chain(Section::CLASSES) {
        let rows = rows(section, tree, naming);
        width = rows.iter().map(Row::width).fold(width, usize::max);
    }
    let mut text = format!("\t{}  {}", root.padded(width), candidate.health.word());
    push_aux(&mut text, &root);
    push_section(&mut text, candidate, Section::Normal, width, naming);
    for section in SECTIONS {
        if section.vdevs(tree).is_empty() {
            continue;
        }
        let named_only = matches!(section, Section::Cache | Section::Spares);
        let tab = if named_only { "" } else { "\t" };
        text.push_str(&format!("\t{}{tab}\n", section.header()));
        if named_only {
            for vdev in section.vdevs(tree) {
                text.push_str(&format!("\t  {}\n", vdev.name(naming)));
            }
        } else {
            push_section(&mut text, candidate, section, width, naming);
        }
    }
    text
}

fn push_section(
    text: &mut String,
    candidate: &ImportCandidate,
    section: Section,
    width: usize,
    naming: VdevNaming,
) {
    for row in rows(section, &candidate.vdevs, naming) {
        if shown_in_status(&row) && row.vdev.kind != VdevKind::Missing {
            text.push_str(&format!(
                "\t{}  {}",
                row.padded(width),
                state_word(row.vdev)
            ));
            push_aux(text, &row);
        }
    }
}

fn push_aux(text: &mut String, row: &Row<'_>) {
    if let (true, Some(path)) = (row.vdev.not_present, &row.vdev.path) {
        text.push_str(&format!("  was {path}"));
    } else if let Some(words) = aux_words(row.vdev) {
        text.push_str(&format!("  {words}"));
    }
    text.push('\n');
}
