//! Saving a verification, so that it can be resumed.
//!
//! ```text
//! magic (8)  length of JSON (8)  JSON: Header
//! stack visits, then leaf visits, each VISIT_SIZE
//! per vdev: leaves of its claims, each number (8) and 4096 words
//! checksum of all before (32)
//! ```
//!
//! The file is written beside its final name and renamed, so that there is always a whole one.

use super::claims::Claims;
use super::report::VerifyReport;
use super::walk::Walk;
use cenote_codec::checksum::sha256;
use cenote_dmu::traverse::{VISIT_SIZE, Visit};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

const MAGIC: &[u8; 8] = b"CENOVRF1";
const CHECKSUM_SIZE: usize = 32;

/// What identifies the state and says what follows it.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    pool_guid: u64,
    txg: u64,
    all_copies: bool,
    roots: usize,
    begun: usize,
    stack: usize,
    leaves: usize,
    vdevs: Vec<VdevHeader>,
    clones: Vec<((u64, u64), u64)>,
    report: VerifyReport,
}

#[derive(Debug, Serialize, Deserialize)]
struct VdevHeader {
    id: u64,
    ashift: u32,
    leaves: usize,
}

/// A saved verification cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be read or written.
    #[error("verification state {path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not a whole state.
    #[error("verification state {path} is damaged; remove it to start over")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
    },
    /// It belongs to another pool, txg or kind of verification.
    #[error("verification state {path} is of another pool, txg or kind; remove it to start over")]
    Foreign {
        /// The file.
        path: std::path::PathBuf,
    },
}

fn checksum_bytes(bytes: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let mut out = [0; CHECKSUM_SIZE];
    for (chunk, word) in out.chunks_exact_mut(8).zip(sha256(bytes)) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// What a state must match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) pool_guid: u64,
    pub(crate) txg: u64,
    pub(crate) all_copies: bool,
}

fn encode(walk: &Walk, identity: Identity) -> Result<Vec<u8>, std::io::Error> {
    let claims = &walk.books.claims;
    let (begun, stack, leaves) = walk.order.pending();
    let vdevs = claims.vdevs.iter();
    let header = Header {
        pool_guid: identity.pool_guid,
        txg: identity.txg,
        all_copies: identity.all_copies,
        roots: walk.order.roots().len(),
        begun,
        stack: stack.len(),
        leaves: leaves.len(),
        vdevs: vdevs
            .map(|(id, vdev)| VdevHeader {
                id: *id,
                ashift: vdev.ashift,
                leaves: vdev.map.leaves().count(),
            })
            .collect(),
        clones: claims
            .clones
            .iter()
            .map(|(place, count)| (*place, *count))
            .collect(),
        report: walk.books.report.clone(),
    };
    let json = serde_json::to_vec(&header)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&json);
    for visit in stack.iter().chain(leaves) {
        visit.encode(&mut bytes);
    }
    for vdev in claims.vdevs.values() {
        for (number, words) in vdev.map.leaves() {
            bytes.extend_from_slice(&number.to_le_bytes());
            words
                .iter()
                .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
    }
    bytes.extend_from_slice(&checksum_bytes(&bytes));
    Ok(bytes)
}

/// Saves `walk` to `path`, durably.
pub(crate) fn save(path: &Path, walk: &Walk, identity: Identity) -> Result<(), StateError> {
    let write = || {
        let beside = path.with_extension("new");
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(&encode(walk, identity)?)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|source| StateError::File {
        path: path.to_owned(),
        source,
    })
}

/// Takes `length` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(front)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?))
}

fn header_of(bytes: &mut &[u8]) -> Option<Header> {
    if take(bytes, MAGIC.len())? != MAGIC {
        return None;
    }
    let length = usize::try_from(take_u64(bytes)?).ok()?;
    serde_json::from_slice(take(bytes, length)?).ok()
}

fn take_claims(bytes: &mut &[u8], header: &Header, claims: &mut Claims) -> Option<()> {
    for vdev in &header.vdevs {
        let target = claims
            .vdevs
            .get_mut(&vdev.id)
            .filter(|v| v.ashift == vdev.ashift)?;
        for _ in 0..vdev.leaves {
            let number = take_u64(bytes)?;
            let words = take(bytes, super::segment_map::LEAF_WORDS * 8)?.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
            target.map.set_leaf(number, words.collect());
        }
    }
    claims.clones = header.clones.iter().copied().collect();
    Some(())
}

/// Puts the state saved in `path` into a `walk` that has not begun; false if there is none.
pub(crate) fn load(path: &Path, walk: &mut Walk, identity: Identity) -> Result<bool, StateError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => {
            return Err(StateError::File {
                path: path.to_owned(),
                source,
            });
        }
    };
    let damaged = || StateError::Damaged {
        path: path.to_owned(),
    };
    let body = bytes.len().checked_sub(CHECKSUM_SIZE).ok_or_else(damaged)?;
    let (mut bytes, checksum) = bytes.split_at(body);
    if checksum_bytes(bytes) != checksum {
        return Err(damaged());
    }
    let header = header_of(&mut bytes).ok_or_else(damaged)?;
    let matches = header.pool_guid == identity.pool_guid
        && header.txg == identity.txg
        && header.all_copies == identity.all_copies
        && header.roots == walk.order.roots().len();
    if !matches {
        return Err(StateError::Foreign {
            path: path.to_owned(),
        });
    }
    let mut visits = Vec::new();
    for _ in 0..header.stack.saturating_add(header.leaves) {
        let bytes = take(&mut bytes, VISIT_SIZE).ok_or_else(damaged)?;
        visits.push(Visit::decode(bytes, header.roots).map_err(|_| damaged())?);
    }
    take_claims(&mut bytes, &header, &mut walk.books.claims).ok_or_else(damaged)?;
    let leaves = visits.split_off(header.stack);
    walk.order.restore(header.begun, visits, leaves);
    walk.books.report = header.report;
    Ok(true)
}
