//! Sizes, counts and durations as OpenZFS prints them.
//!
//! A size takes at most five characters, and tools parse what is printed, so the rule is kept to
//! the digit: whole multiples of a unit print as integers, everything else with as many decimals
//! (two at most) as fit.

/// Rounds a count or size: `512`, `1K`, `1.50K`, `931G`.
pub fn nicenum(number: u64) -> String {
    nice(number, "")
}

/// Rounds a size in bytes: `512B`, `1K`, `1.50K`, `931G`.
pub fn nicebytes(bytes: u64) -> String {
    nice(bytes, "B")
}

fn nice(number: u64, small_unit: &str) -> String {
    const LETTERS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut quotient = number;
    let mut index = 0;
    while quotient >= 1024 && index < LETTERS.len() - 1 {
        quotient /= 1024;
        index += 1;
    }
    if index == 0 {
        return format!("{number}{small_unit}");
    }
    let unit = 1u64 << (10 * index);
    let letter = LETTERS[index];
    if number.is_multiple_of(unit) {
        return format!("{quotient}{letter}");
    }
    let value = number as f64 / unit as f64;
    let mut text = String::new();
    for decimals in [2, 1, 0] {
        text = format!("{value:.decimals$}{letter}");
        if text.len() <= 5 {
            break;
        }
    }
    text
}

/// A number of things: `1 mount`, `2 mounts`.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A duration as scan lines show it: `00:01:01`, `2 days 00:01:01`.
pub fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 {
        format!("{days} days {clock}")
    } else {
        clock
    }
}
