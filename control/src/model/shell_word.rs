//! Names in commands that people are advised to type.
//!
//! A pool's name may have blanks, and a device's path comes from a label that another machine may
//! have written. In a command the name has to be one word, and nothing in it may be run. Advice has
//! its commands in single quotes, so names get double quotes.

use std::borrow::Cow;

/// A name as a shell takes it for one word: as it is, or in double quotes.
pub fn shell_word(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,#".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('#') {
        return Cow::Borrowed(name);
    }
    let mut word = String::from("\"");
    for c in name.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            word.push('\\');
        }
        word.push(c);
    }
    word.push('"');
    Cow::Owned(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cenote health` advised 'zpool attach my pool /dev/my disk NEW'.
    #[test]
    fn a_name_is_one_word_of_a_command() {
        for plain in ["tank/home@monday", "/dev/disk/by-id/ata-X:0-part1", "größe"] {
            assert_eq!(shell_word(plain), plain);
        }
        assert_eq!(shell_word("my pool"), "\"my pool\"");
        assert_eq!(shell_word("/d/$(rm \"x\")"), "\"/d/\\$(rm \\\"x\\\")\"");
        assert_eq!(shell_word(""), "\"\"");
    }
}
