//! Values outside of a program: what it returns, and what the pool answers.

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Nothing.
    Nil,
    /// True or false.
    Boolean(bool),
    /// A number. Those of ZFS are unsigned, so large ones are negative here.
    Number(i64),
    /// Any bytes.
    Text(Vec<u8>),
    /// Values by names; the numbers of a list are names, too.
    Table(Vec<(Vec<u8>, Datum)>),
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl Datum {
    /// A list.
    pub fn list(items: impl IntoIterator<Item = Datum>) -> Self {
        let numbered = items.into_iter().enumerate();
        let named = numbered.map(|(at, item)| ((at + 1).to_string().into_bytes(), item));
        Self::Table(named.collect())
    }
}
