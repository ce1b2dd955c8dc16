//! The files that are stored: the same ones each time, by a seed.

use anyhow::Result;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of the large file.
const LARGE: usize = 96_400_000;
/// Bytes of noise, and of words, in turns.
const TURN: usize = 64 << 10;
/// Files in a directory of the tree.
const TOGETHER: u64 = 36;
/// Words that there are: ten bits each, so that zlib and zstd make 65 MB of the large file.
const WORDS: usize = 1024;

/// The files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) large: PathBuf,
    pub(super) tree: PathBuf,
}

/// Numbers that look random (splitmix64).
#[derive(Debug)]
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = length.div_ceil(8);
        let bytes = (0..words).flat_map(|_| self.next().to_le_bytes());
        bytes.take(length).collect()
    }
}

struct Text {
    words: Vec<String>,
}

impl Text {
    fn new() -> Self {
        let mut noise = Noise::new(7);
        let mut word = || {
            let length = 3 + noise.next() % 6;
            let letter = |noise: &mut Noise| char::from(b'a' + (noise.next() % 26) as u8);
            (0..length).map(|_| letter(&mut noise)).collect()
        };
        Self {
            words: (0..WORDS).map(|_| word()).collect(),
        }
    }

    fn bytes(&self, noise: &mut Noise, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 10);
        while bytes.len() < length {
            let word = &self.words[noise.next() as usize % WORDS];
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(b' ');
        }
        bytes.truncate(length);
        bytes
    }
}

fn make_large(path: &Path, text: &Text) -> Result<()> {
    let mut noise = Noise::new(1);
    let mut file = BufWriter::new(File::create(path)?);
    let mut left = LARGE;
    while left > 0 {
        let length = left.min(TURN);
        file.write_all(&noise.bytes(length))?;
        left -= length;
        let length = left.min(TURN);
        file.write_all(&text.bytes(&mut noise, length))?;
        left -= length;
    }
    file.flush()?;
    Ok(())
}

/// Directories in directories, eight in each; most files are short, and few of them are words.
fn make_tree(root: &Path, text: &Text, count: u64) -> Result<()> {
    let mut noise = Noise::new(2);
    let mut directories = vec![root.to_owned()];
    fs::create_dir_all(root)?;
    for number in 0..count {
        if number % TOGETHER == 0 && number > 0 {
            let parent = &directories[(directories.len() - 1) / 8];
            let next = parent.join(format!("directory-{}", directories.len()));
            fs::create_dir(&next)?;
            directories.push(next);
        }
        let share = (noise.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let length = 64 + (share.powi(3) * 4700.0) as usize;
        let bytes = match noise.next() % 10 {
            0..=6 => noise.bytes(length),
            _ => text.bytes(&mut noise, length),
        };
        let directory = directories.last().unwrap_or(&directories[0]);
        fs::write(directory.join(format!("file-{number:05}.dat")), bytes)?;
    }
    Ok(())
}

/// Makes the files in `directory`, if they are not there.
pub(super) fn make(directory: &Path, count: u64) -> Result<Files> {
    let files = Files {
        large: directory.join(format!("large-{WORDS}")),
        tree: directory.join(format!("tree-{WORDS}-{count}")),
    };
    fs::create_dir_all(directory)?;
    let text = Text::new();
    if !files.large.exists() {
        let partial = directory.join("partial");
        make_large(&partial, &text)?;
        fs::rename(&partial, &files.large)?;
    }
    if !files.tree.exists() {
        let partial = directory.join("partial-tree");
        let _ = fs::remove_dir_all(&partial);
        make_tree(&partial, &text, count)?;
        fs::rename(&partial, &files.tree)?;
    }
    Ok(files)
}
