//! The pool of files that the mounted parts read: made by Cenote itself, in half a minute.
//!
//! `files-pool.sh` makes the same with OpenZFS, inside a guest, which takes half an hour; an image
//! made so is given with `--files-image`.

use super::product::Mounted;
use super::rivals::{output, tool};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of the data file, half of which can be compressed away.
const DATA_BYTES: u64 = 768 << 20;
/// Bytes of it in the file systems with slower compression and with small records.
const ZSTD_BYTES: u64 = 384 << 20;
const SMALL_RECORDS_BYTES: u64 = 256 << 20;
/// Bytes of the image, most of which are never written.
const IMAGE_BYTES: u64 = 8 << 30;
/// Files of 1 to 10 KiB in so many directories.
const DIRECTORIES: usize = 1000;
const FILES_EACH: usize = 100;

/// The file systems, their properties, and how much of the data file each gets.
const FILE_SYSTEMS: [(&str, &[&str], u64); 5] = [
    ("off", &["compression=off"], DATA_BYTES),
    ("lz4", &["compression=lz4"], DATA_BYTES),
    ("zstd", &["compression=zstd"], ZSTD_BYTES),
    (
        "rec16",
        &["compression=lz4", "recordsize=16K"],
        SMALL_RECORDS_BYTES,
    ),
    ("many", &[], 0),
];

/// The image of the pool of files `bf`: the given one, or one that is made once and kept.
pub fn image(directory: &Path, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(image) = given {
        ensure!(image.exists(), "{} does not exist", image.display());
        return Ok(image.to_owned());
    }
    let (image, done) = (directory.join("files.raw"), directory.join("files.made"));
    if done.exists() && image.exists() {
        return Ok(image);
    }
    println!("  (making the pool of files: half a minute, once)");
    let _ = (fs::remove_file(&done), fs::remove_file(&image));
    let data = directory.join("data.bin");
    let size = DATA_BYTES.to_string();
    let words = ["--bytes", &size, "--compressible", "2.0"].map(OsStr::new);
    let mut all = vec![OsStr::new("bench-data"), data.as_os_str()];
    all.extend(words);
    output(&tool("openzfs-ref")?, &all)?;
    File::create(&image)?.set_len(IMAGE_BYTES)?;
    let made = make(&image, &data);
    let _ = fs::remove_file(&data);
    made.context("making the pool of files")?;
    fs::write(done, "")?;
    Ok(image)
}

fn make(image: &Path, data: &Path) -> Result<()> {
    let server = Mounted::start("1G")?;
    let root = server.path();
    let words = [
        "zpool",
        "create",
        "-o",
        "ashift=12",
        "-O",
        "atime=off",
        "-R",
    ]
    .map(OsStr::new);
    let mut all = words.to_vec();
    all.extend([root.as_os_str(), OsStr::new("bf"), image.as_os_str()]);
    server.run(&all)?;
    for (name, properties, bytes) in FILE_SYSTEMS {
        let name = format!("bf/{name}");
        let mut words = vec!["zfs", "create"];
        for property in properties {
            words.extend(["-o", property]);
        }
        words.push(&name);
        let words: Vec<&OsStr> = words.into_iter().map(OsStr::new).collect();
        server.run(&words)?;
        if bytes > 0 {
            let mut copy = File::create(root.join(&name).join("data.bin"))?;
            std::io::copy(&mut File::open(data)?.take(bytes), &mut copy)?;
        }
    }
    many(&root.join("bf/many"))?;
    let words = ["zpool", "export", "bf"].map(OsStr::new);
    server.run(&words).map(drop)
}

fn many(root: &Path) -> Result<()> {
    let contents = [b'x'; 10 << 10];
    for directory in 0..DIRECTORIES {
        let place = root.join(format!("d{directory:03}"));
        fs::create_dir(&place)?;
        for file in directory * FILES_EACH..(directory + 1) * FILES_EACH {
            // Sizes from 1 to 10 KiB in no order.
            let size = 1024 + file * 7919 % 9216;
            fs::write(place.join(format!("file-{file:05}.dat")), &contents[..size])?;
        }
    }
    Ok(())
}
