//! Writing a manual page in the macros of man(7).
//!
//! All text is escaped here. So nothing in a table can become a request, and the quotes and dashes
//! of commands can be copied from the page.

/// A page that is being written.
#[derive(Debug)]
pub struct Roff {
    text: String,
}

/// The title of a section of the manual.
fn volume(section: u8) -> &'static str {
    match section {
        1 => "User Commands",
        5 => "File Formats",
        7 => "Miscellaneous Information",
        _ => "System Administration",
    }
}

/// Text escaped so that roff prints it unchanged.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            // The caller handles line breaks, tabs and the like.
            c if c.is_control() => escaped.push(' '),
            c if c.is_ascii() => escaped.push(c),
            c => escaped.push_str(&format!("\\[u{:04X}]", u32::from(c))),
        }
    }
    match escaped.starts_with('.') {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}

impl Roff {
    /// A page with this name in a section, and what it is about.
    pub fn new(name: &str, section: u8, summary: &str) -> Self {
        let mut roff = Roff {
            text: String::from(".\\\" Made by 'cenote man' from the program's own tables.\n"),
        };
        let title = escaped(&name.to_uppercase());
        let version = env!("CARGO_PKG_VERSION");
        roff.text.push_str(&format!(
            ".TH \"{title}\" \"{section}\" \"\" \"Cenote {version}\" \"{}\"\n",
            volume(section)
        ));
        roff.section("NAME");
        let (name, summary) = (escaped(name), escaped(summary));
        roff.text.push_str(&format!("{name} \\- {summary}\n"));
        roff
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.text.push_str(&format!(".SH {}\n", escaped(title)));
    }

    /// Lines that stay as they are.
    pub fn lines<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.text.push_str(".nf\n");
        for line in lines {
            self.text.push_str(&escaped(line));
            self.text.push('\n');
        }
        self.text.push_str(".fi\n");
    }

    /// Prose: empty lines separate paragraphs, and indented lines are examples.
    pub fn prose(&mut self, text: &str) {
        let mut is_example = false;
        for line in text.lines() {
            let is_indented = line.starts_with([' ', '\t']);
            match (is_indented, is_example) {
                (true, false) => self.text.push_str(".PP\n.RS 4\n.nf\n"),
                (false, true) => self.text.push_str(".fi\n.RE\n"),
                _ => {}
            }
            is_example = is_indented;
            match line.trim() {
                "" => self.text.push_str(".PP\n"),
                line => {
                    self.text.push_str(&escaped(line));
                    self.text.push('\n');
                }
            }
        }
        if is_example {
            self.text.push_str(".fi\n.RE\n");
        }
    }

    /// An entry of a list: a word with its explanation.
    pub fn entry(&mut self, word: &str, text: &str) {
        self.text
            .push_str(&format!(".TP\n\\fB{}\\fR\n", escaped(word)));
        for line in text.lines() {
            self.text.push_str(&escaped(line.trim()));
            self.text.push('\n');
        }
    }

    /// References to other pages, as one paragraph.
    pub fn see_also(&mut self, pages: &[(String, u8)]) {
        self.section("SEE ALSO");
        let last = pages.len().saturating_sub(1);
        for (index, (name, section)) in pages.iter().enumerate() {
            let comma = if index < last { "," } else { "" };
            self.text
                .push_str(&format!(".BR {} ({section}){comma}\n", escaped(name)));
        }
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_request_or_an_escape() {
        assert_eq!(escaped(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(escaped("'br"), "\\(aqbr");
        assert_eq!(escaped("a\\fBb -x"), "a\\efBb \\-x");
        assert_eq!(escaped("a\nb"), "a b");
        assert_eq!(escaped("ä"), "\\[u00E4]");
    }

    #[test]
    fn indented_lines_are_examples() {
        let mut roff = Roff::new("x", 1, "y");
        roff.prose("Do this:\n  a -b\n\nThen that.");
        let text = roff.finish();
        assert!(
            text.contains("Do this:\n.PP\n.RS 4\n.nf\na \\-b\n.fi\n.RE\n.PP\nThen that.\n"),
            "{text}"
        );
    }
}
