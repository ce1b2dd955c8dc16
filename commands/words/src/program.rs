//! What `zfs` and `zpool` share: finding the subcommand, its usage, its exit code.

use crate::command_line;
use crate::context::{Context, Outcome, Stop};
use crate::flag::{Flag, rows};
use crate::suggest::suggest;
use crate::version;

/// A subcommand's name and the lines of its synopsis.
pub type Synopsis = (&'static str, &'static [&'static str]);

/// What a subcommand does, and its options.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// More about it, or "".
    pub about: &'static str,
    /// Its options; those without a help text are accepted but not listed.
    pub flags: &'static [Flag],
}

/// Whether the words after a subcommand ask for its help. `-h` does, unless the synopsis gives it
/// another meaning.
fn asks_for_help(words: &[String], lines: &[&str]) -> bool {
    let options = words.iter().take_while(|word| *word != "--");
    let is_taken = || {
        let words = lines
            .iter()
            .flat_map(|line| line.split(['[', ']', ' ', '|']));
        words
            .filter(|word| word.starts_with('-') && !word.starts_with("--"))
            .any(|word| word.contains('h'))
    };
    let mut asking = options.filter(|word| matches!(word.as_str(), "--help" | "-?" | "-h"));
    asking.any(|word| word != "-h" || !is_taken())
}

/// What help prints for a subcommand that this version refuses.
const NOT_THERE: &str = "not available in this version";

/// A command with subcommands.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub summary: &'static str,
    /// More about it.
    pub about: &'static str,
    /// What its subcommands do.
    pub topics: &'static [Topic],
    /// Its subcommands, in groups.
    pub groups: &'static [&'static [Synopsis]],
    /// Other names of subcommands.
    pub aliases: &'static [(&'static str, &'static str)],
    /// The text below the list of all subcommands.
    pub below_all: &'static str,
    /// The text below the synopsis of a subcommand.
    pub below_one: fn(&str) -> String,
    /// Whether this version refuses a subcommand that OpenZFS has.
    pub is_missing: fn(&str) -> bool,
    /// Runs a subcommand.
    pub dispatch: fn(&str, &[String], &mut Context) -> Outcome,
}

/// Subcommands that users may look for in the wrong program.
pub const ELSEWHERE: [(&str, &[&str]); 2] = [
    (
        "zpool",
        &[
            "add",
            "attach",
            "checkpoint",
            "clear",
            "detach",
            "events",
            "export",
            "history",
            "import",
            "initialize",
            "iostat",
            "labelclear",
            "offline",
            "online",
            "reguid",
            "remove",
            "reopen",
            "replace",
            "resilver",
            "scrub",
            "split",
            "status",
            "sync",
            "trim",
        ],
    ),
    (
        "zfs",
        &[
            "bookmark",
            "change-key",
            "clone",
            "diff",
            "groupspace",
            "hold",
            "holds",
            "inherit",
            "load-key",
            "mount",
            "promote",
            "receive",
            "release",
            "rename",
            "rollback",
            "send",
            "share",
            "snapshot",
            "unload-key",
            "unmount",
            "userspace",
        ],
    ),
];

impl Program {
    /// Runs the command with its arguments (its own name left out); returns the exit code.
    pub fn run(&self, arguments: &[String], context: &mut Context) -> u8 {
        let Some(command) = arguments.first() else {
            context.complain("missing command");
            context.complain(&self.overview());
            return 2;
        };
        let rest = &arguments[1..];
        match command.as_str() {
            "-?" | "--help" => return self.help(&[], context),
            "help" => return self.help(rest, context),
            "-V" | "--version" => return version::print(self.name, context),
            _ => {}
        }
        let mut aliases = self.aliases.iter();
        let alias = aliases.find(|(alias, _)| alias == command);
        let command = alias.map_or(command.as_str(), |(_, name)| name);
        let Some(lines) = self.lines_of(command) else {
            context.complain(&format!("unrecognized command '{command}'"));
            if let Some(question) = self.question(command) {
                context.complain(&question);
            }
            context.complain(&self.overview());
            return 2;
        };
        if asks_for_help(rest, lines) {
            context.line(&self.explanation(command, lines));
            return 0;
        }
        context.command = command_line(&format!("{} {command}", self.name), rest);
        let ended = (self.dispatch)(command, rest, context);
        context.tell_of_unread(&ended);
        if let Ok(code @ 1..) | Err(Stop::Code(code @ 1..)) = ended {
            suggest(self.name, rest, context);
            return code;
        }
        match ended {
            Ok(code) | Err(Stop::Code(code)) => code,
            Err(Stop::Failed(message)) => {
                context.complain(&message);
                suggest(self.name, rest, context);
                1
            }
            Err(Stop::Usage(message)) => {
                if !message.is_empty() {
                    context.complain(&message);
                }
                suggest(self.name, rest, context);
                if let Some(lines) = self.lines_of(command) {
                    context.complain(&self.usage(command, lines));
                }
                2
            }
        }
    }

    /// The synopsis of a subcommand.
    pub fn lines_of(&self, name: &str) -> Option<&'static [&'static str]> {
        let mut all = self.groups.iter().flat_map(|group| group.iter());
        all.find(|(command, _)| *command == name)
            .map(|(_, lines)| *lines)
    }

    /// All subcommands.
    fn overview(&self) -> String {
        let mut text = format!(
            "usage: {} command args ...\nwhere 'command' is one of the following:\n\n",
            self.name
        );
        for group in self.groups {
            for (name, lines) in *group {
                for line in *lines {
                    text.push_str(&format!("\t{line}\n"));
                }
                if (self.is_missing)(name) {
                    text.push_str(&format!("\t    ({NOT_THERE})\n"));
                }
            }
            text.push('\n');
        }
        text.push_str(self.below_all);
        text
    }

    /// `help [TOPIC]`: the user asked for it, so it is printed to standard output.
    fn help(&self, topics: &[String], context: &mut Context) -> u8 {
        let Some(topic) = topics.first() else {
            context.line(&self.overview());
            return 0;
        };
        let alias = self.aliases.iter().find(|(alias, _)| alias == topic);
        let name = alias.map_or(topic.as_str(), |(_, name)| name);
        let Some(lines) = self.lines_of(name) else {
            context.complain(&format!("no help on '{topic}'"));
            if let Some(question) = self.question(topic) {
                context.complain(&question);
            }
            return 1;
        };
        context.line(&self.explanation(name, lines));
        0
    }

    /// Suggests a subcommand for a misspelled word.
    fn question(&self, word: &str) -> Option<String> {
        let mut others = ELSEWHERE.iter().filter(|(name, _)| *name != self.name);
        if let Some((other, _)) = others.find(|(_, words)| words.contains(&word)) {
            return Some(format!("did you mean '{other} {word}'?"));
        }
        let names = self.groups.iter().flat_map(|group| group.iter());
        let names = names.map(|(name, _)| *name);
        let aliases = self.aliases.iter().map(|(alias, _)| *alias);
        cenote_base::did_you_mean(word, names.chain(aliases).chain(["help"]))
    }

    /// The help of a subcommand: what it does, its synopsis, its options.
    fn explanation(&self, name: &str, lines: &[&str]) -> String {
        let mut text = self.synopsis(name, lines);
        let Some(topic) = self.topic(name) else {
            return text;
        };
        text.push_str(&format!("\n\n{}.\n", topic.summary));
        if !topic.about.is_empty() {
            text.push_str(&format!("\n{}\n", topic.about));
        }
        let options = rows(topic.flags);
        if !options.is_empty() {
            text.push_str(&format!("\noptions:\n{options}"));
        }
        let below = (self.below_one)(name);
        if !below.is_empty() {
            text.push_str(&format!("\n{}", below.trim_start_matches('\n')));
        }
        text.trim_end().to_owned()
    }

    /// What a subcommand does.
    pub fn topic(&self, name: &str) -> Option<&'static Topic> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    fn usage(&self, name: &str, lines: &[&str]) -> String {
        self.synopsis(name, lines) + &(self.below_one)(name)
    }

    fn synopsis(&self, name: &str, lines: &[&str]) -> String {
        let mut text = String::from("usage:");
        for line in lines {
            text.push_str(&format!("\n\t{line}"));
        }
        if (self.is_missing)(name) {
            text.push_str(&format!("\n\t    ({NOT_THERE})"));
        }
        text
    }
}
