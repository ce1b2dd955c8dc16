//! Text that is safe to print.

use std::borrow::Cow;

/// A text without control characters, which names on a disk may hold and a terminal obeys.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(is_harmful) {
        true => text.replace(is_harmful, "?").into(),
        false => text.into(),
    }
}
