//! What a thread writes or reads: for devices that keep metadata apart from contents.
//!
//! Devices are asked through many layers that need not know. So whoever does says it of the
//! thread, for as long as it asks; a device without use for it does not look.

use std::cell::Cell;

/// What bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Nobody says.
    #[default]
    Unknown,
    /// Labels, pointers, directories, tables: small, read before anything else, and often.
    Metadata,
    /// What files and volumes hold.
    Contents,
}

thread_local! {
    static PURPOSE: Cell<Purpose> = const { Cell::new(Purpose::Unknown) };
}

/// Does `work`, in which what this thread asks of devices is of that purpose.
pub fn with_purpose<T>(purpose: Purpose, work: impl FnOnce() -> T) -> T {
    let before = PURPOSE.replace(purpose);
    let result = work();
    PURPOSE.set(before);
    result
}

/// What this thread asks devices for.
pub fn purpose() -> Purpose {
    PURPOSE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_for_the_work() {
        let inner = with_purpose(Purpose::Contents, || {
            (with_purpose(Purpose::Metadata, purpose), purpose())
        });
        assert_eq!(inner, (Purpose::Metadata, Purpose::Contents));
        assert_eq!(purpose(), Purpose::Unknown);
    }
}
