//! A local side that loses power.

use super::Random;
use crate::local::{Place, PlaceError};
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_device::{Device, DeviceError, DeviceKind, Nature};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is written at once or not at all, in bytes.
const ATOM: u64 = 512;

#[derive(Debug, Default)]
struct Contents {
    /// As programs see it.
    now: Vec<u8>,
    /// As it is once the power is gone.
    durable: Vec<u8>,
    /// What has been written since the last flush.
    unflushed: Vec<(u64, Vec<u8>)>,
    fails_flushes: bool,
}

/// A device in memory whose unflushed writes are lost, or not, at a power cut.
#[derive(Debug)]
pub struct VolatileDevice {
    path: PathBuf,
    contents: Mutex<Contents, ranks::VolatileDevice>,
    size: u64,
}

impl VolatileDevice {
    /// A device of `size` zeros.
    pub fn new(name: &str, size: u64) -> Self {
        let zeros = vec![0; usize::try_from(size).expect("a test's device fits in memory")];
        Self {
            path: name.into(),
            contents: Mutex::new(Contents {
                now: zeros.clone(),
                durable: zeros,
                ..Contents::default()
            }),
            size,
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }

    /// Takes the power away: of what was not flushed, any sectors may have come through.
    pub fn cut_power(&self, random: &mut Random) {
        let mut contents = self.contents();
        let unflushed = std::mem::take(&mut contents.unflushed);
        for (offset, bytes) in unflushed {
            let mut at = 0_usize;
            while at < bytes.len() {
                let position = offset + at as u64;
                let border = (ATOM - position % ATOM) as usize;
                let end = bytes.len().min(at + border);
                if random.permille(500) {
                    let start = position as usize;
                    contents.durable[start..start + end - at].copy_from_slice(&bytes[at..end]);
                }
                at = end;
            }
        }
        contents.now = contents.durable.clone();
    }

    /// From now on flushes fail, or do not.
    pub fn fail_flushes(&self, fail: bool) {
        self.contents().fails_flushes = fail;
    }

    fn check(&self, offset: u64, length: usize) -> Result<usize, DeviceError> {
        match offset.checked_add(length as u64) {
            Some(end) if end <= self.size => Ok(offset as usize),
            _ => Err(DeviceError::OutOfRange {
                path: self.path.clone(),
                offset,
                length: length as u64,
                size: self.size,
            }),
        }
    }
}

impl Device for VolatileDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let start = self.check(offset, buffer.len())?;
        buffer.copy_from_slice(&self.contents().now[start..start + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let start = self.check(offset, bytes.len())?;
        let mut contents = self.contents();
        contents.now[start..start + bytes.len()].copy_from_slice(bytes);
        contents.unflushed.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut contents = self.contents();
        if contents.fails_flushes {
            return Err(DeviceError::Flush {
                path: self.path.clone(),
                source: std::io::ErrorKind::Other.into(),
            });
        }
        for (offset, bytes) in std::mem::take(&mut contents.unflushed) {
            let start = offset as usize;
            contents.durable[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.check(offset, length).map(|_| ())
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Memory,
            logical_block_size: 1,
            rotational: Some(false),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_writable(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Files {
    log: Option<Arc<VolatileDevice>>,
    cache: Option<Arc<VolatileDevice>>,
    small: BTreeMap<String, Vec<u8>>,
    aside: Vec<(String, Arc<VolatileDevice>)>,
}

/// A local side in memory.
#[derive(Debug)]
pub struct SimulatedPlace {
    log_size: u64,
    cache_size: u64,
    files: Mutex<Files, ranks::SimulatedPlace>,
}

impl SimulatedPlace {
    /// One with a log and a cache of these sizes in bytes.
    pub fn new(log_size: u64, cache_size: u64) -> Self {
        Self {
            log_size,
            cache_size,
            files: Mutex::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    /// Takes the power away.
    pub fn cut_power(&self, random: &mut Random) {
        let files = self.files();
        for device in files.log.iter().chain(&files.cache) {
            device.cut_power(random);
        }
    }

    /// Loses the read cache.
    pub fn lose_cache(&self) {
        let mut files = self.files();
        files.cache = None;
        files.small.clear();
    }

    /// Spoils some bytes of the read cache.
    pub fn damage_cache(&self, random: &mut Random) {
        let Some(cache) = self.files().cache.clone() else {
            return;
        };
        let mut contents = cache.contents();
        for _ in 0..20 {
            let at = random.below(self.cache_size) as usize;
            contents.now[at] ^= 1 + random.below(255) as u8;
        }
    }

    /// Logs that were put aside, by name.
    pub fn aside(&self) -> Vec<String> {
        let files = self.files();
        files.aside.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The device with the log.
    pub fn log_device(&self) -> Option<Arc<VolatileDevice>> {
        self.files().log.clone()
    }
}

impl Place for SimulatedPlace {
    fn log(&self) -> Result<Arc<dyn Device>, PlaceError> {
        let new = || Arc::new(VolatileDevice::new("log", self.log_size));
        let mut files = self.files();
        let log: Arc<VolatileDevice> = Arc::clone(files.log.get_or_insert_with(new));
        Ok(log)
    }

    fn put_log_aside(&self, name: &str) -> Result<(), PlaceError> {
        let mut files = self.files();
        if let Some(log) = files.log.take() {
            files.aside.push((name.into(), log));
        }
        Ok(())
    }

    fn cache(&self) -> Result<Option<Arc<dyn Device>>, PlaceError> {
        if self.cache_size == 0 {
            return Ok(None);
        }
        let new = || Arc::new(VolatileDevice::new("cache", self.cache_size));
        let mut files = self.files();
        let cache: Arc<VolatileDevice> = Arc::clone(files.cache.get_or_insert_with(new));
        Ok(Some(cache))
    }

    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, PlaceError> {
        Ok(self.files().small.get(name).cloned())
    }

    fn save(&self, name: &str, bytes: &[u8]) -> Result<(), PlaceError> {
        self.files().small.insert(name.into(), bytes.into());
        Ok(())
    }

    fn name(&self) -> String {
        "memory".into()
    }
}
