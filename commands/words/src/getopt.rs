//! Command lines, parsed as getopt does: combined letters, `-oname`, options after operands, `--`.
//! If `$POSIXLY_CORRECT` is set, everything after the first operand is an operand.
//!
//! The error texts are part of the contract: replication tools probe for options by matching
//! `invalid option` in the first line (cli/contract.md 1).
//!
//! A command must not declare an option and ignore it, as `zpool import -E` once did. So the parser
//! remembers which options the command looked up. [`unread`] reports the others once the command
//! has succeeded. A test gives every option of every command and checks that the command looks it
//! up. Checks of combinations use [`Parsed::given`], which does not count as a look-up.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use thiserror::Error;

use crate::flag::Flag;

/// Why a command line cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("invalid option '{0}'")]
    Invalid(String),
    /// No such option, but one with a similar spelling.
    #[error("invalid option '{0}'\n{1}")]
    InvalidNear(String, String),
    /// The command has the option, but not with these operands.
    #[error("option '{0}' has no effect here; leave it out")]
    Idle(String),
    /// The option needs an argument.
    #[error("missing argument for '{0}' option")]
    MissingArgument(String),
}

/// A word of a command line: text, or any bytes.
pub trait Word: Clone + Default + Deref {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
    /// The word made of these bytes.
    fn of(bytes: &[u8]) -> Self;
}

impl Word for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn of(bytes: &[u8]) -> Self {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Word for OsString {
    fn bytes(&self) -> &[u8] {
        OsStr::as_bytes(self)
    }

    fn of(bytes: &[u8]) -> Self {
        OsString::from_vec(bytes.to_vec())
    }
}

/// An option of a command line.
#[derive(Clone, Debug, Default)]
struct Given<W> {
    name: String,
    argument: W,
    is_asked: Cell<bool>,
}

thread_local! {
    /// The options of the last command line that the command has not looked up.
    static UNREAD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the options given since the last call that no code looked up.
pub fn unread() -> Vec<String> {
    UNREAD.take()
}

/// The options of a command line. When dropped, it records those that were never looked up.
#[derive(Debug, Default)]
struct Options<W>(Vec<Given<W>>);

impl<W> Drop for Options<W> {
    fn drop(&mut self) {
        let unread = self.0.iter().filter(|given| !given.is_asked.get());
        let names = unread.map(|given| given.name.clone());
        UNREAD.with_borrow_mut(|all| all.extend(names));
    }
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Parsed<W = String> {
    options: Options<W>,
    /// Everything else, in order.
    pub operands: Vec<W>,
}

impl<W: Word> Parsed<W> {
    /// The options of these names, in order, each with its argument.
    pub fn in_order<'a, 'n>(
        &'a self,
        names: &'n [&'n str],
    ) -> impl Iterator<Item = (&'a str, &'a W)> + use<'a, 'n, W> {
        watch::asked(names);
        let given = self.options.0.iter();
        let meant = given.filter(|given| names.contains(&given.name.as_str()));
        meant.map(|given| {
            given.is_asked.set(true);
            (given.name.as_str(), &given.argument)
        })
    }

    /// Whether an option was given. This counts as a look-up: the option now takes effect.
    pub fn has(&self, name: &str) -> bool {
        self.in_order(&[name]).count() > 0
    }

    /// Whether an option was given, for a check of combinations. This does not count as a look-up.
    pub fn given(&self, name: &str) -> bool {
        self.options.0.iter().any(|given| given.name == name)
    }

    /// Refuses options other than these: the given subcommand does not have the others.
    pub fn only(&self, names: &[&str]) -> Result<(), OptionError> {
        let mut given = self.options.0.iter();
        match given.find(|given| !names.contains(&given.name.as_str())) {
            Some(other) => {
                let dashes = if other.name.len() == 1 { "-" } else { "--" };
                Err(OptionError::Idle(format!("{dashes}{}", other.name)))
            }
            None => Ok(()),
        }
    }

    /// The last argument of an option.
    pub fn last(&self, name: &str) -> Option<&W::Target> {
        let names = [name];
        let last = self.in_order(&names).last();
        last.map(|(_, argument)| &**argument)
    }

    /// All arguments of an option, in order.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a W::Target> + use<'a, W> {
        let names = [name];
        let all: Vec<&'a W> = self
            .in_order(&names)
            .map(|(_, argument)| argument)
            .collect();
        all.into_iter().map(|argument| &**argument)
    }

    /// Parses the command line of a command with these options.
    ///
    /// `name` is how the command looks an option up, `shown` how a wrong one is written in a
    /// message.
    pub fn read(
        flags: &[&Flag],
        name: fn(&Flag) -> String,
        words: &[W],
        shown: fn(&str) -> String,
    ) -> Result<Self, OptionError> {
        watch::declared(flags);
        let mut line = Words::new(words.to_vec());
        let mut parsed = Parsed {
            options: Options(Vec::new()),
            operands: Vec::new(),
        };
        while let Some(word) = line.token().map_err(|error| error.shown(shown))? {
            let found = match &word {
                Token::Operand(word) => {
                    parsed.operands.push(word.clone());
                    continue;
                }
                Token::Letter(letter) => flags.iter().find(|flag| flag.short == Some(*letter)),
                Token::Long(name) => find_long(flags, name),
            };
            let Some(found) = found else {
                return Err(not_known(&word, flags).shown(shown));
            };
            let argument = match found.value.is_some() {
                true => line.value().map_err(|error| error.shown(shown))?,
                false => W::default(),
            };
            parsed.options.0.push(Given {
                name: name(found),
                argument,
                is_asked: Cell::new(false),
            });
        }
        Ok(parsed)
    }
}

/// Finds an option by its long name or an unambiguous prefix of it.
fn find_long<'f>(flags: &'f [&'f Flag], name: &str) -> Option<&'f &'f Flag> {
    let named = || flags.iter().filter(|flag| !flag.long.is_empty());
    let mut like = named().filter(|flag| flag.long.starts_with(name));
    let exact = named().find(|flag| flag.long == name);
    match (exact, like.next(), like.next()) {
        (Some(option), ..) | (None, Some(option), None) => Some(option),
        _ => None,
    }
}

fn not_known<W>(word: &Token<W>, flags: &[&Flag]) -> OptionError {
    let name = match word {
        Token::Letter(letter) => return OptionError::Invalid(format!("-{letter}")),
        Token::Long(name) => format!("--{name}"),
        Token::Operand(_) => String::new(),
    };
    let named = flags.iter().filter(|flag| !flag.long.is_empty());
    let names: Vec<String> = named.map(|flag| format!("--{}", flag.long)).collect();
    match cenote_base::did_you_mean(&name, names.iter().map(String::as_str)) {
        Some(question) => OptionError::InvalidNear(name, question),
        None => OptionError::Invalid(name),
    }
}

/// A token of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<W> {
    /// `-l`, possibly one of several letters after one dash.
    Letter(char),
    /// `--long`.
    Long(String),
    /// Anything else.
    Operand(W),
}

/// A command line that is parsed from beginning to end.
#[derive(Debug)]
pub struct Words<W> {
    rest: std::vec::IntoIter<W>,
    /// What follows the last option in its own word: more letters.
    letters: Vec<u8>,
    /// What follows the last option after `=`.
    attached: Option<W>,
    /// The last option, with its dashes.
    option: String,
    /// Whether only operands follow, as after `--`.
    is_over: bool,
    /// Whether only operands follow an operand.
    is_posix: bool,
}

impl<W: Word> Words<W> {
    /// The words after a command's name.
    pub fn new(words: Vec<W>) -> Self {
        Words {
            rest: words.into_iter(),
            letters: Vec::new(),
            attached: None,
            option: String::new(),
            is_over: false,
            is_posix: std::env::var_os("POSIXLY_CORRECT").is_some(),
        }
    }

    /// The next token. An error if the last option has an attached argument and takes none.
    pub fn token(&mut self) -> Result<Option<Token<W>>, OptionError> {
        if self.attached.is_some() {
            return Err(OptionError::Invalid(self.option.clone()));
        }
        if let Some(letter) = String::from_utf8_lossy(&self.letters).chars().next() {
            return Ok(Some(self.letter(letter)));
        }
        let Some(word) = self.rest.next() else {
            return Ok(None);
        };
        Ok(Some(match word.bytes() {
            _ if self.is_over => Token::Operand(word),
            b"--" => {
                self.is_over = true;
                return self.token();
            }
            [b'-', b'-', long @ ..] => {
                let end = long.iter().position(|byte| *byte == b'=');
                self.attached = end.map(|end| W::of(&long[end + 1..]));
                let name = &long[..end.unwrap_or(long.len())];
                let name = String::from_utf8_lossy(name).into_owned();
                self.option = format!("--{name}");
                Token::Long(name)
            }
            [b'-', letters @ ..] if !letters.is_empty() => {
                self.letters = letters.to_vec();
                return self.token();
            }
            _ => {
                self.is_over = self.is_posix;
                Token::Operand(word)
            }
        }))
    }

    fn letter(&mut self, letter: char) -> Token<W> {
        // Invalid UTF-8 is treated as one unknown letter, and so is the last one.
        let length = letter.len_utf8().min(self.letters.len());
        self.letters.drain(..length);
        self.option = format!("-{letter}");
        Token::Letter(letter)
    }

    /// The argument of the last option.
    pub fn value(&mut self) -> Result<W, OptionError> {
        if let Some(value) = self.attached.take() {
            return Ok(value);
        }
        if !self.letters.is_empty() {
            return Ok(W::of(&std::mem::take(&mut self.letters)));
        }
        let missing = || OptionError::MissingArgument(self.option.clone());
        self.rest.next().ok_or_else(missing)
    }
}

impl OptionError {
    /// The same error with the option formatted by `shown`.
    fn shown(self, shown: fn(&str) -> String) -> Self {
        match self {
            OptionError::Invalid(name) => OptionError::Invalid(shown(&name)),
            OptionError::InvalidNear(name, near) => OptionError::InvalidNear(shown(&name), near),
            OptionError::MissingArgument(name) => OptionError::MissingArgument(shown(&name)),
            other => other,
        }
    }
}

/// Parses a command line of OpenZFS. Options are looked up by their letters ([`Flag::letter`]).
pub fn parse(flags: &[Flag], words: &[String]) -> Result<Parsed, OptionError> {
    // OpenZFS prints an invalid option without its dashes.
    let shown = |name: &str| name.trim_start_matches('-').to_owned();
    let flags: Vec<&Flag> = flags.iter().collect();
    Parsed::read(&flags, Flag::letter, words, shown)
}

pub mod watch {
    //! Which options commands declare and look up, for the test that gives them every option.

    use crate::flag::Flag;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// The options that commands declare, and those that they looked up.
    #[derive(Debug, Default)]
    pub struct Seen {
        /// The options that commands declare.
        pub declared: Vec<Flag>,
        /// The names that they looked up.
        pub asked: BTreeSet<String>,
    }

    thread_local! {
        static SEEN: RefCell<Seen> = RefCell::default();
    }

    pub(super) fn declared(flags: &[&Flag]) {
        SEEN.with_borrow_mut(|seen| seen.declared.extend(flags.iter().copied()));
    }

    pub(super) fn asked(names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned());
        SEEN.with_borrow_mut(|seen| seen.asked.extend(names));
    }

    /// Takes what was seen since the last call.
    pub fn take() -> Seen {
        SEEN.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::flags;

    const LIST: &[Flag] = flags! {
        'H' "" _ "";
        'p' "" _ "";
        'o' "" "FIELD" "";
        'd' "" "DEPTH" "";
        'r' "" _ "";
        'j' "json" _ "";
        _ "json-int" _ "";
        'k' "key" "KEY" "";
    };

    fn read(line: &str) -> Result<Parsed, OptionError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(LIST, &words)
    }

    #[test]
    fn letters_combine_and_mix_with_operands() {
        let parsed = read("-Hpo name tank -d0 -oused a").expect("valid");
        assert_eq!(parsed.operands, ["tank", "a"]);
        assert!(parsed.has("H") && parsed.has("p") && !parsed.has("r"));
        assert_eq!(parsed.last("o"), Some("used"));
        assert_eq!(parsed.all("o").collect::<Vec<_>>(), ["name", "used"]);
        assert_eq!(parsed.last("d"), Some("0"));
    }

    #[test]
    fn two_dashes_end_the_options() {
        let parsed = read("-H -- -p -").expect("valid");
        assert_eq!(parsed.operands, ["-p", "-"]);
        assert!(!parsed.has("p"));
    }

    /// With `POSIXLY_CORRECT=1`, `zfs get all -r` was read as `zfs get -r all`.
    #[test]
    fn options_may_follow_operands_unless_posix_rules() {
        let tokens = |is_posix| {
            let words = ["-H", "all", "-r"].map(str::to_owned);
            let mut line = Words {
                is_posix,
                ..Words::new(words.to_vec())
            };
            let next = || line.token().expect("valid");
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let operand = |word: &str| Token::Operand(word.to_owned());
        let first = [Token::Letter('H'), operand("all")];
        assert_eq!(tokens(false), [&first[..], &[Token::Letter('r')]].concat());
        assert_eq!(tokens(true), [&first[..], &[operand("-r")]].concat());
    }

    #[test]
    fn long_names_may_be_cut_and_carry_arguments() {
        assert!(read("--json").expect("exact").has("j"));
        assert!(read("--json-").expect("unique").has("json-int"));
        assert_eq!(read("--key=a=b").expect("valid").last("k"), Some("a=b"));
        assert_eq!(read("--key v").expect("valid").last("k"), Some("v"));
        assert!(read("--nosuch").is_err());
        assert!(read("--json=1").is_err());
    }

    #[test]
    fn errors_name_the_option() {
        let text = |line| read(line).expect_err("invalid").to_string();
        assert_eq!(text("-HQ"), "invalid option 'Q'");
        assert_eq!(text("-o"), "missing argument for 'o' option");
        assert_eq!(text("-:"), "invalid option ':'");
        assert_eq!(text("--nosuch"), "invalid option 'nosuch'");
    }

    #[test]
    fn options_that_nothing_asks_for_are_reported() {
        let parsed = read("-Hpo name tank").expect("valid");
        assert!(parsed.has("H") && parsed.given("p") && !parsed.has("r"));
        drop(parsed);
        assert_eq!(unread(), ["p", "o"]);
        assert!(unread().is_empty());
    }
}
