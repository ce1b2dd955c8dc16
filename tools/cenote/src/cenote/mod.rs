//! `cenote`: our own commands.
//!
//! Each command is one file with a [`Command`]: its name, its options and what it does. Its help is
//! generated from that. The crates `own` and `watch` have most commands, grouped by subject. Here
//! are those about the program itself, and the table of all.

mod compatibility;
#[cfg(test)]
mod completion_tests;
mod install_links;
#[cfg(test)]
mod manual_tests;
mod version;

use std::ffi::OsString;

use cenote_daemon::{self as daemon, alarms};
use cenote_own_commands::{
    clouds, devices, files, http, mounts, nbd, pools, snapshots, streams, ublk, volumes, zstream,
};
use cenote_watch::{arc_summary, arcstat, command as metrics, health, kstat, top, zilstat};
use cenote_words::command::{Arguments, Command, Run, Table, forms, verbs};
use cenote_words::context::{Context, Outcome, Stop};
use cenote_words::texts::question;
use cenote_words::{completion, help, manual};
use cenote_zfs_commands::tools::{host_id, ids_to_path, volume_wait};
use cenote_zfs_commands::{mount_helper, zfs};
use cenote_zpool_commands as zpool;

/// The commands, in the order of the overview: those that ask the daemon, those that open a pool,
/// those that open files, those about the program itself.
const COMMANDS: [&Command; 43] = [
    &mounts::mount::COMMAND,
    &mounts::unmount::COMMAND,
    &snapshots::space::COMMAND,
    &streams::send::COMMAND,
    &streams::receive::COMMAND,
    &daemon::COMMAND,
    &clouds::COMMAND,
    &devices::COMMAND,
    &nbd::COMMAND,
    &ublk::COMMAND,
    &http::COMMAND,
    &volumes::VOLUME,
    &volumes::VOLUMES,
    &daemon::settings::COMMAND,
    &health::COMMAND,
    &pools::approve::COMMAND,
    &alarms::command::COMMAND,
    &top::COMMAND,
    &metrics::COMMAND,
    &kstat::COMMAND,
    &arcstat::COMMAND,
    &arc_summary::COMMAND,
    &zilstat::COMMAND,
    &ids_to_path::COMMAND,
    &volume_wait::COMMAND,
    &files::ls::COMMAND,
    &files::tree::COMMAND,
    &files::cat::COMMAND,
    &files::cp::COMMAND,
    &files::stat::COMMAND,
    &files::find::COMMAND,
    &files::du::COMMAND,
    &files::manifest::COMMAND,
    &files::dump::COMMAND,
    &pools::verify::COMMAND,
    &pools::inspect::COMMAND,
    &streams::examine::COMMAND,
    &host_id::COMMAND,
    &install_links::COMMAND,
    &compatibility::COMMAND,
    &manual::COMMAND,
    &completion::COMMAND,
    &version::COMMAND,
];

/// The commands, and all other names of the program.
const TABLE: Table = Table {
    own: &COMMANDS,
    programs: &[&zpool::PROGRAM, &zfs::PROGRAM],
    others: &[
        &zstream::OTHER,
        &cenote_zed::OTHER,
        &cenote_zinject::OTHER,
        &cenote_zdb::OTHER,
        &mount_helper::OTHER,
    ],
};

fn find_command(name: &str) -> Option<&'static Command> {
    COMMANDS.into_iter().find(|command| command.name == name)
}

/// Prints the help of a command, if its arguments ask for it. `-h` does, unless it is an option of
/// the command.
fn help_wanted(words: &[OsString], context: &mut Context) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    let Some(command) = name.to_str().and_then(find_command) else {
        return false;
    };
    let asks = |word: &OsString| match word.to_str() {
        Some("--help" | "-?") => true,
        Some("-h") => !command.flags.iter().any(|flag| flag.is("-h")),
        _ => false,
    };
    let is_wanted = rest.iter().take_while(|word| *word != "--").any(asks);
    if is_wanted {
        context.print(&help::text(command));
    }
    is_wanted
}

/// Runs `cenote` with its arguments (the program's own name left out).
pub fn run(mut arguments: Vec<OsString>, context: &mut Context) -> u8 {
    if help_wanted(&arguments, context) {
        return 0;
    }
    let Some(first) = arguments
        .first()
        .map(|word| word.to_string_lossy().into_owned())
    else {
        context.complain(&overview());
        return 2;
    };
    arguments.remove(0);
    match first.as_str() {
        "help" | "--help" | "-h" | "-?" => return help(&arguments, context),
        "--version" | "-V" => return version::print(context),
        // Not for users: shell completion calls it.
        completion::WORD => return completion::complete(&TABLE, &arguments, context),
        _ => {}
    }
    let Some(command) = find_command(&first) else {
        complain_of_command(&first, context);
        context.complain("Run 'cenote help' for a list.");
        return 2;
    };
    match command.run {
        Run::Asking(run) => ask(command, &run, &arguments, context),
        Run::Describing(run) => {
            let run = |words: &Arguments, context: &mut Context| run(&TABLE, words, context);
            ask(command, &run, &arguments, context)
        }
        Run::Reading(run) | Run::Alone(run) => run(arguments).code(),
    }
}

/// Runs a command that asks the daemon.
fn ask(
    command: &Command,
    run: &dyn Fn(&Arguments, &mut Context) -> Outcome,
    words: &[OsString],
    context: &mut Context,
) -> u8 {
    let name = command.name;
    let parsed = match Arguments::parse(command.flags, words) {
        Ok(parsed) => parsed,
        Err(error) => {
            context.complain(&format!("cenote {name}: {error}"));
            context.complain(&format!("Run 'cenote help {name}' for its options."));
            return 2;
        }
    };
    if parsed.has("help") {
        context.print(&help::text(command));
        return 0;
    }
    let ended = run(&parsed, context);
    drop(parsed);
    context.tell_of_unread(&ended);
    match ended {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Failed(message)) => {
            context.complain(&format!("cenote {name}: {message}"));
            1
        }
        Err(Stop::Usage(message)) => {
            let first = words
                .iter()
                .find(|word| !word.as_encoded_bytes().starts_with(b"-"));
            match first.map(|word| word.to_string_lossy()) {
                Some(word) if message.is_empty() => complain_of_verb(command, &word, context),
                _ if message.is_empty() => {}
                _ => context.complain(&format!("cenote {name}: {message}")),
            }
            context.complain(&format!("usage: cenote {name} {}", command.synopsis));
            2
        }
    }
}

/// Reports an unknown subcommand and suggests a similar one, if that is the error.
fn complain_of_verb(command: &Command, word: &str, context: &mut Context) {
    let verbs = verbs(&forms(command.name, command.synopsis));
    if verbs.is_empty() || verbs.iter().any(|verb| verb == word) {
        return;
    }
    let (name, question) = (
        command.name,
        question(word, verbs.iter().map(String::as_str)),
    );
    context.complain(&format!("cenote {name}: there is no '{word}'{question}"));
}

/// Reports an unknown command and suggests a similar one.
fn complain_of_command(name: &str, context: &mut Context) {
    let own = COMMANDS.iter().map(|command| command.name);
    let others = ["help", "zpool", "zfs", "zstream", "zdb", "zed", "zinject"];
    let mut programs = TABLE.programs.iter();
    let elsewhere = programs.find(|program| program.topic(name).is_some());
    let question = match elsewhere {
        Some(program) => Some(format!("did you mean '{} {name}'?", program.name)),
        None => cenote_base::did_you_mean(name, own.chain(others)),
    };
    context.complain(&format!("cenote: there is no command '{name}'"));
    if let Some(question) = question {
        context.complain(&question);
    }
}

fn help(topics: &[OsString], context: &mut Context) -> u8 {
    let Some(topic) = topics.first() else {
        context.line(&overview());
        return 0;
    };
    let topic = topic.to_string_lossy();
    match find_command(&topic) {
        Some(command) => {
            context.print(&help::text(command));
            0
        }
        None => {
            complain_of_command(&topic, context);
            2
        }
    }
}

fn overview() -> String {
    let mut text = String::from(
        "Cenote opens OpenZFS pools without a kernel module.\n\
         \n\
         usage: cenote COMMAND [OPTION]... [ARGUMENT]...\n\
         \x20      cenote zpool|zfs|zstream|zdb|zed|zinject ...    the command lines of OpenZFS\n\
         \n",
    );
    let widths = COMMANDS.iter().map(|command| command.name.len());
    let width = widths.max().unwrap_or(0);
    for Command { name, summary, .. } in COMMANDS {
        text.push_str(&format!("  {name:<width$}  {summary}\n"));
    }
    text.push_str(
        "\nFiles are named POOL/DATASET[@SNAPSHOT]:/PATH.\n\
         Run 'cenote help COMMAND' for more.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{Part, Request, Response};
    use cenote_control::protocol::{CallError, Interrupt};
    use cenote_words::command::POOL_FLAGS;
    use cenote_words::command::{Flag, HELP};
    use cenote_words::context::Daemon;
    use cenote_words::testing::faults_of_synopsis;
    use std::path::Path;

    #[test]
    fn every_command_explains_itself() {
        for command in COMMANDS {
            let (name, text) = (command.name, help::text(command));
            assert!(text.starts_with(&format!("usage: cenote {name} ")));
            assert!(text.contains("--help") && text.contains(command.summary));
            assert!(overview().contains(command.summary));
            let reads = matches!(command.run, Run::Reading(_));
            assert_eq!(text.contains("--extreme-rewind"), reads, "{name}");
            assert!(!text.contains("--max-depth "), "{text}");
            let is_narrow = |line: &str| line.chars().count() <= 94;
            let asks = matches!(command.run, Run::Asking(_) | Run::Describing(_));
            assert!(asks || text.lines().all(is_narrow), "{text}");
            let flags = command.flags.iter().chain([&HELP]).copied();
            let flags: Vec<Flag> = flags
                .chain(POOL_FLAGS[..].iter().copied().filter(|_| reads))
                .collect();
            let faults = faults_of_synopsis(command.synopsis, &flags, false);
            assert!(faults.is_empty(), "{name}: {faults:?}");
        }
    }

    #[test]
    fn small_programs_show_their_options() {
        for topic in TABLE.others.iter().flat_map(|other| other.topics) {
            let faults = faults_of_synopsis(&topic.synopsis.join("\n"), topic.flags, true);
            assert!(faults.is_empty(), "{}: {faults:?}", topic.name);
            assert!(
                topic.flags.iter().all(|flag| !flag.help.is_empty()),
                "{}",
                topic.name
            );
        }
    }

    /// Help needs no daemon.
    struct Nobody;

    impl Daemon for Nobody {
        fn call(
            &mut self,
            request: Request,
            _on_part: &mut dyn FnMut(Part) -> Interrupt,
        ) -> Result<Response, CallError> {
            panic!("{request:?} is asked for")
        }
    }

    #[test]
    fn help_is_given_by_its_short_option_where_that_means_nothing_else() {
        let quiet = || Box::new(std::io::sink());
        let wanted = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            help_wanted(
                &words,
                &mut Context::new(quiet(), quiet(), Box::new(Nobody)),
            )
        };
        assert!(wanted(&["verify", "-h"]) && wanted(&["verify", "-A", "-h", "tank"]));
        assert!(wanted(&["daemon", "stop", "-h"]) && wanted(&["ls", "--help"]));
        assert!(!wanted(&["du", "-h", "tank"]) && !wanted(&["verify", "tank"]));
        assert!(wanted(&["du", "--help"]) && wanted(&["space", "-?"]));
        // These commands have an option `-h`, as `zfs send` and `zfs receive` do.
        assert!(!wanted(&["receive", "-h", "tank"]) && !wanted(&["send", "-h", "tank@a"]));
        assert!(!wanted(&["ls", "--", "-h"]));
    }

    /// The source code in these directories, without tests.
    fn sources(directory: &Path, all: &mut String) {
        for entry in std::fs::read_dir(directory).expect("sources").flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, all),
                path => {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    all.push_str(text.split("#[cfg(test)]").next().unwrap_or_default());
                }
            }
        }
    }

    /// An option that only its table mentions does nothing. Options of `send` and `receive` are
    /// passed to OpenZFS's commands by their letters.
    #[test]
    fn every_option_is_asked_for() {
        let mut code = String::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for place in [
            "tools/cenote",
            "daemon",
            "commands/own",
            "commands/watch",
            "commands/words",
            "commands/zfs",
            "commands/zpool",
        ] {
            sources(&root.join(place).join("src"), &mut code);
        }
        let is_row = |line: &&str| line.trim_start().starts_with(['\'', '_']);
        let asking: Vec<&str> = code.lines().filter(|line| !is_row(line)).collect();
        let flags = COMMANDS.iter().flat_map(|command| {
            let is_passed_on = ["send", "receive"].contains(&command.name);
            let flags = command.flags.iter();
            flags.filter(move |flag| !is_passed_on || flag.short.is_none())
        });
        for flag in flags.chain(POOL_FLAGS) {
            let name = format!("\"{}\"", flag.name());
            let is_asked = asking.iter().any(|line| {
                line.split_once(&name).is_some_and(|(before, _)| {
                    before.contains(['(', '[', '=', '!', ',']) || before.trim().is_empty()
                })
            });
            assert!(is_asked, "--{name}");
        }
    }

    /// Previously, `cenote daemon resmue` printed the usage without mentioning the wrong word.
    #[test]
    fn a_wrong_verb_gets_the_nearest_right_one() {
        for (name, wrong, right) in [
            ("daemon", "resmue", "resume"),
            ("cloud", "prise", "price"),
            ("cloud", "cpoy", "copy"),
            ("nbd", "srve", "serve"),
            ("alarm", "tset", "test"),
            ("settings", "gte", "get"),
            ("device", "exprot", "export"),
            ("volume", "imprt", "import"),
            ("completions", "bsah", "bash"),
        ] {
            let command = find_command(name).expect("a command");
            let verbs = verbs(&forms(name, command.synopsis));
            let near = cenote_base::nearest(wrong, verbs.iter().map(String::as_str));
            assert!(
                near.contains(&right),
                "{name} {wrong}: {near:?} of {verbs:?}"
            );
        }
    }

    #[test]
    fn no_option_is_declared_twice() {
        for command in COMMANDS {
            let shared = match command.run {
                Run::Reading(_) => POOL_FLAGS,
                Run::Asking(_) | Run::Alone(_) | Run::Describing(_) => &[],
            };
            let flags = command.flags.iter().chain(shared).chain([&HELP]);
            let all: Vec<&Flag> = flags.collect();
            for (index, flag) in all.iter().enumerate() {
                let is_twice = |other: &&Flag| {
                    let same_letter = other.short.is_some() && other.short == flag.short;
                    other.name() == flag.name() || same_letter
                };
                let is_first = !all[..index].iter().any(is_twice);
                assert!(is_first, "{} {}", command.name, flag.name());
            }
        }
    }

    /// Every page needs an example, except those of commands that this version refuses.
    #[test]
    fn every_page_has_an_example() {
        let mut named: Vec<&str> = manual::examples().iter().map(|(name, _)| *name).collect();
        for page in manual::pages(&TABLE) {
            let is_alias = page.text.starts_with(".so ");
            let is_missing = page.text.contains("not available in this version");
            let has_one = page.text.contains("\n.SH EXAMPLES\n");
            assert!(has_one != (is_alias || is_missing), "{}", page.name);
            named.retain(|name| name.split('(').next() != Some(page.name.as_str()));
        }
        assert!(named.is_empty(), "no page has the examples of {named:?}");
    }

    /// The commands and options in examples must exist.
    #[test]
    fn examples_are_read_by_their_commands() {
        let of_programs = [&zpool::PROGRAM, &zfs::PROGRAM];
        let flags_of = |words: &[&str]| -> Option<Vec<Flag>> {
            let mut programs = of_programs.iter();
            if let Some(program) = programs.find(|program| program.name == words[0]) {
                return Some(program.topic(words[1])?.flags.to_vec());
            }
            let mut commands = COMMANDS.iter();
            let command = commands.find(|command| command.name == words[1])?;
            let mut flags = command.flags.to_vec();
            if let Run::Reading(_) = command.run {
                flags.extend_from_slice(POOL_FLAGS);
            }
            Some(flags)
        };
        let mut count = 0;
        for (page, examples) in manual::examples() {
            for (line, text) in examples {
                assert!(
                    text.ends_with('.') && line.len() <= 100,
                    "{page}: {line}: {text}"
                );
                let own = line.split(['|', '>']).next().unwrap_or_default();
                let words: Vec<&str> = own.split_whitespace().collect();
                if ["mount", "zdb", "zed", "zinject", "zstream"].contains(&words[0])
                    || words[0] == "cenote" && ["zpool", "find"].contains(&words[1])
                {
                    continue;
                }
                let flags = flags_of(&words);
                let flags = flags.unwrap_or_else(|| panic!("{page}: no such command: {line}"));
                for word in words.iter().filter(|word| word.starts_with('-')) {
                    let is_known = match word.strip_prefix("--") {
                        Some(_) => flags.iter().any(|flag| flag.is(word)),
                        None => word
                            .chars()
                            .skip(1)
                            .all(|letter| flags.iter().any(|flag| flag.short == Some(letter))),
                    };
                    assert!(is_known, "{page}: {word} in {line}");
                    count += 1;
                }
            }
        }
        assert!(count > 50, "{count} options were read");
    }
}
