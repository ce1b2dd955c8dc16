//! Which kinds of words a synopsis and a table of options expect.
//!
//! A second table would repeat what `<filesystem|volume|snapshot>` already says to the user.

use crate::command::{forms, verbs};
use crate::flag::Flag;
use crate::topic::Topic;
use cenote_control::model::{DatasetKind, KindSet};

/// A kind of word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// An imported pool.
    Pool,
    /// A dataset of these kinds.
    Dataset(KindSet),
    /// A dataset for which a new snapshot will be named.
    NewSnapshot,
    /// A property of the pool's vdevs or of the program, optionally with `=` and a value.
    Property {
        /// Whether it is a property of pools and vdevs.
        of_pool: bool,
        /// Whether a value follows.
        with_value: bool,
    },
    /// A device of the pool that was named.
    Device,
    /// The words that begin a vdev.
    VdevWord,
    /// A file or a device.
    File,
    /// A directory.
    Directory,
    /// The name of a setting.
    Setting {
        /// Whether a value follows.
        with_value: bool,
    },
    /// One of these words.
    Word(String),
}

/// A part of a synopsis: the kinds of its words, and whether it is optional or repeatable.
#[derive(Debug)]
struct Part {
    kinds: Vec<Operand>,
    is_optional: bool,
    is_repeated: bool,
}

/// The kinds of the operand after `count` others, from the synopsis of a subcommand.
pub fn of_synopsis(program: &str, topic: &Topic, count: usize) -> Vec<Operand> {
    let mut found = Vec::new();
    for synopsis in synopses(topic.synopsis) {
        let parts = parts(program, topic.name, &synopsis);
        for index in reached(&parts, count) {
            for kind in &parts[index].kinds {
                if !found.contains(kind) {
                    found.push(kind.clone());
                }
            }
        }
    }
    found
}

/// The synopses, each as its lines: a line that begins with a space continues the previous one.
fn synopses<'a>(lines: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut all: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        match all.last_mut() {
            Some(last) if line.starts_with(' ') => last.push(line),
            _ => all.push(vec![line]),
        }
    }
    all
}

/// The parts that may be at a position once all parts before it are filled.
fn reached(parts: &[Part], count: usize) -> Vec<usize> {
    let skipping = |from: usize| {
        let mut all = Vec::new();
        for (index, part) in parts.iter().enumerate().skip(from) {
            all.push(index);
            if !part.is_optional {
                break;
            }
        }
        all
    };
    let mut now = skipping(0);
    for _ in 0..count.min(parts.len() + 1) {
        let mut next = Vec::new();
        for index in now {
            if parts[index].is_repeated {
                next.push(index);
            }
            next.extend(skipping(index + 1));
        }
        next.sort_unstable();
        next.dedup();
        now = next;
    }
    now
}

/// Some brackets in OpenZFS's synopses are never closed, so each line is parsed by itself.
fn parts(program: &str, command: &str, synopsis: &[&str]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let lines = synopsis
        .iter()
        .map(|line| line.strip_prefix(command).unwrap_or(line));
    for text in lines.flat_map(groups) {
        if text.trim_start_matches('[').starts_with('-') {
            continue;
        }
        if text == "..." {
            if let Some(last) = parts.last_mut() {
                last.is_repeated = true;
            }
            continue;
        }
        parts.push(Part {
            kinds: kinds(program, command, &text),
            is_optional: text.starts_with('['),
            is_repeated: text.ends_with("...]"),
        });
    }
    parts
}

/// The words of a synopsis; text in brackets is one word.
fn groups(synopsis: &str) -> Vec<String> {
    let (mut all, mut word, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in synopsis.chars() {
        match c {
            '[' | '<' => depth += 1,
            ']' | '>' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                all.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

fn kinds(program: &str, command: &str, text: &str) -> Vec<Operand> {
    let has = |word: &str| text.contains(word);
    let of_pool = program == "zpool";
    if has("property") {
        let with_value = has("=");
        return vec![Operand::Property {
            of_pool,
            with_value,
        }];
    }
    // Finding pools to import would need a search of all devices.
    if command == "import" || has("newpool") || has("interval") || has("tag") {
        return Vec::new();
    }
    if !of_pool {
        return datasets(text);
    }
    let is_there = command == "set" || command == "iostat";
    match () {
        () if has("pool") => vec![Operand::Pool],
        () if has("new-device") => vec![Operand::File],
        () if has("device") || has("vdev") && is_there => vec![Operand::Device],
        () if command == "labelclear" => vec![Operand::File],
        () if has("vdev") => vec![Operand::VdevWord, Operand::File],
        () => Vec::new(),
    }
}

fn datasets(text: &str) -> Vec<Operand> {
    let mut found = Vec::new();
    if text.contains("@<snap>") && !text.contains('%') {
        return vec![Operand::NewSnapshot];
    }
    let table = [
        ("filesystem", DatasetKind::Filesystem),
        ("volume", DatasetKind::Volume),
        ("snap", DatasetKind::Snapshot),
        ("bookmark", DatasetKind::Bookmark),
    ];
    let mut kinds = KindSet::NONE;
    for (word, kind) in table {
        if text.contains(word) && !text.contains(&format!("new{word}")) {
            kinds = kinds.union(KindSet::of(kind));
        }
    }
    if kinds != KindSet::NONE {
        found.push(Operand::Dataset(kinds));
    }
    if text.contains("pool") {
        found.push(Operand::Pool);
    }
    if ["mountpoint", "directory", "path"]
        .iter()
        .any(|word| text.contains(word))
    {
        found.push(Operand::Directory);
    }
    if text.contains("file ") || text.contains("file>") || text.contains("|file") {
        found.push(Operand::File);
    }
    found
}

/// The kinds of the value of an option.
pub fn of_value(program: &str, command: &str, flag: &Flag) -> Vec<Operand> {
    let value = flag.value.unwrap_or_default();
    let of_pool = program == "zpool" && flag.short != Some('O');
    match value.trim_end_matches("[,...]") {
        "PROPERTY=VALUE" | "P=V" => vec![Operand::Property {
            of_pool,
            with_value: true,
        }],
        "PROPERTY" => vec![Operand::Property {
            of_pool,
            with_value: false,
        }],
        "DIRECTORY" | "ROOT" | "MOUNTPOINT" => vec![Operand::Directory],
        "SNAPSHOT" => vec![Operand::Dataset(
            KindSet::of(DatasetKind::Snapshot).union(KindSet::of(DatasetKind::Bookmark)),
        )],
        "DATASET" | "DATASETS" => vec![Operand::Dataset(KindSet::HEADS)],
        "FIELD" | "TYPE" | "SOURCE" | "ACTIVITY" => words_of_help(flag.help),
        words if words.contains('|') && words == words.to_lowercase() => words
            .split('|')
            .map(|word| Operand::Word(word.to_owned()))
            .collect(),
        _ if command == "mount" && flag.short == Some('o') => crate::suggest::MOUNT_OPTIONS
            .map(|word| Operand::Word(word.to_owned()))
            .to_vec(),
        _ => {
            let files = ["FILE", "PATH", "DEVICE", "LOCATION", "FROM", "CACHEFILE"];
            let is_file = files.iter().any(|word| value.contains(word));
            is_file.then_some(Operand::File).into_iter().collect()
        }
    }
}

/// The words that a help text lists after its last colon.
fn words_of_help(help: &str) -> Vec<Operand> {
    let Some((_, list)) = help.rsplit_once(':') else {
        return Vec::new();
    };
    let words = list.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty() && !word.contains(' '));
    words.map(|word| Operand::Word(word.to_owned())).collect()
}

/// The kinds of an operand of our own commands, whose synopses have kinds in capitals.
pub fn of_command(command: &str, synopsis: &'static str, operands: &[String]) -> Vec<Operand> {
    let forms = forms(command, synopsis);
    let verbs = verbs(&forms);
    let Some(first) = operands.first().filter(|_| !verbs.is_empty()) else {
        return match verbs.is_empty() {
            true => in_capitals(command, &forms),
            false => verbs.into_iter().map(Operand::Word).collect(),
        };
    };
    // 'status | sync | verify POOL|URL': the words after the last verb apply to all verbs.
    let with: Vec<&str> = match forms
        .iter()
        .position(|form| form.starts_with(first.as_str()))
    {
        Some(at) => {
            let rest = &forms[at..];
            let end = rest.iter().position(|form| form.contains(' ')).unwrap_or(0);
            vec![rest[end]]
        }
        None => forms,
    };
    in_capitals(command, &with)
}

fn in_capitals(command: &str, forms: &[&str]) -> Vec<Operand> {
    let text = forms.join(" ");
    let has = |word: &str| text.contains(word);
    let mut found = Vec::new();
    if command == "settings" {
        let with_value = has("=VALUE");
        return vec![Operand::Setting { with_value }];
    }
    let mut kinds = KindSet::NONE;
    if has("DATASET") || has("[/DATASET]") {
        kinds = kinds.union(KindSet::HEADS);
    }
    if has("VOLUME") {
        kinds = kinds.union(KindSet::of(DatasetKind::Volume));
    }
    if has("SNAPSHOT") {
        kinds = kinds.union(KindSet::of(DatasetKind::Snapshot));
    }
    if kinds != KindSet::NONE {
        found.push(Operand::Dataset(kinds));
    } else if has("POOL") {
        found.push(Operand::Pool);
    }
    match () {
        () if ["FILE", "DEVICE", "IMAGE", "TARGET", "FROM", "TO"]
            .iter()
            .any(|word| has(word)) =>
        {
            found.push(Operand::File);
        }
        () if has("DIRECTORY") => found.push(Operand::Directory),
        () => {}
    }
    found
}
