//! Names of users and groups, from the system's files.
//!
//! A static binary cannot use the name service switch. Ids that are not in the files are shown as
//! numbers.

/// The two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounts {
    /// `/etc/passwd`.
    Users,
    /// `/etc/group`.
    Groups,
}

impl Accounts {
    fn text(self) -> String {
        let path = match self {
            Accounts::Users => "/etc/passwd",
            Accounts::Groups => "/etc/group",
        };
        // Without the file, all ids are shown as numbers.
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// The name of `id`.
    pub fn name(self, id: u64) -> Option<String> {
        name_in(&self.text(), id)
    }

    /// The id of `name`.
    pub fn id(self, name: &str) -> Option<u64> {
        id_in(&self.text(), name)
    }
}

fn id_in(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let is_it = fields.next() == Some(name);
        fields.nth(1)?.parse().ok().filter(|_| is_it)
    })
}

fn name_in(text: &str, id: u64) -> Option<String> {
    for line in text.lines() {
        let mut fields = line.split(':');
        let name = fields.next()?;
        if fields.nth(1).and_then(|word| word.parse().ok()) == Some(id) {
            return Some(name.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_the_third_field() {
        let text = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nbob:x:1000:1000::/bob:\n";
        assert_eq!(name_in(text, 0).as_deref(), Some("root"));
        assert_eq!(name_in(text, 1000).as_deref(), Some("bob"));
        assert_eq!(name_in(text, 7), None);
        assert_eq!(id_in(text, "bob"), Some(1000));
        assert_eq!(id_in(text, "broken"), None);
    }
}
