//! Usage texts of `zfs`.

use cenote_control::model::properties::{ACCOUNTING, DATASET, PropertyInfo};

use super::synopsis::GROUPS;
use crate::context::Context;

/// Whether there is such a subcommand.
pub fn is_subcommand(name: &str) -> bool {
    lines_of(name).is_some()
}

fn lines_of(name: &str) -> Option<&'static [&'static str]> {
    let mut all = GROUPS.iter().flat_map(|group| group.iter());
    all.find(|(command, _)| *command == name)
        .map(|(_, lines)| *lines)
}

const TOPICS: &str = "\nFor the property list, run: zfs set|get\n\
                      \nFor the delegated permission list, run: zfs allow|unallow\n\
                      \nFor further help on a command or topic, run: zfs help [<topic>]";

/// All subcommands.
fn text() -> String {
    let mut text =
        String::from("usage: zfs command args ...\nwhere 'command' is one of the following:\n\n");
    for group in GROUPS {
        for line in group.iter().flat_map(|(_, lines)| lines.iter()) {
            text.push_str(&format!("\t{line}\n"));
        }
        text.push('\n');
    }
    text.push_str("Each dataset is of the form: pool/[dataset/]*dataset[@name]\n");
    text.push_str(TOPICS);
    text
}

/// Help was asked for: standard output, 0.
pub fn overview(context: &mut Context) -> u8 {
    context.line(&text());
    0
}

/// The command line is wrong: standard error.
pub fn overview_on_error(context: &mut Context) {
    context.complain(&text());
}

/// `zfs help [TOPIC]`.
pub fn help(topics: &[String], context: &mut Context) -> u8 {
    let Some(topic) = topics.first() else {
        return overview(context);
    };
    let Some(lines) = lines_of(topic) else {
        context.complain(&format!("no help on '{topic}'"));
        return 1;
    };
    context.line(&subcommand_text(topic, lines));
    0
}

/// The usage of one subcommand, on standard error.
pub fn subcommand(name: &str, context: &mut Context) {
    if let Some(lines) = lines_of(name) {
        context.complain(&subcommand_text(name, lines));
    }
}

fn subcommand_text(name: &str, lines: &[&str]) -> String {
    let mut text = String::from("usage:\n");
    for line in lines {
        text.push_str(&format!("\t{line}\n"));
    }
    if matches!(name, "get" | "set" | "list" | "inherit") {
        text.push_str(&property_table());
    } else {
        text.push_str(TOPICS);
    }
    text
}

fn property_table() -> String {
    let mut text = String::from("\nThe following properties are supported:\n\n");
    text.push_str("\tPROPERTY              EDIT  INHERIT   VALUES\n\n");
    let mut shown: Vec<&PropertyInfo> = DATASET.iter().filter(|p| !p.values.is_empty()).collect();
    // What can be set or only at creation comes after what can only be read.
    shown.sort_by_key(|info| (stored(info), info.name));
    let word = |yes| if yes { "YES" } else { " NO" };
    for info in shown {
        let (edit, inherits) = (word(info.editable), word(info.inherits));
        text.push_str(&format!(
            "\t{:<20}   {edit}      {inherits}   {}\n",
            info.name, info.values
        ));
    }
    for prefix in ACCOUNTING {
        let (edit, values) = match prefix.contains("quota") {
            true => ("YES", "<size> | none"),
            false => (" NO", "<size>"),
        };
        let name = format!("{prefix}...");
        text.push_str(&format!("\t{name:<20}   {edit}       NO   {values}\n"));
    }
    for name in ["written@<snap>", "written#<bookmark>"] {
        text.push_str(&format!("\t{name:<20}    NO       NO   <size>\n"));
    }
    text.push_str(NOTES);
    text
}

/// Whether the property is kept in the dataset rather than computed.
fn stored(info: &PropertyInfo) -> bool {
    info.editable || info.inherits || matches!(info.name, "keyformat" | "pbkdf2iters")
}

const NOTES: &str = "\n\
Sizes are specified in bytes with standard units such as K, M, G, etc.\n\
\n\
User-defined properties can be specified by using a name containing a colon (:).\n\
\n\
The {user|group|project}[obj]{used|quota}@ properties must be appended with\n\
a user|group|project specifier of one of these forms:\n    \
    POSIX name      (eg: \"matt\")\n    \
    POSIX id        (eg: \"126829\")\n    \
    SMB name@domain (eg: \"matt@sun\")\n    \
    SMB SID         (eg: \"S-1-234-567-89\")";
