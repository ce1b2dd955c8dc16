//! `zpool events`.

use cenote_control::model::{Event, Part, Request, Response};
use jiff::tz::TimeZone;

use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};

/// `zpool events [-vHf [POOL] | -c]`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.operands.len() > 1 {
        return usage("too many arguments");
    }
    if parsed.has("c") {
        if !parsed.operands.is_empty() {
            return usage("too many arguments");
        }
        if ["v", "H", "f"].iter().any(|option| parsed.given(option)) {
            return usage("-c must be used alone");
        }
        return match context.ask(Request::EventsClear) {
            Ok(Response::Cleared { events }) => {
                context.line(&format!("cleared {events} events"));
                Ok(0)
            }
            Ok(_) => Ok(0),
            Err(error) => failed(with_context("cannot clear events", &error)),
        };
    }
    let (verbose, script) = (parsed.has("v"), parsed.has("H"));
    let request = Request::Events {
        pool: parsed.operands.first().cloned(),
        follow: parsed.has("f"),
    };
    let zone = context.zone.clone();
    let heading = match script {
        true => String::new(),
        false => format!("{:<30} CLASS\n", "TIME"),
    };
    let mut lines = heading.clone();
    // Following never ends by itself, so its lines are written immediately.
    let follow = parsed.has("f");
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Events(events) = part {
            for event in &events {
                lines.push_str(&event_text(event, verbose, script, &zone));
            }
            if follow {
                write_now(&mut lines);
            }
        }
    });
    if answer.is_ok() || lines != heading {
        context.print(&lines);
    }
    match (answer, parsed.operands.first()) {
        (Ok(_), _) => Ok(0),
        (Err(error), Some(pool)) => failed(cannot_open(pool, &error)),
        (Err(error), None) => failed(with_context("failed to get events", &error)),
    }
}

/// Bypasses the context's buffer, because each event should appear at once.
fn write_now(lines: &mut String) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // If the reader is gone, the broken connection ends the command at its next event.
    let _ = out.write_all(lines.as_bytes());
    let _ = out.flush();
    lines.clear();
}

fn event_text(event: &Event, verbose: bool, script: bool, zone: &TimeZone) -> String {
    let when = date(event.seconds, Form::Event, zone);
    let separator = if script { '\t' } else { ' ' };
    let nanoseconds = event.nanoseconds;
    let mut text = format!("{when}.{nanoseconds:09}{separator}{}\n", event.class);
    if verbose {
        for (name, value) in &event.details {
            text.push_str(&format!("        {name} = {value}\n"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_time_to_the_nanosecond() {
        let event = Event {
            class: "sysevent.fs.zfs.pool_import".to_owned(),
            seconds: 1_700_000_000,
            nanoseconds: 5,
            details: vec![("pool".to_owned(), "\"tank\"".to_owned())],
        };
        let expected = "Nov 14 2023 22:13:20.000000005 sysevent.fs.zfs.pool_import\n";
        assert_eq!(event_text(&event, false, false, &TimeZone::UTC), expected);
        let verbose = event_text(&event, true, true, &TimeZone::UTC);
        assert!(
            verbose.ends_with("\n        pool = \"tank\"\n\n"),
            "{verbose}"
        );
    }
}
