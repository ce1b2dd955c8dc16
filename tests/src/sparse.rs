//! Images with holes: unpacking and copying them without writing the zeros.

use anyhow::{Context, Result};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Runs of zeros shorter than this are written.
const PIECE: usize = 64 << 10;

/// log2 of the window of the packed images (`zstd --long=27`).
const WINDOW_LOG: u32 = 27;

/// Unpacks the zstd file `from` into a new sparse file `to`.
pub fn unpack(from: &Path, to: &Path) -> Result<()> {
    let mut packed = File::open(from).with_context(|| format!("{}", from.display()))?;
    let output = File::create(to).with_context(|| format!("{}", to.display()))?;
    let mut context = DCtx::create();
    let set = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG));
    set.map_err(zstd_error).context("window size")?;
    let mut input = vec![0; PIECE];
    let mut piece = vec![0; PIECE];
    let mut filled = 0;
    let mut offset = 0_u64;
    loop {
        let length = packed.read(&mut input)?;
        if length == 0 {
            break;
        }
        let mut source = InBuffer::around(&input[..length]);
        loop {
            let mut target = OutBuffer::around_pos(&mut piece[..], filled);
            let step = context.decompress_stream(&mut target, &mut source);
            step.map_err(zstd_error)
                .with_context(|| format!("{} is damaged", from.display()))?;
            filled = target.pos();
            if filled < PIECE {
                if source.pos() == length {
                    break;
                }
                continue;
            }
            write_unless_zero(&output, &piece, offset)?;
            offset += PIECE as u64;
            filled = 0;
        }
    }
    write_unless_zero(&output, &piece[..filled], offset)?;
    output.set_len(offset + filled as u64)?;
    Ok(())
}

fn zstd_error(code: usize) -> anyhow::Error {
    anyhow::anyhow!(zstd_safe::get_error_name(code))
}

fn write_unless_zero(file: &File, bytes: &[u8], offset: u64) -> Result<()> {
    if bytes.iter().any(|byte| *byte != 0) {
        file.write_all_at(bytes, offset)?;
    }
    Ok(())
}

/// Copies `from` to a new file `to`, holes as holes.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from).with_context(|| format!("{}", from.display()))?;
    let target = File::create(to).with_context(|| format!("{}", to.display()))?;
    let mut buffer = vec![0; 1 << 20];
    for (start, end) in segments(&source)? {
        let mut at = start;
        while at < end {
            let length = usize::try_from(end - at)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            source.read_exact_at(&mut buffer[..length], at)?;
            for (index, piece) in buffer[..length].chunks(PIECE).enumerate() {
                write_unless_zero(&target, piece, at + (index * PIECE) as u64)?;
            }
            at += length as u64;
        }
    }
    target.set_len(source.metadata()?.len())?;
    Ok(())
}

/// The byte ranges of `file` that hold data, by `SEEK_DATA` and `SEEK_HOLE`.
///
/// The position of `file` moves.
pub fn segments(file: &File) -> Result<Vec<(u64, u64)>> {
    let mut segments = Vec::new();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(segments),
            Err(error) => return Err(error).context("SEEK_DATA"),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start)).context("SEEK_HOLE")?;
        anyhow::ensure!(at > start, "SEEK_HOLE of {start} gave {at}");
        segments.push((start, at));
    }
}

/// Fills the whole of `file` with bytes drawn from `seed`, as a disk that lost its mind.
pub fn fill_with_noise(file: &mut File, seed: u64) -> Result<()> {
    let mut left = file.metadata()?.len();
    let mut noise = crate::random::Random::new(seed);
    let mut buffer = vec![0_u8; PIECE];
    while left > 0 {
        noise.fill(&mut buffer);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        file.write_all(&buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}
