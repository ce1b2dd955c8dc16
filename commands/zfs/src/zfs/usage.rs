//! The texts below the usage of `zfs` and of its subcommands.

use cenote_control::model::is_delegable;
use cenote_control::model::properties::{ACCOUNTING, DATASET, PropertyInfo};
use cenote_delegation::{Form, PERMISSIONS};

const TOPICS: &str = "\n\nFor the property list, run: zfs set|get\n\
                      \nFor the delegated permission list, run: zfs allow|unallow\n\
                      \nFor further help on a command or topic, run: zfs help [<topic>]";

/// Below the list of all subcommands.
pub const BELOW_ALL: &str = "Each dataset is of the form: pool/[dataset/]*dataset[@name]\n\n\
                             For the property list, run: zfs set|get\n\
                             \nFor the delegated permission list, run: zfs allow|unallow\n\
                             \nFor further help on a command or topic, run: zfs help [<topic>]";

/// Below the synopsis of one subcommand.
pub fn below_one(name: &str) -> String {
    match name {
        "get" | "set" | "list" | "inherit" => property_table(),
        "allow" | "unallow" => permission_table(),
        _ => TOPICS.to_owned(),
    }
}

fn property_table() -> String {
    let mut text = String::from("\n\nThe following properties are supported:\n\n");
    text.push_str("\tPROPERTY              EDIT  INHERIT   VALUES\n\n");
    let mut shown: Vec<&PropertyInfo> = DATASET.iter().filter(|p| !p.values.is_empty()).collect();
    // Read-only properties come first, then those that can be set now or at creation.
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

fn permission_table() -> String {
    let mut text = String::from("\n\nThe following permissions are supported:\n\n");
    let mut row = |name: &str, form: &str, note: &str| {
        text.push_str(&format!("{name:<16} {form:<14}\t{note}\n"));
    };
    row("NAME", "TYPE", "NOTES");
    for permission in &PERMISSIONS {
        let form = match permission.form {
            Form::Subcommand => "subcommand",
            Form::Other => "other",
        };
        row(permission.name, form, permission.note);
    }
    let shown = DATASET.iter().filter(|info| !info.values.is_empty());
    let shown = shown.filter(|info| is_delegable(info));
    let mut properties: Vec<&str> = shown.map(|info| info.name).collect();
    properties.sort_unstable();
    for name in properties {
        row(name, "property", "");
    }
    text.trim_end_matches('\n').to_owned()
}

/// Whether the property is stored in the dataset, not computed.
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
