//! The pages about commands.

use super::examples;
use super::page::Page;
use super::roff::Roff;
use crate::command::{Command, POOL_FLAGS, Run, Table};
use crate::flag::{Flag, HELP};
use crate::program::Program;
use crate::topic::Topic;

const SECTION: u8 = 8;

const EXIT_OF_PROGRAMS: [(&str, &str); 3] = [
    ("0", "Success."),
    (
        "1",
        "Something failed. Standard error says what, and what to do.",
    ),
    ("2", "The command line is wrong. Nothing was done."),
];

const ENVIRONMENT: [(&str, &str); 6] = [
    (
        "CENOTE_SOCKET",
        "The socket of the daemon. The default is /run/cenote.sock for root and \
         $XDG_RUNTIME_DIR/cenote.sock for others.",
    ),
    (
        "CENOTE_STATE",
        "The directory for state, log and cache file of the daemon.",
    ),
    (
        "CENOTE_SETTINGS",
        "Files with settings, separated by colons, that a daemon reads when it starts.",
    ),
    (
        "CENOTE_ALARMS",
        "The file that says how the daemon sends alarms.",
    ),
    (
        "CENOTE_ZEDLETS",
        "The directory of programs that the daemon runs for events; empty: none.",
    ),
    (
        "CENOTE_DEVICES",
        "Devices, files and directories, separated by colons, in which commands that open a pool \
         look for it.",
    ),
];

/// OpenZFS's names of our commands, which links to the binary have.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("arcstat", "arcstat"),
    ("zarcstat", "arcstat"),
    ("arc_summary", "arc-summary"),
    ("zarcsummary", "arc-summary"),
    ("zgenhostid", "zgenhostid"),
    ("zilstat", "zilstat"),
    ("zvol_wait", "zvol-wait"),
    ("zfs_ids_to_path", "ids-to-path"),
];

/// How an option is written in the heading of its entry.
fn spelling(flag: &Flag) -> String {
    let mut words = Vec::new();
    words.extend(flag.short.map(|letter| format!("-{letter}")));
    if !flag.long.is_empty() {
        words.push(format!("--{}", flag.long));
    }
    let value = flag.value.map(|value| format!(" {value}"));
    format!("{}{}", words.join(", "), value.unwrap_or_default())
}

/// A section with an entry for each option.
pub fn options<'a>(roff: &mut Roff, title: &str, flags: impl IntoIterator<Item = &'a Flag>) {
    let shown = flags.into_iter().filter(|flag| !flag.help.is_empty());
    let shown: Vec<&Flag> = shown.collect();
    if shown.is_empty() {
        return;
    }
    roff.section(title);
    for flag in shown {
        roff.entry(&spelling(flag), &sentence(flag.help));
    }
}

/// A help text as a sentence: with a capital unless it begins with a name, and with a full stop.
fn sentence(text: &str) -> String {
    let mut text = text.to_owned();
    let word = text.split([' ', ':']).next().unwrap_or_default();
    let is_word = word.chars().all(|c| c.is_ascii_lowercase()) && !word.is_empty();
    if is_word {
        text[..1].make_ascii_uppercase();
    }
    if !text.ends_with(['.', ')', ':']) {
        text.push('.');
    }
    text
}

/// The exit codes of a command, and what they mean.
pub fn exit_status(roff: &mut Roff, codes: &[(&str, &str)]) {
    roff.section("EXIT STATUS");
    for (code, text) in codes {
        roff.entry(code, text);
    }
}

/// The pages of all programs, their subcommands under all names, and the small programs.
pub fn of_programs(table: &Table) -> Vec<Page> {
    let mut pages = Vec::new();
    for program in table.programs {
        pages.push(of_program(program));
        for topic in program.topics() {
            pages.push(of_topic(program, topic));
        }
        for (alias, name) in program.aliases {
            pages.push(alias_of(
                &format!("{}-{alias}", program.name),
                &format!("{}-{name}", program.name),
                SECTION,
            ));
        }
    }
    for other in table.others {
        pages.push((other.page)());
        if !other.alias.is_empty() {
            pages.push(alias_of(other.alias, other.name, SECTION));
        }
    }
    pages
}

/// A page that refers to another page of its section.
fn alias_of(alias: &str, name: &str, section: u8) -> Page {
    Page {
        name: alias.to_owned(),
        section,
        text: format!(".so man{section}/{name}.{section}\n"),
    }
}

fn of_program(program: &Program) -> Page {
    let mut roff = Roff::new(program.name, SECTION, program.summary);
    roff.section("SYNOPSIS");
    roff.lines([
        format!("{} COMMAND [OPTION]... [OPERAND]...", program.name).as_str(),
        format!("{} help [COMMAND]", program.name).as_str(),
        format!("{} --version", program.name).as_str(),
    ]);
    roff.section("DESCRIPTION");
    roff.prose(program.about);
    roff.section("COMMANDS");
    for topic in program.topics() {
        let missing = match (program.is_missing)(topic.name) {
            true => " Not available in this version.",
            false => "",
        };
        let text = format!("{}.{missing}", topic.summary);
        roff.entry(&format!("{} {}", program.name, topic.name), &text);
    }
    exit_status(&mut roff, &EXIT_OF_PROGRAMS);
    examples::section(&mut roff, program.name);
    let page = |topic: &Topic| (format!("{}-{}", program.name, topic.name), SECTION);
    let mut pages: Vec<(String, u8)> = program.topics().map(page).collect();
    pages.push(("cenote".to_owned(), 1));
    roff.see_also(&pages);
    Page {
        name: program.name.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}

fn of_topic(program: &Program, topic: &Topic) -> Page {
    let name = format!("{}-{}", program.name, topic.name);
    let mut roff = Roff::new(&name, SECTION, &lowered(topic.summary));
    roff.section("SYNOPSIS");
    let lines: Vec<String> = topic
        .synopsis
        .iter()
        .map(|line| match line.strip_prefix(topic.name) {
            Some(rest) => format!("{} {}{rest}", program.name, topic.name),
            None => (*line).to_owned(),
        })
        .collect();
    roff.lines(lines.iter().map(String::as_str));
    roff.section("DESCRIPTION");
    roff.prose(&format!("{}.", topic.summary));
    if !topic.about.is_empty() {
        roff.prose(&format!("\n{}", topic.about));
    }
    if (program.is_missing)(topic.name) {
        roff.prose("\nThis command is not available in this version.");
    }
    options(&mut roff, "OPTIONS", topic.flags);
    exit_status(&mut roff, &EXIT_OF_PROGRAMS);
    examples::section(&mut roff, &name);
    let mut pages = vec![(program.name.to_owned(), SECTION)];
    pages.extend(
        properties_of(program.name)
            .iter()
            .map(|name| ((*name).to_owned(), 7)),
    );
    roff.see_also(&pages);
    Page {
        name,
        section: SECTION,
        text: roff.finish(),
    }
}

/// The pages about a program's properties.
fn properties_of(program: &str) -> &'static [&'static str] {
    match program {
        "zpool" => &["zpoolprops", "vdevprops", "zpool-features"],
        _ => &["zfsprops"],
    }
}

/// A summary in the form of the NAME section: it begins with a small letter.
fn lowered(summary: &str) -> String {
    let mut summary = summary.to_owned();
    if summary.is_char_boundary(1) {
        summary[..1].make_ascii_lowercase();
    }
    summary
}

/// `cenote` and its commands.
pub fn of_cenote(commands: &[&'static Command]) -> Vec<Page> {
    let mut pages = vec![overview(commands)];
    pages.extend(commands.iter().map(|command| of_command(command)));
    for (alias, name) in OTHER_NAMES {
        if commands.iter().any(|command| command.name == name) {
            pages.push(alias_of(alias, &format!("cenote-{name}"), 1));
        }
    }
    pages
}

fn overview(commands: &[&'static Command]) -> Page {
    let mut roff = Roff::new("cenote", 1, "ZFS pools in user space");
    roff.section("SYNOPSIS");
    roff.lines([
        "cenote COMMAND [OPTION]... [OPERAND]...",
        "cenote zpool|zfs|zstream ...",
        "cenote help [COMMAND]",
    ]);
    roff.section("DESCRIPTION");
    roff.prose(
        "Cenote opens OpenZFS pools without a kernel module and mounts their file systems with\n\
         FUSE. A daemon keeps pools imported. Commands start it when they need it.\n\
         Called as zpool, zfs, zstream or mount.zfs the program has the command lines of OpenZFS.\n\
         \n\
         Files in a pool are named POOL/DATASET[@SNAPSHOT]:/PATH.",
    );
    roff.section("COMMANDS");
    for command in commands {
        let summary = format!("{}.", command.summary);
        roff.entry(&format!("cenote {}", command.name), &summary);
    }
    roff.section("ENVIRONMENT");
    for (name, text) in ENVIRONMENT {
        roff.entry(name, text);
    }
    examples::section(&mut roff, "cenote");
    let page = |command: &&Command| (format!("cenote-{}", command.name), 1);
    let mut pages: Vec<(String, u8)> = commands.iter().map(page).collect();
    pages.extend([("zpool".to_owned(), 8), ("zfs".to_owned(), 8)]);
    roff.see_also(&pages);
    Page {
        name: "cenote".to_owned(),
        section: 1,
        text: roff.finish(),
    }
}

fn of_command(command: &Command) -> Page {
    let name = format!("cenote-{}", command.name);
    let mut roff = Roff::new(&name, 1, &lowered(command.summary));
    roff.section("SYNOPSIS");
    let mut lines = Vec::new();
    for line in command.synopsis.lines() {
        let line = line.trim();
        let lead = format!("cenote {}", command.name);
        lines.push(match line.starts_with(&lead) {
            true => line.to_owned(),
            false => format!("{lead} {line}"),
        });
    }
    roff.lines(lines.iter().map(String::as_str));
    roff.section("DESCRIPTION");
    roff.prose(&format!("{}.", command.summary));
    if !command.about.is_empty() {
        roff.prose(&format!("\n{}", command.about));
    }
    options(&mut roff, "OPTIONS", command.flags.iter().chain([&HELP]));
    if let Run::Reading(_) = command.run {
        options(&mut roff, "FINDING AND OPENING THE POOL", POOL_FLAGS);
    }
    if let Run::Reading(_) | Run::Alone(_) = command.run {
        exit_status(&mut roff, &crate::command::EXIT_CODES);
    }
    examples::section(&mut roff, &name);
    roff.see_also(&[("cenote".to_owned(), 1)]);
    Page {
        name,
        section: 1,
        text: roff.finish(),
    }
}
