//! The texts below the usage of `zpool` and of its subcommands.

use cenote_control::model::properties::{POOL, PropertyInfo};

/// Below the list of all subcommands.
pub const BELOW_ALL: &str = "For further help on a command or topic, run: zpool help [<topic>]";

/// Below the synopsis of one subcommand.
pub fn below_one(name: &str) -> String {
    match name {
        "get" | "set" | "list" => property_table(),
        _ => String::new(),
    }
}

fn property_table() -> String {
    let mut text = String::from("\n\nthe following properties are supported:\n\n");
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
