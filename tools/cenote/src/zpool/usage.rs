//! Usage texts of `zpool`.

use cenote_control::model::properties::{POOL, PropertyInfo};

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

/// All subcommands.
fn text() -> String {
    let mut text =
        String::from("usage: zpool command args ...\nwhere 'command' is one of the following:\n\n");
    for group in GROUPS {
        for line in group.iter().flat_map(|(_, lines)| lines.iter()) {
            text.push_str(&format!("\t{line}\n"));
        }
        text.push('\n');
    }
    text.push_str("For further help on a command or topic, run: zpool help [<topic>]");
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

/// `zpool help [TOPIC]`.
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
    let mut text = String::from("usage:");
    for line in lines {
        text.push_str(&format!("\n\t{line}"));
    }
    if matches!(name, "get" | "set" | "list") {
        text.push_str("\n\n");
        text.push_str(&property_table());
    }
    text
}

fn property_table() -> String {
    let mut text = String::from("the following properties are supported:\n\n");
    text.push_str("\tPROPERTY             EDIT   VALUES\n\n");
    let mut shown: Vec<&PropertyInfo> = POOL.iter().filter(|p| !p.values.is_empty()).collect();
    shown.sort_by_key(|info| (info.editable, info.name));
    for info in shown {
        let edit = if info.editable { "YES" } else { " NO" };
        text.push_str(&format!("\t{:<20}  {edit}   {}\n", info.name, info.values));
    }
    text.push_str("\tfeature@...           YES   disabled | enabled | active\n\n");
    text.push_str("The feature@ properties must be appended with a feature name.\n");
    text.push_str("See zpool-features(7).");
    text
}
