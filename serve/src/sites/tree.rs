//! A site as the server's tree.

use std::sync::Arc;
use std::time::SystemTime;

use super::server::SiteOffer;
use super::site::Site as ShownSite;
use crate::trees::error::TreeFault;
use crate::trees::file::TreeFile;
use crate::trees::find::TreeFound;
use bytes::Bytes;
use cenote_http::{Entry, EntryKind, File, Found, Purpose, Site, Sites, Tree, TreeError};
use cenote_posix::{FileKind, Segment};

use super::page::STATUS_PAGE;

/// What holes are made of.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What is offered, as the server's sites.
pub struct Offered(pub Arc<dyn SiteOffer>);

impl Sites for Offered {
    fn site(&self, host: &str, path: &[Vec<u8>]) -> Option<Site> {
        if path == [STATUS_PAGE] {
            return None;
        }
        let (site, prefix) = self.0.site(host, path)?;
        Some(Site {
            name: site.name(),
            tree: Arc::new(SiteTree(site)),
            prefix,
        })
    }
}

/// A site as a tree.
struct SiteTree(Arc<ShownSite>);

fn error_of(fault: TreeFault) -> TreeError {
    match fault {
        TreeFault::NotFound => TreeError::NotFound,
        TreeFault::Forbidden => TreeError::Forbidden,
        TreeFault::Changed => TreeError::Changed,
        TreeFault::Unavailable(reason) => TreeError::Unavailable(reason),
        TreeFault::Storage(reason) => TreeError::Storage(reason),
    }
}

fn found_of(found: Result<TreeFound, TreeFault>) -> Result<Found, TreeError> {
    match found.map_err(error_of)? {
        TreeFound::File(file) => Ok(Found::File(Arc::new(SiteFile(file)))),
        TreeFound::Directory { modified } => Ok(Found::Directory { modified }),
    }
}

fn kind_of(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::Directory => EntryKind::Directory,
        FileKind::Regular => EntryKind::File,
        FileKind::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

impl Tree for SiteTree {
    fn find_cached(&self, path: &[Vec<u8>]) -> Option<Result<Found, TreeError>> {
        self.0.find_at_hand(path).map(found_of)
    }

    fn find(&self, path: &[Vec<u8>]) -> Result<Found, TreeError> {
        found_of(self.0.find(path))
    }

    fn list(&self, path: &[Vec<u8>], each: &mut dyn FnMut(Entry) -> bool) -> Result<(), TreeError> {
        let listed = self.0.list(path, &mut |entry| {
            each(Entry {
                kind: kind_of(entry.kind),
                name: entry.name,
                size: entry.size,
                modified: entry.modified,
            })
        });
        listed.map_err(error_of)
    }
}

/// A file of a site.
struct SiteFile(TreeFile);

/// A piece of a block, lent to the server.
struct Lent(Segment);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

fn pieces(segments: Vec<Segment>) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(segments.len());
    for segment in segments {
        if segment.block.is_some() {
            pieces.push(Bytes::from_owner(Lent(segment)));
            continue;
        }
        let mut left = segment.length;
        while left > 0 {
            let length = left.min(ZEROS.len());
            pieces.push(Bytes::from_static(&ZEROS[..length]));
            left -= length;
        }
    }
    pieces
}

impl File for SiteFile {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn modified(&self) -> SystemTime {
        self.0.modified()
    }

    fn entity_tag(&self) -> String {
        self.0.tag().to_owned()
    }

    fn read_cached(&self, offset: u64, length: usize) -> Vec<Bytes> {
        pieces(self.0.at_hand(offset, length))
    }

    fn read(&self, offset: u64, length: usize, purpose: Purpose) -> Result<Vec<Bytes>, TreeError> {
        let passes = purpose == Purpose::PassThrough;
        let read = self.0.read(offset, length, passes);
        read.map(pieces).map_err(error_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zeros_of_their_length() {
        let hole = Segment {
            block: None,
            start: 0,
            length: 150_000,
        };
        let pieces = pieces(vec![hole]);
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 150_000);
        assert!(
            pieces
                .iter()
                .all(|piece| piece.iter().all(|byte| *byte == 0))
        );
    }
}
