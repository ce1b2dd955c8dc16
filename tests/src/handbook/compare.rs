//! Whether a command printed what a page shows.
//!
//! Words have to be the same. Figures that differ from run to run need only be of the same kind:
//! sizes with a unit, times, dates, durations, percentages, long numbers such as guids. Small
//! numbers have to be the same: three errors are not four. Blanks between words may differ, since
//! the widths of columns depend on the figures. A line `…` stands for any number of lines, and a
//! word `…` for the rest of its line.

/// Days and months, as `date` prints them.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// What a word is, if it may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Size,
    Time,
    Duration,
    Percentage,
    Day,
    Month,
    Year,
    Long,
    Hexadecimal,
}

fn is_number(text: &str) -> bool {
    let digits = text.replacen('.', "", 1);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is a number with a unit of these letters.
fn has_unit(word: &str, units: &[char]) -> bool {
    let number = word.trim_end_matches(units);
    number.len() < word.len() && is_number(number)
}

fn kind(word: &str) -> Option<Kind> {
    let word = word.trim_matches([',', ';', '(', ')', ':', '.', '\'', '"']);
    let word = word.strip_suffix("/s").unwrap_or(word);
    let numbers = word.split(':').collect::<Vec<_>>();
    match word {
        _ if DAYS.contains(&word) => Some(Kind::Day),
        _ if MONTHS.contains(&word) => Some(Kind::Month),
        _ if has_unit(word, &['%']) => Some(Kind::Percentage),
        _ if has_unit(word, &['i', 'B', 'K', 'M', 'G', 'T', 'P']) => Some(Kind::Size),
        _ if has_unit(word, &['m', 'u', 's']) => Some(Kind::Duration),
        _ if numbers.len() >= 2 && numbers.iter().all(|number| is_number(number)) => {
            Some(Kind::Time)
        }
        _ if is_number(word) && !word.contains('.') => match word.len() {
            4 if word.starts_with("20") => Some(Kind::Year),
            6.. => Some(Kind::Long),
            _ => None,
        },
        _ => {
            let digits = word.strip_prefix("0x")?;
            let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            (digits.len() >= 8 && are_digits).then_some(Kind::Hexadecimal)
        }
    }
}

/// Whether a line is what a page shows.
fn is_same(expected: &str, found: &str) -> bool {
    let (mut expected, mut found) = (expected.split_whitespace(), found.split_whitespace());
    let mut is_after_month = false;
    loop {
        let (wanted, word) = match (expected.next(), found.next()) {
            (Some("…"), _) | (None, None) => return true,
            (Some(wanted), Some(word)) => (wanted, word),
            _ => return false,
        };
        let wanted_kind = kind(wanted);
        let is_day_of_month = is_after_month && is_number(wanted) && is_number(word);
        let is_alike = wanted_kind.is_some() && wanted_kind == kind(word);
        if wanted != word && !is_alike && !is_day_of_month {
            return false;
        }
        is_after_month = wanted_kind == Some(Kind::Month);
    }
}

/// Compares what was printed with what a page shows.
///
/// # Errors
/// What differs first, for people.
pub fn lines(expected: &[String], found: &str) -> Result<(), String> {
    let found: Vec<&str> = found.trim_end().lines().collect();
    let mut expected = expected;
    // Pages may leave a line free between commands.
    while let [rest @ .., last] = expected
        && last.trim().is_empty()
    {
        expected = rest;
    }
    let mut at = 0;
    let mut is_open = false;
    for wanted in expected {
        if wanted.trim() == "…" {
            is_open = true;
            continue;
        }
        let mut rest = found.iter().skip(at);
        let next = match is_open {
            true => rest.position(|line| is_same(wanted, line)),
            false => rest.next().filter(|line| is_same(wanted, line)).map(|_| 0),
        };
        let Some(next) = next else {
            let line = found.get(at).unwrap_or(&"nothing more");
            return Err(format!("the page shows  {wanted}\nit printed      {line}"));
        };
        at += next + 1;
        is_open = false;
    }
    match found.get(at) {
        Some(line) if !is_open => Err(format!("the page does not show  {line}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_may_differ_and_words_may_not() {
        assert!(is_same("tank 1.2G 96K", "tank  960M 1.5K"));
        assert!(is_same(
            "scan: scrub repaired 0B in 00:00:01 with 0 errors on Sun Nov 2 10:00:00 2025",
            "scan: scrub repaired 3K in 00:01:59 with 0 errors on Mon Dec 31 11:59:59 2026"
        ));
        assert!(!is_same("with 0 errors", "with 1 errors"));
        assert!(!is_same("ONLINE 0 0 3", "ONLINE 0 0 4"));
        assert!(!is_same("tank 1.2G", "tank -"));
        assert!(!is_same("tank", "tank more"));
        assert!(!is_same("tank more", "tank"));
        assert!(is_same("guid 1234567890", "guid 99999999999999"));
        assert!(is_same("made … by", "made of clay"));
    }

    #[test]
    fn lines_are_left_out_only_where_the_page_says_so() {
        let expected = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(lines(&expected("one\n…\nfour"), "one\ntwo\nthree\nfour\n").is_ok());
        assert!(lines(&expected("one\n…"), "one\ntwo\n").is_ok());
        assert!(lines(&expected("one\n\n"), "one\n").is_ok());
        assert!(lines(&expected("one"), "one\ntwo\n").is_err());
        assert!(lines(&expected("one\n…\nfive"), "one\ntwo\n").is_err());
        assert!(lines(&expected(""), "one\n").is_err());
        assert!(lines(&expected("one"), "").is_err());
    }
}
