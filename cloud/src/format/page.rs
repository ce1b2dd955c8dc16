//! A page of the map: up to 4096 extents, in the encoding of [`super::extents`], compressed.
//!
//! A page is an object's piece with an envelope of its own, so that it can be fetched and checked
//! by itself. Holes are left out: what no extent covers is zero.

use super::{
    CommitNumber, Decoder, Encoder, Extent, FormatError, Kind, Target, Uuid, extents, open, seal,
};

/// Extents of a full page. At 16 bytes an extent that is the 64 KiB that a page is thought of.
pub const PAGE_EXTENTS_MAX: usize = 4096;

/// The page with these extents, new in checkpoint `number`.
pub fn encode(uuid: Uuid, number: CommitNumber, page: &[Extent]) -> Vec<u8> {
    assert!(page.len() <= PAGE_EXTENTS_MAX, "a page is bounded");
    let mut encoder = Encoder::new();
    extents::encode(page, &mut encoder);
    seal(Kind::Page, uuid, number.0, &encoder.finish())
}

/// The extents of a page that was new in checkpoint `number`.
///
/// # Errors
/// Whatever is no such page, or has extents that no page has.
pub fn decode(uuid: Uuid, number: CommitNumber, bytes: &[u8]) -> Result<Vec<Extent>, FormatError> {
    let body = open(Kind::Page, uuid, number.0, bytes)?;
    let mut decoder = Decoder::new(&body);
    let page = extents::decode(&mut decoder)?;
    decoder.finish()?;
    let is_data = |extent: &Extent| matches!(extent.target, Target::Data { .. });
    match page.len() <= PAGE_EXTENTS_MAX && page.iter().all(is_data) {
        true => Ok(page),
        false => Err(FormatError::Invalid("page")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_hold_data_alone() {
        let uuid = Uuid([1; 16]);
        let number = CommitNumber(4);
        let mut page = extents::samples();
        let bytes = encode(uuid, number, &page);
        assert!(decode(uuid, number, &bytes).is_err(), "holes and inline");
        page.retain(|extent| matches!(extent.target, Target::Data { .. }));
        let bytes = encode(uuid, number, &page);
        assert_eq!(decode(uuid, number, &bytes), Ok(page));
        assert!(decode(uuid, CommitNumber(5), &bytes).is_err());
    }
}
