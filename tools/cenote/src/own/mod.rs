//! `cenote`: our own commands.
//!
//! Each command is one file with a [`Command`] that says what it is called, which options it has
//! and what it does; help texts are made from it. Commands that read pools by themselves are in
//! `direct`.

mod alarm;
mod cloud;
mod command;
mod daemon;
mod device;
mod device_file;
mod engine;
mod gauge;
mod guard;
mod health;
mod install_links;
mod log;
mod mount;
mod mounter;
mod resume;
mod settings;
mod settings_files;
mod space;
mod streams;
mod unmount;
mod version;

use std::ffi::OsString;

use command::Command;

use crate::command::{self as arguments, Arguments, JSON};
use crate::context::{Context, Outcome, Stop};

/// Commands that talk to the daemon, before those that read pools themselves.
const DAEMON_COMMANDS: [&Command; 11] = [
    &mount::COMMAND,
    &unmount::COMMAND,
    &space::COMMAND,
    &streams::send::COMMAND,
    &streams::receive::COMMAND,
    &daemon::COMMAND,
    &cloud::COMMAND,
    &device::COMMAND,
    &settings::COMMAND,
    &health::COMMAND,
    &ALARM,
];
/// Its file knows nothing of command lines.
const ALARM: Command = Command {
    name: "alarm",
    summary: "Show how alarms are sent, or send one by every way to try",
    synopsis: "[list | test | reload]",
    about: alarm::ABOUT,
    flags: &[JSON],
    run: run_alarm,
};

fn run_alarm(arguments: &Arguments, context: &mut Context) -> Outcome {
    let words = arguments.operands.iter();
    // What is no text is no word that is known.
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap_or("?")).collect();
    alarm::run(&words, arguments.has("json"), context)
}

/// Commands about the program itself.
const OWN_COMMANDS: [&Command; 2] = [&install_links::COMMAND, &version::COMMAND];

/// The commands here.
fn commands() -> impl Iterator<Item = &'static Command> {
    DAEMON_COMMANDS.into_iter().chain(OWN_COMMANDS)
}

fn find_command(name: &str) -> Option<&'static Command> {
    commands().find(|command| command.name == name)
}

/// Whether `-h` is an option of a command, and does not ask for help.
fn takes_h(name: &str) -> bool {
    let has_h = |command: &Command| command.flags.iter().any(|flag| flag.short == Some('h'));
    crate::direct::takes_h(name) || find_command(name).is_some_and(has_h)
}

/// Prints the help of a command, if the words after its name ask for that.
pub fn help_wanted(words: &[OsString], context: &mut Context) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    let Some(name) = name.to_str() else {
        return false;
    };
    let asks = |word: &OsString| match word.to_str() {
        Some("--help" | "-?") => true,
        Some("-h") => !takes_h(name),
        _ => false,
    };
    let wanted = rest.iter().take_while(|word| *word != "--").any(asks);
    let text = Some(name).filter(|_| wanted).and_then(help_text);
    if let Some(text) = &text {
        context.print(text);
    }
    text.is_some()
}

/// The help of any command.
fn help_text(name: &str) -> Option<String> {
    crate::direct::help(name).or_else(|| find_command(name).map(Command::help))
}

/// Runs `cenote` with its arguments (the program's own name left out).
pub fn run(mut arguments: Vec<OsString>, context: &mut Context) -> u8 {
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
        _ => {}
    }
    let Some(command) = find_command(&first) else {
        complain_of_command(&first, context);
        context.complain("Run 'cenote help' for a list.");
        return 2;
    };
    let parsed = match Arguments::parse(command.flags, &arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            context.complain(&format!("cenote {first}: {error}"));
            context.complain(&format!("Run 'cenote help {first}' for its options."));
            return 2;
        }
    };
    if parsed.has("help") {
        context.print(&command.help());
        return 0;
    }
    let ended = (command.run)(&parsed, context);
    drop(parsed);
    context.tell_of_unread(&ended);
    match ended {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Failed(message)) => {
            context.complain(&format!("cenote {first}: {message}"));
            1
        }
        Err(Stop::Usage(message)) => {
            if !message.is_empty() {
                context.complain(&format!("cenote {first}: {message}"));
            }
            context.complain(&format!("usage: cenote {first} {}", command.synopsis));
            2
        }
    }
}

/// Says that there is no such command, and which one may have been meant.
fn complain_of_command(name: &str, context: &mut Context) {
    let own = commands().map(|command| command.name);
    let direct = crate::direct::summaries().map(|(name, _)| name);
    let others = ["help", "zpool", "zfs", "zstream"];
    let question = cenote_base::did_you_mean(name, own.chain(direct).chain(others));
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
    match help_text(&topic) {
        Some(text) => {
            context.print(&text);
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
         \x20      cenote zpool|zfs|zstream ...    the command lines of OpenZFS\n\
         \n",
    );
    let summary = |command: &&'static Command| (command.name, command.summary);
    let mut all: Vec<(&str, &str)> = DAEMON_COMMANDS.iter().map(summary).collect();
    all.extend(crate::direct::summaries());
    all.extend(OWN_COMMANDS.iter().map(summary));
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, summary) in all {
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
    use crate::command::{Flag, HELP};
    use crate::context::Daemon;
    use cenote_control::model::{Part, Request, Response};
    use cenote_control::protocol::{CallError, Interrupt};
    use std::path::Path;

    #[test]
    fn every_command_explains_itself() {
        for command in commands() {
            let help = command.help();
            assert!(help.starts_with(&format!("usage: cenote {} ", command.name)));
            assert!(help.contains("--help"));
            assert!(overview().contains(command.summary));
        }
        for (name, summary) in crate::direct::summaries() {
            assert!(crate::direct::knows(name), "{name}");
            assert!(help_text(name).is_some_and(|text| text.contains(summary)));
            assert!(overview().contains(summary));
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
        // These have an option of that letter, as `zfs send` and `zfs receive` do.
        assert!(!wanted(&["receive", "-h", "tank"]) && !wanted(&["send", "-h", "tank@a"]));
        assert!(!wanted(&["ls", "--", "-h"]));
    }

    /// The code of the commands here, without tests.
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

    /// An option that only its table knows does nothing. Those of `send` and `receive` become
    /// words of OpenZFS's commands by their letters.
    #[test]
    fn every_option_is_asked_for() {
        let mut code = String::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        sources(&root.join("src/own"), &mut code);
        let readers = ["has", "last", "all", "size", "number", "price"];
        for command in commands() {
            let is_passed_on = ["send", "receive"].contains(&command.name);
            for flag in command.flags {
                let is_read = |reader: &str| code.contains(&format!("{reader}(\"{}\"", flag.long));
                let is_asked = readers.into_iter().any(is_read);
                let name = flag.long;
                assert!(
                    is_asked || (is_passed_on && flag.short.is_some()),
                    "--{name}"
                );
            }
        }
    }

    #[test]
    fn no_option_is_declared_twice() {
        for command in commands() {
            let flags: Vec<&Flag> = command.flags.iter().chain([&HELP]).collect();
            let mut names: Vec<&str> = flags.iter().map(|flag| flag.long).collect();
            let mut letters: Vec<char> = flags.iter().filter_map(|flag| flag.short).collect();
            let counts = (names.len(), letters.len());
            names.sort_unstable();
            names.dedup();
            letters.sort_unstable();
            letters.dedup();
            assert_eq!((names.len(), letters.len()), counts, "{}", command.name);
        }
    }
}
