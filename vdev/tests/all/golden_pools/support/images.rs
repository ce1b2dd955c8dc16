//! Unpacks golden images, sparsely and once per build directory.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static UNPACKING: Mutex<()> = Mutex::new(());

fn golden_directory() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden");
    let named = std::env::var_os("CENOTE_GOLDEN").map(PathBuf::from);
    named.into_iter().chain([beside]).find(|path| path.is_dir())
}

/// The directory with the unpacked devices of `kind`; `None` when the pool is not here.
pub fn unpacked(kind: &str) -> Option<PathBuf> {
    let Some(packed) = golden_directory()
        .map(|path| path.join(kind))
        .filter(|path| path.is_dir())
    else {
        eprintln!("skipped: no golden pool {kind}");
        return None;
    };
    let _one_at_a_time = UNPACKING.lock().expect("unpacking does not panic halfway");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("golden")
        .join(kind);
    fs::create_dir_all(&target).expect("the build directory is writable");
    for entry in fs::read_dir(&packed).expect("a readable directory") {
        let path = entry.expect("a readable directory").path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if let Some(name) = name.strip_suffix(".zst") {
            let image = target.join(name);
            if !image.exists() {
                unpack(&path, &image);
            }
        }
    }
    Some(target)
}

fn unpack(packed: &Path, image: &Path) {
    // Another test program may do the same: write aside, then rename.
    let aside = image.with_extension(format!("{}", std::process::id()));
    let out = File::create(&aside).expect("the build directory is writable");
    let mut input = File::open(packed).expect("a readable image");
    let mut context = zstd_safe::DCtx::create();
    let (mut compressed, mut plain) = (vec![0; 1 << 17], vec![0; 1 << 17]);
    let mut at = 0;
    loop {
        let count = input.read(&mut compressed).expect("a readable image");
        if count == 0 {
            break;
        }
        let mut source = zstd_safe::InBuffer::around(&compressed[..count]);
        let mut is_full = false;
        while source.pos() < count || is_full {
            let mut sink = zstd_safe::OutBuffer::around(&mut plain[..]);
            context
                .decompress_stream(&mut sink, &mut source)
                .expect("a sound zstd stream");
            let written = sink.pos();
            is_full = written == plain.len();
            if plain[..written].iter().any(|byte| *byte != 0) {
                out.write_all_at(&plain[..written], at).expect("writable");
            }
            at += written as u64;
        }
    }
    out.set_len(at).expect("writable");
    fs::rename(&aside, image).expect("same directory");
}
