//! What a listing is of, and in which order.

use crate::tree::{Entry, EntryKind};
use std::cmp::{Ordering, Reverse};

/// By what entries are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Key {
    #[default]
    Name,
    Modified,
    Size,
}

/// The order of a listing; directories always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub key: Key,
    pub is_descending: bool,
}

impl Order {
    /// Reads a query such as Apache's `C=M;O=D`: column `N`, `M` or `S`, order `A` or `D`.
    pub fn of_query(query: Option<&str>) -> Self {
        let mut order = Self::default();
        for part in query.unwrap_or("").split(['&', ';']) {
            match part {
                "C=N" => order.key = Key::Name,
                "C=M" => order.key = Key::Modified,
                "C=S" => order.key = Key::Size,
                "O=A" => order.is_descending = false,
                "O=D" => order.is_descending = true,
                _ => {}
            }
        }
        order
    }

    pub fn sort(self, entries: &mut [Entry]) {
        let compare = |a: &Entry, b: &Entry| {
            let keys = match self.key {
                Key::Name => Ordering::Equal,
                Key::Modified => a.modified.cmp(&b.modified),
                Key::Size => a.size.cmp(&b.size),
            };
            let ascending = keys.then_with(|| a.name.cmp(&b.name));
            match self.is_descending {
                true => ascending.reverse(),
                false => ascending,
            }
        };
        let is_directory = |entry: &Entry| entry.kind == EntryKind::Directory;
        entries.sort_unstable_by(|a, b| {
            let directories = Reverse(is_directory(a)).cmp(&Reverse(is_directory(b)));
            directories.then_with(|| compare(a, b))
        });
    }
}

/// The heading of a listing.
#[derive(Debug, Default)]
pub(crate) struct Heading {
    /// The path of the directory, decoded.
    pub path: Vec<Vec<u8>>,
    pub order: Order,
    /// Whether there are more entries than are listed.
    pub is_cut: bool,
    /// CSS in place of the built-in style sheet.
    pub style_sheet: Option<String>,
}
