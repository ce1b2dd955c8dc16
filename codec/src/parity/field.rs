//! The field GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), generator 2.
//!
//! Addition is xor. Multiplication by a constant is linear over the bits, so it can be written as
//! an 8x8 bit matrix (what GFNI's affine instruction takes) or as two 16-entry tables for the low
//! and the high nibble (what byte shuffles take). All tables are made at compile time.

/// The reduction polynomial without its top bit.
const REDUCTION: u8 = 0x1d;

/// `a * b` by shifting and adding, for making the tables.
const fn multiply_slowly(a: u8, b: u8) -> u8 {
    let (mut shifted, mut product, mut bit) = (a, 0, 0);
    while bit < 8 {
        if b >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted = (shifted << 1) ^ (REDUCTION * (shifted >> 7));
        bit += 1;
    }
    product
}

/// Powers of 2; twice the period, so that the sum of two logarithms needs no reduction.
static EXPONENTIALS: [u8; 510] = exponentials();
static LOGARITHMS: [u8; 256] = logarithms();

const fn exponentials() -> [u8; 510] {
    let mut table = [1; 510];
    let mut at = 1;
    while at < 510 {
        table[at] = multiply_slowly(table[at - 1], 2);
        at += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let exponentials = exponentials();
    let mut table = [0; 256];
    let mut at = 0;
    while at < 255 {
        table[exponentials[at] as usize] = at as u8;
        at += 1;
    }
    table
}

/// `a * b`.
pub(super) fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXPONENTIALS[usize::from(LOGARITHMS[usize::from(a)]) + usize::from(LOGARITHMS[usize::from(b)])]
}

/// `1 / a`; `a` must not be zero.
pub(super) fn invert(a: u8) -> u8 {
    assert_ne!(a, 0, "zero has no inverse");
    EXPONENTIALS[255 - usize::from(LOGARITHMS[usize::from(a)])]
}

/// `2^exponent`.
pub(super) fn power_of_two(exponent: usize) -> u8 {
    EXPONENTIALS[exponent % 255]
}

/// Multiplies each of the eight bytes of `word` by 2.
pub(super) fn double_bytes(word: u64) -> u64 {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let carries = (word & TOPS) >> 7;
    ((word & !TOPS) << 1) ^ carries.wrapping_mul(REDUCTION as u64)
}

/// For each constant the matrix of `gf2p8affineqb`: byte `7 - i` has the input bits whose sum is
/// output bit `i`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) static MATRICES: [u64; 256] = matrices();

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut input = 0;
        while input < 8 {
            let image = multiply_slowly(constant as u8, 1 << input);
            let mut output = 0;
            while output < 8 {
                if image >> output & 1 == 1 {
                    table[constant] |= 1 << (8 * (7 - output) + input);
                }
                output += 1;
            }
            input += 1;
        }
        constant += 1;
    }
    table
}

/// For each constant its products with the 16 low nibbles, then with the 16 high nibbles.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) static NIBBLES: [[u8; 32]; 256] = nibbles();

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const fn nibbles() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[constant][nibble] = multiply_slowly(constant as u8, nibble as u8);
            table[constant][16 + nibble] = multiply_slowly(constant as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        constant += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_generates_and_every_product_agrees() {
        let mut seen = [false; 256];
        for exponent in 0..255 {
            seen[usize::from(power_of_two(exponent))] = true;
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count(), 255);
        assert_eq!(multiply(0x80, 2), 0x1d);
        for a in 0..=255 {
            for b in 0..=255 {
                let product = multiply_slowly(a, b);
                assert_eq!(multiply(a, b), product);
                let nibbles = NIBBLES[usize::from(a)];
                let by_nibbles = nibbles[usize::from(b & 15)] ^ nibbles[16 + usize::from(b >> 4)];
                assert_eq!(by_nibbles, product);
                let matrix = MATRICES[usize::from(a)].to_be_bytes();
                let by_matrix = (0..8).fold(0, |out, bit| {
                    out | (((matrix[bit] & b).count_ones() & 1) as u8) << bit
                });
                assert_eq!(by_matrix, product);
            }
            if a != 0 {
                assert_eq!(multiply(a, invert(a)), 1);
            }
        }
    }

    #[test]
    fn doubling_eight_bytes_at_once() {
        let bytes = [0, 1, 0x7f, 0x80, 0xff, 0x8e, 2, 0x40];
        let expected = bytes.map(|byte| multiply_slowly(byte, 2));
        assert_eq!(
            double_bytes(u64::from_le_bytes(bytes)),
            u64::from_le_bytes(expected)
        );
    }
}
