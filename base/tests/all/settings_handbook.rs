//! The handbook's chapter on settings ends with what the table says, word for word.
//!
//! After a change of the table, `CENOTE_WRITE_HANDBOOK=1 cargo test -p cenote-base` writes it.

use cenote_base::settings::{self, SettingState, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEADING: &str = "## Settings that have an effect\n";

/// A number as people write it.
fn nice(number: u64, unit: Unit) -> String {
    let units = [
        (1 << 60, "E"),
        (1 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ];
    let fits = |(size, _): &&(u64, &str)| number >= *size && number.is_multiple_of(*size);
    match units.iter().find(fits) {
        Some((size, letter)) if unit == Unit::Bytes => format!("{}{letter}", number / size),
        _ => number.to_string(),
    }
}

fn chapter(states: &[SettingState]) -> String {
    let mut text =
        format!("{HEADING}\n| Name | Unit | Default | Range | Effect |\n|---|---|---|---|---|\n");
    let mut unused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for state in states {
        let Some([least, most]) = state.range else {
            unused.entry(state.effect).or_default().push(state.name);
            continue;
        };
        let unit = state.unit;
        let default = state.default.parse().expect("a number");
        let row = format!(
            "| `{}` | {} | {} | {} to {} | {} |",
            state.name,
            unit.name(),
            nice(default, unit),
            nice(least, unit),
            nice(most, unit),
            state.effect
        );
        writeln!(text, "{row}").expect("a string takes all");
    }
    text.push_str("\n## Names that are accepted and have no effect\n");
    for (reason, names) in unused {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        write!(text, "\n{reason}\n\n{}\n", names.join(", ")).expect("a string takes all");
    }
    text
}

#[test]
fn the_handbook_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations/settings.md");
    let text = std::fs::read_to_string(&path).expect("the chapter is there");
    let begin = text.find(HEADING).expect("the chapter has the heading");
    let expected = chapter(&settings::list());
    if std::env::var_os("CENOTE_WRITE_HANDBOOK").is_some() {
        let whole = format!("{}{expected}", &text[..begin]);
        std::fs::write(&path, whole).expect("the chapter can be written");
        return;
    }
    for (is, should) in text[begin..].lines().zip(expected.lines()) {
        assert_eq!(is, should, "see the head of this file");
    }
    assert_eq!(
        text[begin..].len(),
        expected.len(),
        "see the head of this file"
    );
}
