//! Threefish-512 with all eight words in registers.
//!
//! A round is four independent add, rotate, xor chains of one instruction each, about a thousand
//! per block, and the whole hash is one serial chain of rounds. Compilers spill words to make room
//! for the key schedule and lose a sixth of the speed, so the rounds are written out: the words
//! stay in eight registers and the key is added from memory. Nothing beyond the base instruction
//! set is needed. The portable twin is `skein::compress`.

#![allow(unsafe_code)]

use super::skein::State;
use std::arch::asm;

/// The key as the rounds add it. Subkey `s` repeats after nine, since the key has nine words and
/// the tweak three.
#[repr(C)]
pub(super) struct KeyTable {
    /// The chaining value and, last, its parity.
    pub(super) words: [u64; 9],
    /// By `s` modulo 9, what is added to word 5: key word `s + 5` and tweak word `s`.
    pub(super) fifth: [u64; 9],
    /// By `s` modulo 9, what is added to word 6: key word `s + 6` and tweak word `s + 1`.
    pub(super) sixth: [u64; 9],
}

macro_rules! mix {
    ($even:literal $odd:literal $rotation:literal) => {
        concat!(
            "add {x", $even, "}, {x", $odd, "}\n", "rol {x", $odd, "}, ", $rotation, "\n",
            "xor {x", $odd, "}, {x", $even, "}\n",
        )
    };
}

/// Adds subkey `$s`; the other numbers are byte offsets into the key table.
macro_rules! subkey {
    ($s:literal: $k0:literal $k1:literal $k2:literal $k3:literal $k4:literal $k5:literal
     $k6:literal $k7:literal) => {
        concat!(
            "add {x0}, [{key} + ",
            $k0,
            "]\n",
            "add {x1}, [{key} + ",
            $k1,
            "]\n",
            "add {x2}, [{key} + ",
            $k2,
            "]\n",
            "add {x3}, [{key} + ",
            $k3,
            "]\n",
            "add {x4}, [{key} + ",
            $k4,
            "]\n",
            "add {x5}, [{key} + ",
            $k5,
            "]\n",
            "add {x6}, [{key} + ",
            $k6,
            "]\n",
            "add {x7}, [{key} + ",
            $k7,
            "]\n",
            "add {x7}, ",
            $s,
            "\n",
        )
    };
}

/// Rounds 0 to 3 of eight; which words are mixed rotates through four patterns.
macro_rules! rounds_0_to_3 {
    () => {
        concat!(
            mix!(0 1 46), mix!(2 3 36), mix!(4 5 19), mix!(6 7 37),
            mix!(2 1 33), mix!(4 7 27), mix!(6 5 14), mix!(0 3 42),
            mix!(4 1 17), mix!(6 3 49), mix!(0 5 36), mix!(2 7 39),
            mix!(6 1 44), mix!(0 7 9), mix!(2 5 54), mix!(4 3 56),
        )
    };
}

/// Rounds 4 to 7 of eight.
macro_rules! rounds_4_to_7 {
    () => {
        concat!(
            mix!(0 1 39), mix!(2 3 30), mix!(4 5 34), mix!(6 7 24),
            mix!(2 1 13), mix!(4 7 50), mix!(6 5 10), mix!(0 3 17),
            mix!(4 1 25), mix!(6 3 29), mix!(0 5 39), mix!(2 7 43),
            mix!(6 1 8), mix!(0 7 35), mix!(2 5 56), mix!(4 3 22),
        )
    };
}

/// The 72 rounds with the subkeys between and after them; `x` has subkey 0 added already.
pub(super) fn encrypt(x: State, key: &KeyTable) -> State {
    let [
        mut x0,
        mut x1,
        mut x2,
        mut x3,
        mut x4,
        mut x5,
        mut x6,
        mut x7,
    ] = x;
    // SAFETY: the instructions write no memory and read only at offsets 0 to 208 of the key table,
    // which has 27 words of 8 bytes; the stack is not used.
    unsafe {
        asm!(
            rounds_0_to_3!(),
            subkey!(1: 8 16 24 32 40 80 152 64),
            rounds_4_to_7!(),
            subkey!(2: 16 24 32 40 48 88 160 0),
            rounds_0_to_3!(),
            subkey!(3: 24 32 40 48 56 96 168 8),
            rounds_4_to_7!(),
            subkey!(4: 32 40 48 56 64 104 176 16),
            rounds_0_to_3!(),
            subkey!(5: 40 48 56 64 0 112 184 24),
            rounds_4_to_7!(),
            subkey!(6: 48 56 64 0 8 120 192 32),
            rounds_0_to_3!(),
            subkey!(7: 56 64 0 8 16 128 200 40),
            rounds_4_to_7!(),
            subkey!(8: 64 0 8 16 24 136 208 48),
            rounds_0_to_3!(),
            subkey!(9: 0 8 16 24 32 72 144 56),
            rounds_4_to_7!(),
            subkey!(10: 8 16 24 32 40 80 152 64),
            rounds_0_to_3!(),
            subkey!(11: 16 24 32 40 48 88 160 0),
            rounds_4_to_7!(),
            subkey!(12: 24 32 40 48 56 96 168 8),
            rounds_0_to_3!(),
            subkey!(13: 32 40 48 56 64 104 176 16),
            rounds_4_to_7!(),
            subkey!(14: 40 48 56 64 0 112 184 24),
            rounds_0_to_3!(),
            subkey!(15: 48 56 64 0 8 120 192 32),
            rounds_4_to_7!(),
            subkey!(16: 56 64 0 8 16 128 200 40),
            rounds_0_to_3!(),
            subkey!(17: 64 0 8 16 24 136 208 48),
            rounds_4_to_7!(),
            subkey!(18: 0 8 16 24 32 72 144 56),
            x0 = inout(reg) x0,
            x1 = inout(reg) x1,
            x2 = inout(reg) x2,
            x3 = inout(reg) x3,
            x4 = inout(reg) x4,
            x5 = inout(reg) x5,
            x6 = inout(reg) x6,
            x7 = inout(reg) x7,
            key = in(reg) key,
            options(pure, readonly, nostack),
        );
    }
    [x0, x1, x2, x3, x4, x5, x6, x7]
}
