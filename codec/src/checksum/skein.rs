//! Skein-512 with a 256-bit result, keyed with the pool's salt (Skein 1.3 MAC mode).
//!
//! Skein chains Threefish-512, a 72-round block cipher on eight u64 words, in *unique block
//! iteration*: the chaining value is the cipher's key, a tweak holds the byte position and what
//! kind of data is hashed, and the cipher's output is xored with its input. One hash is four such
//! chains: key, configuration, message, output. The first two depend on the salt alone and are
//! computed once ([`Skein::keyed`]).

#[cfg(target_arch = "x86_64")]
use super::skein_x86 as vector;

#[cfg(any(test, not(target_arch = "x86_64")))]
const ROUNDS_PER_LOOP: usize = 8;
const PARITY: u64 = 0x1bd1_1bda_a9fc_1a22;
const FIRST: u64 = 1 << 62;
const FINAL: u64 = 1 << 63;
const TYPE_KEY: u64 = 0;
const TYPE_CONFIG: u64 = 4 << 56;
const TYPE_MESSAGE: u64 = 48 << 56;
const TYPE_OUTPUT: u64 = 63 << 56;
/// Rotation counts of the four mixes of round `d mod 8`.
#[cfg(any(test, not(target_arch = "x86_64")))]
const ROTATIONS: [[u32; 4]; ROUNDS_PER_LOOP] = [
    [46, 36, 19, 37],
    [33, 27, 14, 42],
    [17, 49, 36, 39],
    [44, 9, 54, 56],
    [39, 30, 34, 24],
    [13, 50, 10, 17],
    [25, 29, 39, 43],
    [8, 35, 56, 22],
];

pub(super) type State = [u64; 8];

/// A Skein-512 that is ready to hash messages: the chaining value after key and configuration.
#[derive(Clone)]
pub(super) struct Skein {
    chain: State,
}

impl Skein {
    /// Keyed with `key` (empty: plain hash), result of `output_bits` bits, at most 512.
    pub(super) fn keyed(key: &[u8], output_bits: u64) -> Self {
        assert!(output_bits <= 512, "one output block");
        let mut chain = [0; 8];
        if !key.is_empty() {
            iterate(&mut chain, TYPE_KEY, key);
        }
        // Schema "SHA3", version 1, then the result's length in bits; no tree.
        let mut config = [0u8; 32];
        config[..8].copy_from_slice(&0x1_3341_4853u64.to_le_bytes());
        config[8..16].copy_from_slice(&output_bits.to_le_bytes());
        iterate(&mut chain, TYPE_CONFIG, &config);
        Self { chain }
    }

    /// Hashes `data`; the result's first `output_bits` bits count.
    pub(super) fn hash(&self, data: &[u8]) -> [u8; 64] {
        let mut chain = self.chain;
        iterate(&mut chain, TYPE_MESSAGE, data);
        iterate(&mut chain, TYPE_OUTPUT, &[0; 8]);
        let mut out = [0; 64];
        for (bytes, word) in out.chunks_exact_mut(8).zip(chain) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// One unique block iteration over `data` with the tweak's type `kind`; the last block, even of
/// no data at all, is padded with zeros.
fn iterate(chain: &mut State, kind: u64, data: &[u8]) {
    let whole = data.len().saturating_sub(1) / 64 * 64;
    let (blocks, rest) = data.split_at(whole);
    let (blocks, _) = blocks.as_chunks::<64>();
    let mut flags = kind | FIRST;
    let mut position = 0u64;
    for block in blocks {
        position += 64;
        *chain = compress(chain, [position, flags], block);
        flags = kind;
    }
    let mut last = [0u8; 64];
    last[..rest.len()].copy_from_slice(rest);
    *chain = compress(chain, [position + rest.len() as u64, flags | FINAL], &last);
}

fn load(block: &[u8; 64]) -> State {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}

/// Adds subkey `$s`: key words from `$s` on, the tweak in words 5 and 6, the counter in word 7.
macro_rules! add_subkey {
    ($x:ident, $key:ident, $tweak:ident, $s:expr) => {
        $x[0] = $x[0].wrapping_add($key[$s % 9]);
        $x[1] = $x[1].wrapping_add($key[($s + 1) % 9]);
        $x[2] = $x[2].wrapping_add($key[($s + 2) % 9]);
        $x[3] = $x[3].wrapping_add($key[($s + 3) % 9]);
        $x[4] = $x[4].wrapping_add($key[($s + 4) % 9]);
        $x[5] = $x[5].wrapping_add($key[($s + 5) % 9].wrapping_add($tweak[$s % 3]));
        $x[6] = $x[6].wrapping_add($key[($s + 6) % 9].wrapping_add($tweak[($s + 1) % 3]));
        $x[7] = $x[7].wrapping_add($key[($s + 7) % 9].wrapping_add($s as u64));
    };
}

/// One round: four mixes on pairs of words. The permutation of words between rounds is in the
/// choice of pairs, which repeats after four rounds.
#[cfg(any(test, not(target_arch = "x86_64")))]
macro_rules! round {
    ($x:ident, $d:expr, $($pair:expr => ($even:expr, $odd:expr)),*) => {
        $(
            $x[$even] = $x[$even].wrapping_add($x[$odd]);
            $x[$odd] = $x[$odd].rotate_left(ROTATIONS[$d][$pair]) ^ $x[$even];
        )*
    };
}

#[cfg(any(test, not(target_arch = "x86_64")))]
macro_rules! four_rounds {
    ($x:ident, $d:expr) => {
        round!($x, $d, 0 => (0, 1), 1 => (2, 3), 2 => (4, 5), 3 => (6, 7));
        round!($x, $d + 1, 0 => (2, 1), 1 => (4, 7), 2 => (6, 5), 3 => (0, 3));
        round!($x, $d + 2, 0 => (4, 1), 1 => (6, 3), 2 => (0, 5), 3 => (2, 7));
        round!($x, $d + 3, 0 => (6, 1), 1 => (0, 7), 2 => (2, 5), 3 => (4, 3));
    };
}

#[cfg(any(test, not(target_arch = "x86_64")))]
macro_rules! eight_rounds {
    ($x:ident, $key:ident, $tweak:ident, $($s:expr),*) => {
        $(
            add_subkey!($x, $key, $tweak, 2 * $s);
            four_rounds!($x, 0);
            add_subkey!($x, $key, $tweak, 2 * $s + 1);
            four_rounds!($x, 4);
        )*
    };
}

/// Threefish-512 of `block` under the key `chain`, xored with `block`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn compress(chain: &State, tweak: [u64; 2], block: &[u8; 64]) -> State {
    let (words, tweak) = expand(chain, tweak);
    let sum = |key: usize, step: usize| words[key % 9].wrapping_add(tweak[step % 3]);
    let key = vector::KeyTable {
        words,
        fifth: std::array::from_fn(|s| sum(s + 5, s)),
        sixth: std::array::from_fn(|s| sum(s + 6, s + 1)),
    };
    let message = load(block);
    let mut x = message;
    add_subkey!(x, words, tweak, 0);
    let x = vector::encrypt(x, &key);
    std::array::from_fn(|word| x[word] ^ message[word])
}

#[cfg(not(target_arch = "x86_64"))]
use compress_portable as compress;

/// [`compress`] in portable code.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn compress_portable(chain: &State, tweak: [u64; 2], block: &[u8; 64]) -> State {
    let (key, tweak) = expand(chain, tweak);
    let message = load(block);
    let mut x = message;
    eight_rounds!(x, key, tweak, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    add_subkey!(x, key, tweak, 18);
    std::array::from_fn(|word| x[word] ^ message[word])
}

/// The nine key words and the three tweak words: each with the xor of the others last.
fn expand(chain: &State, tweak: [u64; 2]) -> ([u64; 9], [u64; 3]) {
    let mut key = [0u64; 9];
    key[..8].copy_from_slice(chain);
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *chain;
    key[8] = PARITY ^ ((k0 ^ k1) ^ (k2 ^ k3)) ^ ((k4 ^ k5) ^ (k6 ^ k7));
    (key, [tweak[0], tweak[1], tweak[0] ^ tweak[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// The message of the "random+MAC" known answers of the Skein 1.3 submission, 1024 bits.
    const MESSAGE: &str = "d3090c72167517f7c7ad82a70c2fd3f6443f608301591e598eadb195e8357135\
        ba26fede2ee187417f816048d00fc23512737a2113709a77e4170c49a94b7fdf\
        f45ff579a72287743102e7766c35ca5abc5dfe2f63a1e726ce5fbd2926db03a2\
        dd18b03fc1508a9aac45eb362440203a323e09edee6324ee2e37b4432c1867ed";
    const KEY: &str = "cb41f1706cde09651203c2d0efbaddf847a0d315cb2e53ff8bac41da0002672e\
        920244c66e02d5f0dad3e94c42bb65f0d14157decf4105ef5609d5b0984457c1";

    #[test]
    fn fast_block_function_equals_its_portable_twin() {
        let mut chain: State = std::array::from_fn(|word| 0x0123_4567_89ab_cdef << word);
        for round in 0..50u64 {
            let block = std::array::from_fn(|at| ((at as u64 * 37) ^ (round * 11)) as u8);
            let tweak = [round * 64, TYPE_MESSAGE | (round << 60)];
            let next = compress(&chain, tweak, &block);
            assert_eq!(next, compress_portable(&chain, tweak, &block));
            chain = next;
        }
    }

    #[test]
    fn plain_256_bits() {
        let skein = Skein::keyed(&[], 256);
        let empty = hex("39ccc4554a8b31853b9de7a1fe638a24cce6b35a55f2431009e18780335d2621");
        assert_eq!(skein.hash(&[])[..32], empty);
        let long = hex("aa703b798b6f472baa9d1e1689fa0f70f8dca25a6046bb2c8fb7f34407934ae4");
        assert_eq!(skein.hash(&hex(MESSAGE))[..32], long);
    }

    #[test]
    fn keyed_with_32_and_64_bytes() {
        let short = Skein::keyed(&hex(KEY)[..32], 384).hash(&hex(MESSAGE));
        let expected = hex(
            "dfbf5c1319a1d9d70efb2f1600fbcf694f935907f31d24a16d6cd2fb2d7855a7\
             69681766c0a29da778eed346cd1d740f",
        );
        assert_eq!(short[..48], expected);
        let full = Skein::keyed(&hex(KEY), 512).hash(&hex(MESSAGE));
        let expected = hex(
            "04d8cddb0ad931d54d195899a094684344e902286037272890bce98a41813edc\
             37a3cee190a693fcca613ee30049ce7ec2bdff9613f56778a13f8c28a21d167a",
        );
        assert_eq!(full[..], expected);
    }
}
