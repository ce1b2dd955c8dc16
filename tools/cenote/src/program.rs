//! What `zfs` and `zpool` have in common: which subcommand, its usage, its exit code.

use crate::context::{Context, Outcome, Stop};
use crate::version;

/// A subcommand's name and the lines of its synopsis.
pub type Synopsis = (&'static str, &'static [&'static str]);

/// What help says of a subcommand that is only refused.
const NOT_THERE: &str = "not available in this version";

/// A command with subcommands.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its subcommands, in groups.
    pub groups: &'static [&'static [Synopsis]],
    /// Other names of subcommands.
    pub aliases: &'static [(&'static str, &'static str)],
    /// What stands below the list of all subcommands.
    pub below_all: &'static str,
    /// What stands below the synopsis of a subcommand.
    pub below_one: fn(&str) -> String,
    /// Whether a subcommand of OpenZFS's is only refused here.
    pub is_missing: fn(&str) -> bool,
    /// Runs a subcommand.
    pub dispatch: fn(&str, &[String], &mut Context) -> Outcome,
}

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
        if self.lines_of(command).is_none() {
            context.complain(&format!("unrecognized command '{command}'"));
            context.complain(&self.overview());
            return 2;
        }
        context.command = crate::zpool::command_line(&format!("{} {command}", self.name), rest);
        match (self.dispatch)(command, rest, context) {
            Ok(code) | Err(Stop::Code(code)) => code,
            Err(Stop::Failed(message)) => {
                context.complain(&message);
                1
            }
            Err(Stop::Usage(message)) => {
                if !message.is_empty() {
                    context.complain(&message);
                }
                if let Some(lines) = self.lines_of(command) {
                    context.complain(&self.usage(command, lines));
                }
                2
            }
        }
    }

    fn lines_of(&self, name: &str) -> Option<&'static [&'static str]> {
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

    /// `help [TOPIC]`: asked for, so on standard output.
    fn help(&self, topics: &[String], context: &mut Context) -> u8 {
        let Some(topic) = topics.first() else {
            context.line(&self.overview());
            return 0;
        };
        let Some(lines) = self.lines_of(topic) else {
            context.complain(&format!("no help on '{topic}'"));
            return 1;
        };
        context.line(&self.usage(topic, lines));
        0
    }

    fn usage(&self, name: &str, lines: &[&str]) -> String {
        let mut text = String::from("usage:");
        for line in lines {
            text.push_str(&format!("\n\t{line}"));
        }
        if (self.is_missing)(name) {
            text.push_str(&format!("\n\t    ({NOT_THERE})"));
        }
        text.push_str(&(self.below_one)(name));
        text
    }
}
