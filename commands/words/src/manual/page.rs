//! One page.

/// A page as it is installed in a directory of manual pages.
#[derive(Debug)]
pub struct Page {
    /// Its name, without its section.
    pub name: String,
    /// The section of the manual.
    pub section: u8,
    /// The page in the macros of man(7).
    pub text: String,
}
