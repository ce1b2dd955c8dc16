//! Linear combinations of columns, and the choice of the kernel that computes them.
//!
//! [`combine`] cuts the columns where one of them ends, so that a kernel sees sources and outputs
//! of one length only. A kernel comes in variants for the number of outputs; an output whose
//! factors are all one (P, or a column rebuilt from P) takes plain xors. The portable kernel is
//! the twin of the vector ones.

use super::equations::PARITY_MAX;
use super::field::double_bytes;
#[cfg(target_arch = "x86_64")]
use super::kernel_x86;

/// A column that is read, with its factor in each output.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) data: &'a [u8],
    pub(super) factors: [u8; PARITY_MAX],
}

/// Sources of one combination; without an allocation for all but the widest layouts, because
/// small blocks are a matter of a hundred nanoseconds.
pub(super) struct Sources<'a> {
    inline: [Source<'a>; INLINE_SOURCES],
    count: usize,
    /// All of them, once there are too many for `inline`.
    spilled: Vec<Source<'a>>,
}

const INLINE_SOURCES: usize = 16;

impl<'a> Sources<'a> {
    pub(super) fn new() -> Self {
        let empty = Source {
            data: &[],
            factors: [0; PARITY_MAX],
        };
        Self {
            inline: [empty; INLINE_SOURCES],
            count: 0,
            spilled: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, source: Source<'a>) {
        if let Some(slot) = self.inline.get_mut(self.count) {
            *slot = source;
        } else {
            if self.spilled.is_empty() {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push(source);
        }
        self.count += 1;
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Source<'a>] {
        if self.count <= INLINE_SOURCES {
            &mut self.inline[..self.count]
        } else {
            &mut self.spilled
        }
    }
}

/// A column that is written.
#[derive(Default)]
pub(super) struct Output<'a> {
    pub(super) data: &'a mut [u8],
}

/// An implementation of the arithmetic; all compute the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 64-bit words, on every CPU.
    Portable,
    /// AVX2 byte shuffles.
    Avx2,
    /// GFNI on AVX-512 registers.
    Avx512Gfni,
}

impl Kernel {
    /// The fastest that this CPU has.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if kernel_x86::has_avx512_gfni() {
                return Self::Avx512Gfni;
            }
            if kernel_x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Copies `source` to outputs of its length.
    pub(super) fn copy(self, source: &[u8], outputs: &mut [&mut [u8]]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Gfni => kernel_x86::copy_avx512(source, outputs),
            _ => {
                for output in outputs {
                    output.copy_from_slice(source);
                }
            }
        }
    }

    fn run(self, sources: &[Source<'_>], outputs: &mut [Output<'_>], all_ones: bool) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Gfni => kernel_x86::combine_avx512_gfni(sources, outputs, all_ones),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => kernel_x86::combine_avx2(sources, outputs, all_ones),
            _ => combine_portable(sources, outputs),
        }
    }
}

/// All kernels that run on this CPU, the slowest first.
pub fn kernels() -> Vec<Kernel> {
    let mut list = vec![Kernel::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        if kernel_x86::has_avx2() {
            list.push(Kernel::Avx2);
        }
        if kernel_x86::has_avx512_gfni() {
            list.push(Kernel::Avx512Gfni);
        }
    }
    list
}

/// Writes to each output the sum of all sources times their factors; shorter sources count as
/// zero beyond their end, shorter outputs are cut.
pub(super) fn combine(kernel: Kernel, sources: &mut [Source<'_>], outputs: &mut [Output<'_>]) {
    debug_assert!(outputs.len() <= PARITY_MAX);
    let length = outputs
        .iter()
        .map(|output| output.data.len())
        .max()
        .unwrap_or(0);
    let uniform = outputs.iter().all(|output| output.data.len() == length)
        && sources.iter().all(|source| source.data.len() == length);
    if uniform {
        run_ordered(kernel, sources, outputs);
        return;
    }
    let mut start = 0;
    while start < length {
        let ends = sources.iter().map(|source| source.data.len());
        let ends = ends.chain(outputs.iter().map(|output| output.data.len()));
        let end = ends.filter(|end| *end > start).min().unwrap_or(length);
        combine_segment(kernel, sources, outputs, start, end);
        start = end;
    }
}

/// The part `start..end`, where no column ends in between.
fn combine_segment(
    kernel: Kernel,
    sources: &[Source<'_>],
    outputs: &mut [Output<'_>],
    start: usize,
    end: usize,
) {
    // Outputs that have ended leave a gap, and the factors must move up with the others.
    let mut cut_outputs: [Output<'_>; PARITY_MAX] = Default::default();
    let (mut kept, mut count) = ([0; PARITY_MAX], 0);
    for (at, output) in outputs.iter_mut().enumerate() {
        if output.data.len() >= end {
            cut_outputs[count].data = &mut output.data[start..end];
            kept[count] = at;
            count += 1;
        }
    }
    let mut cut_sources = Sources::new();
    for source in sources.iter().filter(|source| source.data.len() >= end) {
        let factors = kept.map(|at| source.factors[at]);
        cut_sources.push(Source {
            data: &source.data[start..end],
            factors,
        });
    }
    run_ordered(
        kernel,
        cut_sources.as_mut_slice(),
        &mut cut_outputs[..count],
    );
}

/// Runs the kernel with an output of plain xors, if there is one, in the first place.
fn run_ordered(kernel: Kernel, sources: &mut [Source<'_>], outputs: &mut [Output<'_>]) {
    let is_plain = |at: usize| sources.iter().all(|source| source.factors[at] == 1);
    match (0..outputs.len()).find(|at| is_plain(*at)) {
        None => kernel.run(sources, outputs, false),
        Some(0) => kernel.run(sources, outputs, true),
        Some(at) => {
            let mut moved = sources.to_vec();
            moved
                .iter_mut()
                .for_each(|source| source.factors.swap(0, at));
            outputs.swap(0, at);
            kernel.run(&moved, outputs, true);
        }
    }
}

/// The portable kernel, one output and one source after the other in strips that stay in the
/// first-level cache.
fn combine_portable(sources: &[Source<'_>], outputs: &mut [Output<'_>]) {
    const STRIP: usize = 4096;
    let length = outputs.first().map_or(0, |output| output.data.len());
    for start in (0..length).step_by(STRIP) {
        let end = length.min(start + STRIP);
        for (at, output) in outputs.iter_mut().enumerate() {
            let strip = &mut output.data[start..end];
            strip.fill(0);
            for source in sources {
                add_product(strip, &source.data[start..end], source.factors[at]);
            }
        }
    }
}

/// `strip += factor * source`, eight bytes at a time.
fn add_product(strip: &mut [u8], source: &[u8], factor: u8) {
    let (words, rest) = strip.as_chunks_mut::<8>();
    let (source_words, source_rest) = source.as_chunks::<8>();
    for (word, source) in words.iter_mut().zip(source_words) {
        let product = multiply_bytes(u64::from_le_bytes(*source), factor);
        *word = (u64::from_le_bytes(*word) ^ product).to_le_bytes();
    }
    for (byte, source) in rest.iter_mut().zip(source_rest) {
        *byte ^= multiply_bytes(u64::from(*source), factor) as u8;
    }
}

/// Multiplies each of the eight bytes of `word` by `factor`.
#[inline]
fn multiply_bytes(mut word: u64, mut factor: u8) -> u64 {
    let mut product = 0;
    while factor != 0 {
        if factor & 1 == 1 {
            product ^= word;
        }
        factor >>= 1;
        if factor != 0 {
            word = double_bytes(word);
        }
    }
    product
}
