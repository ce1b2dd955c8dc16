//! Values that are computed when first asked for, where computing may fail.

use std::sync::OnceLock;

/// The value of `cell`, computed by `make` if it is not there yet; a failure is not kept.
///
/// Two threads may both compute it; the first value stays.
pub(crate) fn get_or_try<T, E>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&T, E> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = make()?;
    Ok(cell.get_or_init(|| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_forgotten_and_values_kept() {
        let cell = OnceLock::new();
        assert_eq!(get_or_try(&cell, || Err::<u8, _>("no")), Err("no"));
        assert_eq!(get_or_try(&cell, || Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(get_or_try(&cell, || Ok::<_, ()>(2)), Ok(&1));
    }
}
