//! `zfs program`: runs a channel program and prints its result.

use std::io::Read;

use cenote_control::model::{
    ControlError, Program, ProgramOutcome, ProgramValue, RawName, Request, Response,
};

use super::select::reason;
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};

/// Instructions and bytes that a program may use unless it is said.
const INSTRUCTIONS: u64 = 10_000_000;
const MEMORY: u64 = 10 << 20;

/// Bytes of a program's text.
const SOURCE_MAX: u64 = 2 << 20;

/// Spaces before each level of a printed result.
const INDENT: usize = 4;

/// `zfs program [-jn] [-t LIMIT] [-m BYTES] POOL FILE [ARGUMENT...]`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    // What follows the file is the program's, whatever it looks like.
    let (own, arguments) = line.words.split_at(own_words(line.words));
    let line = CommandLine {
        topic: line.topic,
        words: own,
    };
    let parsed = line.parse()?;
    let limit = |name: &str, default| match parsed.last(name) {
        None => Ok(default),
        Some(text) => match text.parse::<u64>() {
            Ok(limit @ 1..) => Ok(limit),
            _ => usage(format!("invalid limit '{text}' for -{name}")),
        },
    };
    let (instructions, memory) = (limit("t", INSTRUCTIONS)?, limit("m", MEMORY)?);
    let (is_read_only, is_json) = (parsed.has("n"), parsed.has("j"));
    let (pool, file) = match parsed.operands.as_slice() {
        [] => return usage("missing pool argument"),
        [_] => return usage("missing file argument"),
        [pool, file, ..] => (pool.clone(), file),
    };
    let source = match read(file, context) {
        Ok(source) => source,
        Err(why) => return failed(why),
    };
    let program = Program {
        pool: pool.clone(),
        source: RawName(source),
        arguments: arguments.to_vec(),
        instructions,
        memory,
        is_read_only,
    };
    let command = context.command.clone();
    let request = Request::Program {
        program: Box::new(program),
        command,
    };
    match context.ask(request) {
        Ok(Response::Program { outcome }) => Ok(report(outcome, is_json, context)),
        Ok(_) => failed("the daemon gave another answer"),
        Err(ControlError::PermissionDenied) => {
            failed("Permission denied. Channel programs must be run as root.")
        }
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error) => failed(with_context("Channel program execution failed", &error)),
    }
}

/// How many words there are up to the program's file.
fn own_words(words: &[String]) -> usize {
    let (mut operands, mut are_options_over) = (0, false);
    let mut at = 0;
    while at < words.len() && operands < 2 {
        let word = words[at].as_str();
        at += 1;
        match word {
            "--" if !are_options_over => are_options_over = true,
            "-" => operands += 1,
            word if are_options_over || !word.starts_with('-') => operands += 1,
            word if word.starts_with("--") => {}
            word => {
                // The value of the last letter is a word of its own.
                let valued = word.find(['t', 'm']);
                at += usize::from(valued == Some(word.len() - 1));
            }
        }
    }
    at.min(words.len())
}

/// The text of a program; `-` is standard input.
fn read(file: &str, context: &Context) -> Result<Vec<u8>, String> {
    let mut source = Vec::new();
    let read = match file {
        "-" => std::io::stdin()
            .lock()
            .take(SOURCE_MAX + 1)
            .read_to_end(&mut source),
        path => {
            let opened = std::fs::File::open(context.directory.join(path));
            opened.and_then(|file| file.take(SOURCE_MAX + 1).read_to_end(&mut source))
        }
    };
    read.map_err(|error| format!("cannot open '{file}': {}", reason(&error)))?;
    match source.len() as u64 > SOURCE_MAX {
        true => Err(format!(
            "cannot run '{file}': a channel program has at most {SOURCE_MAX} bytes"
        )),
        false => Ok(source),
    }
}

fn report(outcome: ProgramOutcome, is_json: bool, context: &mut Context) -> u8 {
    match outcome {
        ProgramOutcome::Failed(why) => {
            context.complain(&format!("Channel program execution failed:\n{why}"));
            return 1;
        }
        ProgramOutcome::Returned(value) if is_json => {
            let json = value.map_or_else(
                || "{}".to_owned(),
                |value| format!("{{\"return\":{}}}", json(&value)),
            );
            context.line(&json);
        }
        ProgramOutcome::Returned(None) => {
            context.line("Channel program fully executed with no return value.");
        }
        ProgramOutcome::Returned(Some(value)) => {
            context.line("Channel program fully executed with return value:");
            let mut lines = Vec::new();
            dump("return", &value, INDENT, &mut lines);
            for line in lines {
                context.line(&line);
            }
        }
    }
    0
}

/// A value in lines, as OpenZFS prints lists of names and values.
fn dump(name: &str, value: &ProgramValue, indent: usize, lines: &mut Vec<String>) {
    let spaces = " ".repeat(indent);
    lines.push(match value {
        ProgramValue::Nil => format!("{spaces}{name}"),
        ProgramValue::Boolean(value) => format!("{spaces}{name}: {value}"),
        ProgramValue::Number(number) => format!("{spaces}{name}: {number}"),
        ProgramValue::Text(text) => format!("{spaces}{name}: '{}'", text.lossy()),
        ProgramValue::Table(entries) => {
            lines.push(format!("{spaces}{name}:"));
            for (name, value) in entries {
                dump(&name.lossy(), value, indent + INDENT, lines);
            }
            return;
        }
    });
}

fn json(value: &ProgramValue) -> String {
    match value {
        ProgramValue::Nil => "null".to_owned(),
        ProgramValue::Boolean(value) => value.to_string(),
        ProgramValue::Number(number) => number.to_string(),
        ProgramValue::Text(text) => quoted(&text.lossy()),
        ProgramValue::Table(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(name, value)| format!("{}:{}", quoted(&name.lossy()), json(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => {
                let number = u32::from(control);
                quoted.push_str(&format!("\\u{number:04x}"));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_follows_the_file_is_the_programs() {
        for (line, own) in [
            ("tank x.zcp -n -t", 2),
            ("-n -t 5 tank x.zcp a", 5),
            ("-nt5 tank - -- b", 3),
            ("-nt 5 tank - b", 4),
            ("tank -m 7 x.zcp -m 8", 4),
            ("-- -tank x.zcp -n", 3),
            ("--json tank x.zcp --json", 3),
            ("tank", 1),
            ("tank -t", 2),
        ] {
            assert_eq!(own_words(&words(line)), own, "{line}");
        }
    }

    #[test]
    fn results_are_printed_as_lists_and_as_json() {
        let text = |text: &str| ProgramValue::Text(RawName::from(text));
        let value = ProgramValue::Table(vec![
            (RawName::from("1"), ProgramValue::Table(Vec::new())),
            (RawName::from("baz"), ProgramValue::Number(-2)),
            (RawName::from("foo"), text("a\"b\n")),
            (RawName::from("yes"), ProgramValue::Boolean(true)),
        ]);
        let mut lines = Vec::new();
        dump("return", &value, INDENT, &mut lines);
        let expected = [
            "    return:",
            "        1:",
            "        baz: -2",
            "        foo: 'a\"b\n'",
            "        yes: true",
        ];
        assert_eq!(lines, expected);
        let expected = "{\"1\":{},\"baz\":-2,\"foo\":\"a\\\"b\\n\",\"yes\":true}";
        assert_eq!(json(&value), expected);
        assert_eq!(json(&ProgramValue::Nil), "null");
    }
}
