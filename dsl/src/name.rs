//! Names of datasets, snapshots and bookmarks, and which names are allowed.
//!
//! `pool/a/b` is a file system or volume, `pool/a@s` a snapshot of `pool/a`, `pool/a#b` a bookmark
//! of it. Names typed by users are checked strictly and refused with OpenZFS's messages
//! (cli/contract-zfs 1). Names on disk need only be representable, so that hidden datasets (`$MOS`,
//! `%recv`) and names of other releases can be handled.

use std::borrow::Cow;
use std::fmt;

/// Bytes of a full name, the snapshot part included.
pub const NAME_LENGTH_MAX: usize = 255;

/// Slashes in a full name.
pub const NESTING_MAX: usize = 50;

/// Words that begin the names of vdev kinds and hence no pool's.
const RESERVED_PREFIXES: [&str; 4] = ["mirror", "raidz", "draid", "spare"];

/// Why a name is not allowed. The text is what OpenZFS prints after `cannot open 'NAME': `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum NameError {
    #[error("name is too long")]
    TooLong,
    #[error("leading slash in name")]
    LeadingSlash,
    #[error("empty component or misplaced '@' or '#' delimiter in name")]
    EmptyComponent,
    #[error("trailing slash in name")]
    TrailingSlash,
    #[error("invalid character {} in name", quoted(*.0))]
    InvalidCharacter(char),
    #[error("multiple '@' and/or '#' delimiters in name")]
    MultipleDelimiters,
    #[error("pool doesn't begin with a letter")]
    NoLetter,
    #[error("name is reserved")]
    Reserved,
    #[error("self reference, '.' is found in name")]
    SelfReference,
    #[error("parent reference, '..' is found in name")]
    ParentReference,
    #[error("missing '@' delimiter in snapshot name")]
    NoSnapshot,
    #[error("snapshot delimiter '@' is not expected here")]
    SnapshotUnexpected,
    #[error("bookmark delimiter '#' is not expected here")]
    BookmarkUnexpected,
    #[error("maximum name nesting depth exceeded")]
    NestingTooDeep,
}

/// A name from a disk as it is spoken of: a terminal obeys control characters, and a new line would
/// make two lines of one. No name that a user gives has a backslash, so none is meant by mistake.
fn shown(component: &str) -> Cow<'_, str> {
    if !component.contains(char::is_control) {
        return component.into();
    }
    let mut text = String::with_capacity(component.len() + 8);
    for c in component.chars() {
        match c.is_control() {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
    }
    text.into()
}

/// OpenZFS prints the character in quotes, except the one that has a meaning of its own.
fn quoted(character: char) -> String {
    match character {
        '%' => "%".to_owned(),
        other => format!("'{other}'"),
    }
}

/// What the part behind the delimiter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameKind {
    /// A file system or volume: there is no delimiter.
    Head,
    /// A snapshot.
    Snapshot,
    /// A bookmark.
    Bookmark,
}

/// A full name. The order is the one of `zfs list`: a dataset before its snapshots, datasets by
/// the bytes of their names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DatasetName {
    text: String,
    /// Where the `@` or `#` stands; the length without one.
    delimiter: usize,
}

impl DatasetName {
    /// Judges a name that a user gave.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() > NAME_LENGTH_MAX {
            return Err(NameError::TooLong);
        }
        if text.starts_with('/') {
            return Err(NameError::LeadingSlash);
        }
        let delimiter = text.find(['@', '#']).unwrap_or(text.len());
        let (path, rest) = text.split_at(delimiter);
        if rest.is_empty() && path.ends_with('/') && path.len() > 1 {
            return Err(NameError::TrailingSlash);
        }
        for component in path.split('/') {
            check_component(component)?;
        }
        if !rest.is_empty() {
            let name = &rest[1..];
            if name.contains(['@', '#']) {
                return Err(NameError::MultipleDelimiters);
            }
            if name.contains('/') {
                return Err(NameError::TrailingSlash);
            }
            check_component(name)?;
        }
        if path.matches('/').count() > NESTING_MAX {
            return Err(NameError::NestingTooDeep);
        }
        let text = text.to_owned();
        Ok(Self { text, delimiter })
    }

    /// The name of a pool's root dataset from a label. Only its length and delimiters are checked.
    pub fn of_pool(name: &str) -> Result<Self, NameError> {
        Self::from_disk(name.to_owned(), name.len())
    }

    /// Appends a component that was read from a child map.
    pub fn child(&self, component: &[u8]) -> Result<Self, NameError> {
        self.extended('/', component)
    }

    /// The snapshot of this dataset with a name that was read from its snapshot map.
    pub fn snapshot(&self, name: &[u8]) -> Result<Self, NameError> {
        self.extended('@', name)
    }

    /// The bookmark of this dataset with a name that was read from its bookmark map.
    pub fn bookmark(&self, name: &[u8]) -> Result<Self, NameError> {
        self.extended('#', name)
    }

    fn extended(&self, separator: char, component: &[u8]) -> Result<Self, NameError> {
        let component =
            std::str::from_utf8(component).map_err(|_| NameError::InvalidCharacter('\u{fffd}'))?;
        if component.is_empty() {
            return Err(NameError::EmptyComponent);
        }
        if let Some(bad) = component
            .chars()
            .find(|c| matches!(c, '/' | '@' | '#' | '\0'))
        {
            return Err(NameError::InvalidCharacter(bad));
        }
        let dataset = self.dataset_text();
        if dataset.len() + 1 + component.len() > NAME_LENGTH_MAX {
            return Err(NameError::TooLong);
        }
        let text = format!("{dataset}{separator}{}", shown(component));
        let delimiter = if separator == '/' {
            text.len()
        } else {
            dataset.len()
        };
        if text[..delimiter].matches('/').count() > NESTING_MAX {
            return Err(NameError::NestingTooDeep);
        }
        Ok(Self { text, delimiter })
    }

    /// Whether a user could have created this name. Other names come from damaged or malicious
    /// pools. They are listed, but nothing is mounted under them.
    ///
    /// # Errors
    /// The rule that the name breaks.
    pub fn check(&self) -> Result<(), NameError> {
        Self::parse(&self.text).map(drop)
    }

    fn from_disk(text: String, delimiter: usize) -> Result<Self, NameError> {
        if text.len() > NAME_LENGTH_MAX {
            return Err(NameError::TooLong);
        }
        if text[..delimiter].matches('/').count() > NESTING_MAX {
            return Err(NameError::NestingTooDeep);
        }
        Ok(Self { text, delimiter })
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What is named.
    pub fn kind(&self) -> NameKind {
        match self.text.as_bytes().get(self.delimiter) {
            None => NameKind::Head,
            Some(b'@') => NameKind::Snapshot,
            Some(_) => NameKind::Bookmark,
        }
    }

    /// The first component.
    pub fn pool(&self) -> &str {
        self.dataset_text().split('/').next().unwrap_or_default()
    }

    /// The file system or volume: the name up to the delimiter.
    pub fn dataset(&self) -> Self {
        Self {
            text: self.dataset_text().to_owned(),
            delimiter: self.delimiter,
        }
    }

    /// The dataset above; `None` for a pool's root.
    pub fn parent(&self) -> Option<Self> {
        let (above, _) = self.dataset_text().rsplit_once('/')?;
        Some(Self {
            text: above.to_owned(),
            delimiter: above.len(),
        })
    }

    /// The text of [`Self::dataset`].
    pub fn dataset_text(&self) -> &str {
        &self.text[..self.delimiter]
    }

    /// What stands behind the delimiter.
    pub fn after_delimiter(&self) -> Option<&str> {
        self.text.get(self.delimiter + 1..)
    }

    /// The components below the pool.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.dataset_text().split('/').skip(1)
    }

    /// The last component of the dataset's name.
    pub fn last_component(&self) -> &str {
        let dataset = self.dataset_text();
        dataset.rsplit('/').next().unwrap_or(dataset)
    }

    /// Whether a component begins with `$` or `%`, as those of datasets that are never listed do.
    pub fn is_hidden(&self) -> bool {
        let hidden = |part: &str| is_hidden_component(part.as_bytes());
        self.components().any(hidden) || self.after_delimiter().is_some_and(hidden)
    }
}

/// Whether a dataset or snapshot with this name is internal (format/3a 2).
pub fn is_hidden_component(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'$' | b'%'))
}

/// Judges the name of a pool to be made or renamed to.
pub fn check_pool_name(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_LENGTH_MAX {
        return Err(NameError::TooLong);
    }
    if let Some(bad) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(NameError::InvalidCharacter(bad));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(NameError::NoLetter);
    }
    let reserved = RESERVED_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if reserved || name == "log" {
        return Err(NameError::Reserved);
    }
    Ok(())
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':' | ' ')
}

fn check_component(component: &str) -> Result<(), NameError> {
    if component.is_empty() {
        return Err(NameError::EmptyComponent);
    }
    if let Some(bad) = component.chars().find(|c| !is_allowed(*c)) {
        return Err(NameError::InvalidCharacter(bad));
    }
    match component {
        "." => Err(NameError::SelfReference),
        ".." => Err(NameError::ParentReference),
        _ => Ok(()),
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl std::str::FromStr for DatasetName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl Ord for DatasetName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |name: &Self| (name.kind(), name.after_delimiter().map(str::to_owned));
        self.dataset_text()
            .cmp(other.dataset_text())
            .then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for DatasetName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names() {
        let name = DatasetName::parse("tank/a b/c@x:1").expect("a good name");
        assert_eq!(name.pool(), "tank");
        assert_eq!(name.dataset_text(), "tank/a b/c");
        assert_eq!(name.after_delimiter(), Some("x:1"));
        assert_eq!(name.kind(), NameKind::Snapshot);
        assert_eq!(name.components().collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(name.last_component(), "c");
        let bookmark = DatasetName::parse("tank#b").expect("a good name");
        assert_eq!(bookmark.kind(), NameKind::Bookmark);
        assert_eq!(bookmark.dataset().as_str(), "tank");
        assert_eq!(bookmark.dataset().kind(), NameKind::Head);
    }

    #[test]
    fn bad_names_are_refused_in_the_reference_s_words() {
        let deep = "a/".repeat(51) + "a";
        for (text, error) in [
            ("", NameError::EmptyComponent),
            ("/tank", NameError::LeadingSlash),
            ("tank/", NameError::TrailingSlash),
            ("tank//a", NameError::EmptyComponent),
            ("tank/@a", NameError::EmptyComponent),
            ("tank@", NameError::EmptyComponent),
            ("@a", NameError::EmptyComponent),
            ("tank@a@b", NameError::MultipleDelimiters),
            ("tank@a#b", NameError::MultipleDelimiters),
            ("tank/%recv", NameError::InvalidCharacter('%')),
            ("tank/a\u{e9}", NameError::InvalidCharacter('\u{e9}')),
            ("tank/./a", NameError::SelfReference),
            ("tank/..", NameError::ParentReference),
            (&"x".repeat(256), NameError::TooLong),
            (&deep, NameError::NestingTooDeep),
        ] {
            assert_eq!(DatasetName::parse(text), Err(error), "{text}");
        }
        assert_eq!(
            NameError::InvalidCharacter('!').to_string(),
            "invalid character '!' in name"
        );
        assert_eq!(
            NameError::InvalidCharacter('%').to_string(),
            "invalid character % in name"
        );
        assert!(DatasetName::parse(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn names_from_disk_may_be_hidden_but_not_confusing() {
        let pool = DatasetName::of_pool("tank").expect("short");
        let hidden = pool.child(b"%recv").expect("nameable");
        assert!(hidden.is_hidden() && !pool.is_hidden());
        assert!(pool.child(b"a/b").is_err());
        assert!(pool.child(b"").is_err());
        assert!(pool.child(b"\xff").is_err());
        assert!(pool.child(&[b'a'; 251]).is_err(), "255 bytes in all");
        assert_eq!(pool.snapshot(b"s").expect("nameable").as_str(), "tank@s");
    }

    /// A malicious pool had names with escape sequences, and the terminal obeyed them.
    #[test]
    fn names_from_disk_are_shown_without_control_characters() {
        let pool = DatasetName::of_pool("tank").expect("short");
        let child = pool.child(b"a\x1b[2J\nb").expect("nameable");
        assert_eq!(child.as_str(), r"tank/a\u{1b}[2J\nb");
        assert!(child.check().is_err());
        assert!(pool.child(b"..").expect("nameable").check().is_err());
        assert!(pool.child(b".").expect("nameable").check().is_err());
        assert_eq!(pool.child(b"a b:c-d").expect("nameable").check(), Ok(()));
        assert_eq!(
            pool.child(&[7; 250]).expect("250 bytes").kind(),
            NameKind::Head
        );
    }

    #[test]
    fn order_is_by_dataset_first() {
        let mut names: Vec<_> = ["t/a/b", "t/a@z", "t/a-b", "t/a#k", "t/a", "t"]
            .iter()
            .map(|text| DatasetName::parse(text).expect("good"))
            .collect();
        names.sort();
        let sorted: Vec<_> = names.iter().map(DatasetName::as_str).collect();
        assert_eq!(sorted, ["t", "t/a", "t/a@z", "t/a#k", "t/a-b", "t/a/b"]);
    }

    #[test]
    fn pool_names() {
        assert_eq!(check_pool_name("tank-1"), Ok(()));
        assert_eq!(check_pool_name("1tank"), Err(NameError::NoLetter));
        assert_eq!(check_pool_name("mirror9"), Err(NameError::Reserved));
        assert_eq!(check_pool_name("log"), Err(NameError::Reserved));
        assert_eq!(check_pool_name("logs"), Ok(()));
        assert_eq!(
            check_pool_name("a/b"),
            Err(NameError::InvalidCharacter('/'))
        );
    }
}
