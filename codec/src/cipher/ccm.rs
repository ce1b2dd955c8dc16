//! AES-CCM with a 12-byte nonce and a 16-byte tag (NIST SP 800-38C, q = 3).
//!
//! CCM encrypts with a counter and authenticates the plaintext with a CBC-MAC over a first block
//! (flags, nonce, length), the clear bytes with their length in front, and the message, each
//! padded with zeros to whole AES blocks. The MAC is a serial chain, so its latency is the speed
//! limit; the counter blocks are independent and hide in its shadow. This file has the framing and
//! the portable [`Blocks`] over the `aes` crate; `ccm_x86` has the same on AES instructions.

use super::{CCM_MESSAGE_MAX, MessageTooLong, NONCE_LENGTH, TAG_LENGTH};
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};

pub(super) type Block = [u8; 16];

/// Flags of a counter block: q - 1.
const COUNTER_FLAGS: u8 = 2;

/// Whether a message is made or opened; the MAC always covers the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Encrypt,
    Decrypt,
}

/// What CCM needs of a keyed block cipher.
pub(super) trait Blocks {
    /// One block through the cipher.
    fn encrypt(&self, block: Block) -> Block;

    /// The MAC chain continued over `data`.
    fn absorb(&self, mac: Block, data: &[Block]) -> Block;

    /// Both at once over the message's whole blocks, counters from 1 on; returns the MAC.
    fn crypt(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        mac: Block,
        data: &mut [Block],
        direction: Direction,
    ) -> Block;
}

/// The counter block of a message with number `counter` < 2^24.
pub(super) fn counter_block(nonce: &[u8; NONCE_LENGTH], counter: u32) -> Block {
    debug_assert!(counter < 1 << 24);
    let mut block = [0; 16];
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block[0] = COUNTER_FLAGS;
    block[1..13].copy_from_slice(nonce);
    block
}

pub(super) fn xor(a: Block, b: Block) -> Block {
    (u128::from_le_bytes(a) ^ u128::from_le_bytes(b)).to_le_bytes()
}

/// Encrypts or decrypts `buffer` in place and returns the tag that belongs to its plaintext.
///
/// # Errors
/// If the message is too long for the 3-byte length; `buffer` is then unchanged.
pub(super) fn run(
    cipher: &impl Blocks,
    nonce: &[u8; NONCE_LENGTH],
    aad: &[u8],
    buffer: &mut [u8],
    direction: Direction,
) -> Result<[u8; TAG_LENGTH], MessageTooLong> {
    run_with_tag_length(cipher, nonce, aad, buffer, direction, TAG_LENGTH as u8)
}

/// [`run`] for any tag length; shorter tags are prefixes, but of a different MAC.
fn run_with_tag_length(
    cipher: &impl Blocks,
    nonce: &[u8; NONCE_LENGTH],
    aad: &[u8],
    buffer: &mut [u8],
    direction: Direction,
    tag_length: u8,
) -> Result<[u8; TAG_LENGTH], MessageTooLong> {
    if buffer.len() > CCM_MESSAGE_MAX {
        return Err(MessageTooLong(buffer.len()));
    }
    let mut first = counter_block(nonce, buffer.len() as u32);
    first[0] |= (((tag_length - 2) / 2) << 3) | (u8::from(!aad.is_empty()) << 6);
    let mac = absorb_aad(cipher, cipher.encrypt(first), aad);
    let whole_blocks = buffer.len() / 16;
    let (whole, rest) = buffer.as_chunks_mut::<16>();
    let mut mac = cipher.crypt(nonce, mac, whole, direction);
    if !rest.is_empty() {
        let stream = cipher.encrypt(counter_block(nonce, whole_blocks as u32 + 1));
        let mut padded = [0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        let mut output = xor(padded, stream);
        output[rest.len()..].fill(0);
        rest.copy_from_slice(&output[..rest.len()]);
        let plain = if direction == Direction::Encrypt {
            padded
        } else {
            output
        };
        mac = cipher.absorb(mac, &[plain]);
    }
    Ok(xor(mac, cipher.encrypt(counter_block(nonce, 0))))
}

/// The MAC after the clear bytes, which are preceded by their length in 2 or 6 bytes.
fn absorb_aad(cipher: &impl Blocks, mut mac: Block, aad: &[u8]) -> Block {
    if aad.is_empty() {
        return mac;
    }
    let mut first = [0; 16];
    let header = if aad.len() < 0xff00 {
        first[..2].copy_from_slice(&(aad.len() as u16).to_be_bytes());
        2
    } else {
        first[..2].copy_from_slice(&[0xff, 0xfe]);
        first[2..6].copy_from_slice(&(aad.len() as u32).to_be_bytes());
        6
    };
    let taken = aad.len().min(16 - header);
    first[header..header + taken].copy_from_slice(&aad[..taken]);
    mac = cipher.absorb(mac, &[first]);
    let (whole, rest) = aad[taken..].as_chunks::<16>();
    mac = cipher.absorb(mac, whole);
    if !rest.is_empty() {
        let mut padded = [0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        mac = cipher.absorb(mac, &[padded]);
    }
    mac
}

/// AES of any key length from the `aes` crate, the portable twin of the vector kernel.
pub(super) enum Portable {
    Short(Aes128),
    Middle(Aes192),
    Long(Aes256),
}

impl Portable {
    /// `None` unless `key` has 16, 24 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => Aes128::new_from_slice(key).ok().map(Self::Short),
            24 => Aes192::new_from_slice(key).ok().map(Self::Middle),
            32 => Aes256::new_from_slice(key).ok().map(Self::Long),
            _ => None,
        }
    }

    fn encrypt_many(&self, blocks: &mut [Array<u8, aes::cipher::consts::U16>]) {
        match self {
            Self::Short(cipher) => cipher.encrypt_blocks(blocks),
            Self::Middle(cipher) => cipher.encrypt_blocks(blocks),
            Self::Long(cipher) => cipher.encrypt_blocks(blocks),
        }
    }
}

impl Blocks for Portable {
    fn encrypt(&self, block: Block) -> Block {
        let mut blocks = [Array(block)];
        self.encrypt_many(&mut blocks);
        blocks[0].0
    }

    fn absorb(&self, mut mac: Block, data: &[Block]) -> Block {
        for block in data {
            mac = self.encrypt(xor(mac, *block));
        }
        mac
    }

    fn crypt(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        mut mac: Block,
        data: &mut [Block],
        direction: Direction,
    ) -> Block {
        const AT_ONCE: usize = 8;
        let mut counter = 1;
        for group in data.chunks_mut(AT_ONCE) {
            let mut stream: [_; AT_ONCE] =
                std::array::from_fn(|lane| Array(counter_block(nonce, counter + lane as u32)));
            counter += group.len() as u32;
            self.encrypt_many(&mut stream[..group.len()]);
            for (block, stream) in group.iter_mut().zip(stream) {
                let output = xor(*block, stream.0);
                let plain = if direction == Direction::Encrypt {
                    *block
                } else {
                    output
                };
                mac = self.encrypt(xor(mac, plain));
                *block = output;
            }
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use ::ccm::aead::AeadInOut;
    use ::ccm::consts::{U12, U16};
    use proptest::prelude::*;

    #[test]
    fn sp_800_38c_example_3() {
        let key: Vec<u8> = (0x40..0x50).collect();
        let nonce = std::array::from_fn(|at| 0x10 + at as u8);
        let aad: Vec<u8> = (0..0x14).collect();
        let mut buffer: Vec<u8> = (0x20..0x38).collect();
        let cipher = Portable::new(&key).expect("16 bytes");
        let tag = run_with_tag_length(&cipher, &nonce, &aad, &mut buffer, Direction::Encrypt, 8)
            .expect("short");
        assert_eq!(
            buffer,
            hex("e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5")
        );
        assert_eq!(tag[..8], hex("484392fbc1b09951"));
    }

    #[test]
    fn sixteen_mebibytes_are_too_long() {
        let cipher = Portable::new(&[0; 16]).expect("16 bytes");
        let mut buffer = vec![0; 1 << 24];
        let result = run(&cipher, &[0; 12], &[], &mut buffer, Direction::Encrypt);
        assert_eq!(result, Err(MessageTooLong(1 << 24)));
    }

    fn oracle<C>(key: &[u8], nonce: &[u8; 12], aad: &[u8], buffer: &mut [u8]) -> [u8; 16]
    where
        C: BlockCipherEncrypt<BlockSize = U16> + ::ccm::aead::KeyInit,
    {
        let cipher = ::ccm::Ccm::<C, U16, U12>::new_from_slice(key).expect("a length of AES");
        let tag = cipher.encrypt_inout_detached(&(*nonce).into(), aad, buffer.into());
        tag.expect("short").into()
    }

    proptest! {
        #[test]
        fn every_implementation_equals_the_ccm_crate(
            key in any::<[u8; 32]>(),
            nonce in any::<[u8; 12]>(),
            aad in proptest::collection::vec(any::<u8>(), 0..300),
            plain in proptest::collection::vec(any::<u8>(), 0..1500),
        ) {
            for length in [16, 24, 32] {
                let key = &key[..length];
                let mut expected = plain.clone();
                let expected_tag = match length {
                    16 => oracle::<Aes128>(key, &nonce, &aad, &mut expected),
                    24 => oracle::<Aes192>(key, &nonce, &aad, &mut expected),
                    _ => oracle::<Aes256>(key, &nonce, &aad, &mut expected),
                };
                let cipher = Portable::new(key).expect("a length of AES");
                check(&cipher, &nonce, &aad, &plain, &expected, expected_tag)?;
                #[cfg(target_arch = "x86_64")]
                if let Some(cipher) = super::super::ccm_x86::AesNi::new(key) {
                    check(&cipher, &nonce, &aad, &plain, &expected, expected_tag)?;
                }
            }
        }
    }

    fn check(
        cipher: &impl Blocks,
        nonce: &[u8; 12],
        aad: &[u8],
        plain: &[u8],
        expected: &[u8],
        expected_tag: [u8; 16],
    ) -> Result<(), TestCaseError> {
        let mut buffer = plain.to_vec();
        let tag = run(cipher, nonce, aad, &mut buffer, Direction::Encrypt).expect("short");
        prop_assert_eq!(&buffer, expected);
        prop_assert_eq!(tag, expected_tag);
        let tag = run(cipher, nonce, aad, &mut buffer, Direction::Decrypt).expect("short");
        prop_assert_eq!(&buffer, plain);
        prop_assert_eq!(tag, expected_tag);
        Ok(())
    }

    #[test]
    fn long_clear_bytes_have_a_six_byte_length() {
        let aad = vec![0x5a; 0x1_0123];
        let (mut buffer, mut expected) = (vec![1; 100], vec![1; 100]);
        let expected_tag = oracle::<Aes256>(&[3; 32], &[4; 12], &aad, &mut expected);
        let cipher = Portable::new(&[3; 32]).expect("32 bytes");
        let tag = run(&cipher, &[4; 12], &aad, &mut buffer, Direction::Encrypt).expect("short");
        assert_eq!((buffer, tag), (expected, expected_tag));
    }
}
