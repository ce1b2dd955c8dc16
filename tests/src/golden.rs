//! Golden pools: where they are, and copies of their devices to work on.
//!
//! A pool is a directory `KIND` with `manifest.json` and its devices as `v0.img.zst`, `v1.img.zst`
//! and so on. Unpacked devices are kept below the build directory. All tests share them, and only
//! read them; a test that changes one uses [`Golden::copy_to`].

use crate::manifest::Manifest;
use crate::sparse;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::FlockOperation;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// One golden pool.
pub struct Golden {
    /// What it is a sample of, such as `raidz1-3`.
    pub kind: String,
    /// Where the packed devices and the manifest are.
    pub directory: PathBuf,
    /// What is in the pool.
    pub manifest: Manifest,
}

/// The directory of the workspace.
pub fn workspace_root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("this crate lies in the workspace")
        .to_path_buf()
}

/// Where Cargo builds, and unpacked pools are kept.
pub fn build_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => directory.into(),
        None => workspace_root().join("target"),
    }
}

/// Where golden pools are: `$CENOTE_GOLDEN` for another set of the same kinds, then the repository.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    places.extend(std::env::var_os("CENOTE_GOLDEN").map(PathBuf::from));
    places.push(workspace_root().join("tests/data/pools"));
    places
}

/// The kinds of all pools that are here, in order of name.
pub fn kinds() -> Vec<String> {
    let mut kinds = BTreeSet::new();
    for place in places() {
        let Ok(entries) = fs::read_dir(place) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.path().join("manifest.json").is_file() {
                kinds.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    kinds.into_iter().collect()
}

impl Golden {
    /// The pool of this kind; never `None`, because the repository has all kinds.
    ///
    /// # Errors
    /// If its manifest cannot be read, and if there is no such kind.
    pub fn find(kind: &str) -> Result<Option<Self>> {
        for place in places() {
            let directory = place.join(kind);
            let path = directory.join("manifest.json");
            if path.is_file() {
                let text = fs::read_to_string(&path)?;
                let manifest = Manifest::parse(&text)
                    .with_context(|| format!("{} is not a manifest", path.display()))?;
                return Ok(Some(Self {
                    kind: kind.into(),
                    directory,
                    manifest,
                }));
            }
        }
        bail!("there is no golden pool {kind}")
    }

    /// The names of the devices' files, in the order of the manifest.
    pub fn device_names(&self) -> Vec<String> {
        self.manifest.devices.clone()
    }

    /// A directory with the unpacked devices, to be read only.
    pub fn devices(&self) -> Result<PathBuf> {
        let place = build_directory().join("golden");
        let directory = place.join(&self.kind);
        fs::create_dir_all(&directory)?;
        // Other test programs may be unpacking the same pool: they wait for one another.
        let lock = File::create(place.join(format!(".{}.lock", self.kind)))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        for name in self.device_names() {
            let packed = self.directory.join(format!("{name}.zst"));
            let image = directory.join(&name);
            if !is_current(&packed, &image)? {
                let partial = directory.join(format!(".{name}.partial"));
                sparse::unpack(&packed, &partial)?;
                fs::rename(&partial, &image)?;
            }
        }
        Ok(directory)
    }

    /// Copies the devices into `directory`, where they may be changed; returns their paths.
    pub fn copy_to(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let devices = self.devices()?;
        let mut paths = Vec::new();
        for name in self.device_names() {
            let path = directory.join(&name);
            sparse::copy(&devices.join(&name), &path)?;
            paths.push(path);
        }
        ensure!(
            !paths.is_empty(),
            "the manifest of {} names no devices",
            self.kind
        );
        Ok(paths)
    }

    /// Links the devices into `directory`, those in `without` left out: as if they were missing.
    pub fn link_without(&self, directory: &Path, without: &[usize]) -> Result<()> {
        let devices = self.devices()?;
        for (index, name) in self.device_names().iter().enumerate() {
            if !without.contains(&index) {
                std::os::unix::fs::symlink(devices.join(name), directory.join(name))?;
            }
        }
        Ok(())
    }
}

/// Whether `image` was unpacked from `packed` as it is now.
fn is_current(packed: &Path, image: &Path) -> Result<bool> {
    let packed = fs::metadata(packed).with_context(|| format!("{}", packed.display()))?;
    Ok(match fs::metadata(image) {
        Ok(image) => image.modified()? >= packed.modified()?,
        Err(_) => false,
    })
}
