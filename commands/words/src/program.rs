//! What `zfs` and `zpool` share: finding the subcommand, its usage, its exit code.

use crate::command_line;
use crate::context::{Context, Outcome, Stop};
use crate::flag::rows;
use crate::getopt::{OptionError, Parsed};
use crate::suggest::suggest;
use crate::topic::is_help_asked;
pub use crate::topic::{CommandLine, Topic, topic};
use crate::version;

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
    /// Its subcommands, in groups.
    pub groups: &'static [&'static [Topic]],
    /// Other names of subcommands.
    pub aliases: &'static [(&'static str, &'static str)],
    /// The text below the list of all subcommands.
    pub below_all: &'static str,
    /// The text below the synopsis of a subcommand.
    pub below_one: fn(&str) -> String,
    /// Whether this version refuses a subcommand that OpenZFS has.
    pub is_missing: fn(&str) -> bool,
    /// Runs a subcommand.
    pub dispatch: fn(&CommandLine<'_>, &mut Context) -> Outcome,
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
        let Some(topic) = self.topic(command) else {
            context.complain(&format!("unrecognized command '{command}'"));
            if let Some(question) = self.question(command) {
                context.complain(&question);
            }
            context.complain(&self.overview());
            return 2;
        };
        if is_help_asked(rest) {
            context.line(&self.explanation(topic));
            return 0;
        }
        context.command = command_line(&format!("{} {}", self.name, topic.name), rest);
        let ended = (self.dispatch)(&CommandLine { topic, words: rest }, context);
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
                context.complain(&(self.synopsis(topic) + &(self.below_one)(topic.name)));
                2
            }
        }
    }

    /// All subcommands, in the order of the overview.
    pub fn topics(&self) -> impl Iterator<Item = &'static Topic> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The subcommand of a name, or of another name of it.
    pub fn topic(&self, name: &str) -> Option<&'static Topic> {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| name);
        self.topics().find(|topic| topic.name == name)
    }

    /// Parses the words of a subcommand of this program for another program.
    ///
    /// # Panics
    ///
    /// If there is no such subcommand.
    pub fn parse(&self, name: &str, words: &[String]) -> Result<Parsed, OptionError> {
        let topic = self
            .topic(name)
            .expect("only commands that are here are asked for");
        CommandLine { topic, words }.parse()
    }

    /// All subcommands.
    fn overview(&self) -> String {
        let mut text = format!(
            "usage: {} command args ...\nwhere 'command' is one of the following:\n\n",
            self.name
        );
        for group in self.groups {
            for topic in *group {
                for line in topic.synopsis {
                    text.push_str(&format!("\t{line}\n"));
                }
                if (self.is_missing)(topic.name) {
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
        let Some(word) = topics.first() else {
            context.line(&self.overview());
            return 0;
        };
        let Some(topic) = self.topic(word) else {
            context.complain(&format!("no help on '{word}'"));
            if let Some(question) = self.question(word) {
                context.complain(&question);
            }
            return 1;
        };
        context.line(&self.explanation(topic));
        0
    }

    /// Suggests a subcommand for a misspelled word.
    fn question(&self, word: &str) -> Option<String> {
        let mut others = ELSEWHERE.iter().filter(|(name, _)| *name != self.name);
        if let Some((other, _)) = others.find(|(_, words)| words.contains(&word)) {
            return Some(format!("did you mean '{other} {word}'?"));
        }
        let names = self.topics().map(|topic| topic.name);
        let aliases = self.aliases.iter().map(|(alias, _)| *alias);
        cenote_base::did_you_mean(word, names.chain(aliases).chain(["help"]))
    }

    /// The help of a subcommand: what it does, its synopsis, its options.
    fn explanation(&self, topic: &Topic) -> String {
        let mut text = self.synopsis(topic);
        text.push_str(&format!("\n\n{}.\n", topic.summary));
        if !topic.about.is_empty() {
            text.push_str(&format!("\n{}\n", topic.about));
        }
        let options = rows(topic.flags);
        if !options.is_empty() {
            text.push_str(&format!("\noptions:\n{options}"));
        }
        let below = (self.below_one)(topic.name);
        if !below.is_empty() {
            text.push_str(&format!("\n{}", below.trim_start_matches('\n')));
        }
        text.trim_end().to_owned()
    }

    fn synopsis(&self, topic: &Topic) -> String {
        let mut text = String::from("usage:");
        for line in topic.synopsis {
            text.push_str(&format!("\n\t{line}"));
        }
        if (self.is_missing)(topic.name) {
            text.push_str(&format!("\n\t    ({NOT_THERE})"));
        }
        text
    }
}
