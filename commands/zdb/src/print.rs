//! Standard output, and how numbers, times and names are written on it.

use crate::problem::{Problem, UNREADABLE};
use cenote_own_commands::reading::output::escaped;
use cenote_words::format::date::{Form, date};
use cenote_words::format::harmless::harmless;
use cenote_words::format::number::nicenum;
use jiff::tz::TimeZone;
use std::io::{BufWriter, IsTerminal, Write, stdout};

/// Where everything is printed.
pub struct Printer {
    out: BufWriter<Box<dyn Write>>,
    is_terminal: bool,
    /// Whether numbers are exact (`-P`).
    pub exact: bool,
    zone: TimeZone,
    /// The exit code so far.
    pub code: u8,
}

impl Printer {
    /// Prints on standard output.
    pub fn new(exact: bool) -> Self {
        Self {
            out: BufWriter::new(Box::new(stdout())),
            is_terminal: stdout().is_terminal(),
            exact,
            zone: TimeZone::try_system().unwrap_or(TimeZone::UTC),
            code: 0,
        }
    }

    /// Prints text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), Problem> {
        self.bytes(text.as_bytes())
    }

    /// Prints a line.
    pub fn line(&mut self, line: &str) -> Result<(), Problem> {
        self.text(line)?;
        self.bytes(b"\n")
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), Problem> {
        Ok(self.out.flush()?)
    }

    /// Reports on standard error what cannot be read, and continues.
    pub fn complain(&mut self, message: &str) -> Result<(), Problem> {
        self.flush()?;
        eprintln!("zdb: {}", harmless(message));
        self.code = self.code.max(UNREADABLE);
        Ok(())
    }

    /// Reports a failure and continues, unless nothing can be printed any more.
    pub fn survive(&mut self, ended: Result<(), Problem>) -> Result<(), Problem> {
        match ended {
            Err(Problem::Failed(message)) => self.complain(&message),
            ended => ended,
        }
    }

    /// A number: rounded to five characters, or exact with `-P`.
    pub fn number(&self, number: u64) -> String {
        match self.exact {
            true => number.to_string(),
            false => nicenum(number),
        }
    }

    /// A moment in the local time zone.
    pub fn time(&self, seconds: u64) -> String {
        date(seconds, Form::Ctime, &self.zone)
    }

    /// A moment that may be before 1970.
    pub fn signed_time(&self, seconds: i64) -> String {
        let Ok(timestamp) = jiff::Timestamp::from_second(seconds) else {
            return seconds.to_string();
        };
        let zoned = timestamp.to_zoned(self.zone.clone());
        zoned.strftime("%a %b %e %H:%M:%S %Y").to_string()
    }

    /// A name from the disk. A terminal must not obey it.
    pub fn name(&self, name: &[u8]) -> String {
        match std::str::from_utf8(name) {
            Ok(text) if !self.is_terminal => text.to_owned(),
            _ => escaped(name),
        }
    }
}

/// The bars of a histogram: one line for each number from the first to the last that occurs.
pub fn histogram(counts: &[u64], first: u64) -> String {
    const WIDTH: u64 = 40;
    let (Some(low), Some(high)) = (
        counts.iter().position(|count| *count > 0),
        counts.iter().rposition(|count| *count > 0),
    ) else {
        return String::new();
    };
    let most = counts.iter().copied().max().unwrap_or(0).max(WIDTH);
    let mut text = String::new();
    for (index, count) in counts.iter().enumerate().take(high + 1).skip(low) {
        let stars = u128::from(*count) * u128::from(WIDTH);
        let stars = usize::try_from(stars.div_ceil(u128::from(most))).unwrap_or(0);
        let number = first + index as u64;
        text.push_str(&format!(
            "\t\t\t{number:3}: {count:6} {}\n",
            "*".repeat(stars)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenZFS prints a metaslab's segments.
    #[test]
    fn histograms_have_a_star_for_what_there_is() {
        let text = histogram(&[0, 3, 45, 0, 1], 8);
        let stars = "*".repeat(40);
        let expected = format!(
            "\t\t\t  9:      3 ***\n\t\t\t 10:     45 {stars}\n\t\t\t 11:      0 \n\
             \t\t\t 12:      1 *\n"
        );
        assert_eq!(text, expected);
        assert_eq!(histogram(&[0; 9], 0), "");
        assert!(histogram(&[u64::MAX], 0).contains(&stars));
    }
}
