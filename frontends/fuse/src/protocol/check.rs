//! Decoding requests from arbitrary bytes, for fuzzing.

use super::init::{Offer, Wishes, negotiate};
use super::modification::Modification;
use super::opcode;
use super::request::{Operation, RequestHeader};
use crate::values::Features;

/// Reads a request as a session does, without serving it; says whether it is one.
///
/// For tests that feed it bytes which no kernel sends.
pub fn check_request(bytes: &[u8]) -> bool {
    let Ok((header, arguments)) = RequestHeader::decode(bytes) else {
        return false;
    };
    if header.opcode == opcode::INIT {
        return check_init(arguments);
    }
    match Operation::decode(header.opcode, arguments) {
        Ok(Operation::BatchForget { entries }) => entries.iter().count() <= arguments.len() / 16,
        Ok(Operation::Modify) => Modification::decode(header.opcode, arguments, u64::MAX).is_ok(),
        Ok(_) => true,
        Err(_) => false,
    }
}

fn check_init(arguments: &[u8]) -> bool {
    let wishes = Wishes {
        features: Features::default(),
        readdirplus_always: false,
        request_size_max: 1 << 20,
        write_size_max: 1 << 20,
        background_max: 64,
    };
    let offer = Offer::decode(arguments);
    offer.is_ok_and(|offer| !negotiate(&offer, &wishes).1.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_from_other_bytes() {
        assert!(!check_request(&[]));
        assert!(!check_request(&[0xff; 39]), "shorter than a header");
        let mut lookup = vec![0; 40];
        lookup[..4].copy_from_slice(&42_u32.to_le_bytes());
        lookup[4..8].copy_from_slice(&opcode::LOOKUP.to_le_bytes());
        lookup.extend(b"x\0");
        assert!(check_request(&lookup));
        lookup.pop();
        assert!(!check_request(&lookup), "shorter than it says");
        lookup[..4].copy_from_slice(&41_u32.to_le_bytes());
        assert!(!check_request(&lookup), "a name without its end");
    }

    /// This used to panic: what was missing was computed when nothing was.
    #[test]
    fn a_value_with_bytes_behind_it_is_read() {
        let mut request = vec![0; 40];
        request[..4].copy_from_slice(&68_u32.to_le_bytes());
        request[4..8].copy_from_slice(&opcode::SETXATTR.to_le_bytes());
        request.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        request.extend(b"user.a\0v and");
        assert_eq!(request.len(), 68);
        assert!(check_request(&request));
    }
}
