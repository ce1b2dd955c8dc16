//! A command line up to the cursor: its options and operands before the current word.

use crate::flag::Flag;

/// What the current word is.
#[derive(Debug)]
pub enum Wanted {
    /// An option.
    Options,
    /// The value of an option.
    Value(Flag),
    /// An operand.
    Operand,
}

/// An unfinished command line.
#[derive(Debug)]
pub struct Line {
    /// The operands before the current word.
    pub operands: Vec<String>,
    /// What the current word is.
    pub wanted: Wanted,
    /// The part of the current word before the value or operand itself: `--device=`, `a,b,`.
    lead: String,
    rest: String,
}

impl Line {
    /// Parses the words after the name of a command with these options.
    pub fn read(flags: &[Flag], before: &[String], current: &str) -> Self {
        let mut operands = Vec::new();
        let mut pending: Option<Flag> = None;
        let mut is_over = false;
        for word in before {
            if pending.take().is_some() {
                continue;
            }
            if is_over || word == "-" || !word.starts_with('-') {
                operands.push(word.clone());
            } else if word == "--" {
                is_over = true;
            } else {
                pending = waits_for_value(flags, word);
            }
        }
        let (wanted, lead) = match (pending, current.split_once('=')) {
            (Some(flag), _) => (Wanted::Value(flag), ""),
            (None, Some((name, _))) if !is_over && name.starts_with("--") => {
                match flags
                    .iter()
                    .find(|flag| flag.is(name) && flag.value.is_some())
                {
                    Some(flag) => (Wanted::Value(*flag), &current[..=name.len()]),
                    None => (Wanted::Options, ""),
                }
            }
            (None, _) if !is_over && current.starts_with('-') => (Wanted::Options, ""),
            (None, _) => (Wanted::Operand, ""),
        };
        let mut line = Line {
            operands,
            wanted,
            lead: lead.to_owned(),
            rest: current[lead.len()..].to_owned(),
        };
        line.leave_list();
        line
    }

    /// In a list, only the last item is completed. In a property's value, a comma does not end an
    /// item.
    fn leave_list(&mut self) {
        let is_list = !self.rest.starts_with('/') && !self.rest.contains('=');
        if let Some(end) = self.rest.rfind(',').filter(|_| is_list) {
            let rest = self.rest.split_off(end + 1);
            self.lead.push_str(&self.rest);
            self.rest = rest;
        }
    }

    /// The text to complete.
    pub fn current(&self) -> &str {
        &self.rest
    }

    /// A candidate with the part of its word that precedes it.
    pub fn whole(&self, found: &str) -> String {
        match found.starts_with(':') {
            true => found.to_owned(),
            false => format!("{}{found}", self.lead),
        }
    }
}

/// The option at the end of a word, if the next word is its value.
fn waits_for_value(flags: &[Flag], word: &str) -> Option<Flag> {
    if word.starts_with("--") {
        let found = flags.iter().find(|flag| flag.is(word));
        return found.filter(|flag| flag.value.is_some()).copied();
    }
    let letters = word.trim_start_matches('-');
    for (at, letter) in letters.char_indices() {
        let found = flags.iter().find(|flag| flag.short == Some(letter))?;
        if found.value.is_some() {
            let is_last = at + letter.len_utf8() == letters.len();
            return Some(*found).filter(|_| is_last);
        }
    }
    None
}
