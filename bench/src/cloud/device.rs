//! The device alone: what its requests cost when nothing above it is to blame.

use super::files::Noise;
use super::line::{KEY, Line, SECRET};
use super::report::{Bar, Report};
use anyhow::{Result, ensure};
use cenote_cloud::format::Class;
use cenote_cloud::store::s3::Surroundings;
use cenote_cloud::{Close, CloudDevice, Opening, StoreOpener};
use cenote_device::Device;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the large file is once ZFS has compressed it.
const LARGE: usize = 65_000_000;
/// Where the device has its metadata, and how much of it.
const METADATA: u64 = 1 << 30;
const METADATA_BYTES: u64 = 6 << 20;
/// A block of metadata.
const BLOCK: u64 = 4 << 10;
/// Blocks that are looked for in no order.
const LOOKED_FOR: u64 = 1000;

struct Machine {
    opener: StoreOpener,
    path: PathBuf,
    opening: Opening,
}

impl Machine {
    fn new(line: &Line, state: &Path) -> Self {
        let keys = [
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ];
        let opener = StoreOpener::new(false).with_state(state);
        Self {
            opener: opener.with_surroundings(Surroundings::of_variables(keys)),
            path: PathBuf::from(format!("{}&size=64G", line.name("device"))),
            opening: Opening {
                cache_bytes: 256 << 20,
                ..Opening::default()
            },
        }
    }

    fn open(&self) -> Result<Arc<CloudDevice>> {
        Ok(self.opener.open_device(&self.path, &self.opening)?)
    }
}

/// Reads blocks of metadata in random order, like a walk over directories without prefetch.
fn look(device: &CloudDevice) -> Result<()> {
    let mut noise = Noise::new(5);
    let blocks = METADATA_BYTES / BLOCK;
    for _ in 0..LOOKED_FOR {
        let offset = METADATA + noise.next() % blocks * BLOCK;
        device.read_vec(offset, usize::try_from(BLOCK)?)?;
    }
    Ok(())
}

pub(super) fn measure(line: &Line, place: &Path, idle: u64, report: &mut Report) -> Result<()> {
    report.part("device");
    let here = Machine::new(line, &place.join("here"));
    let (cost, ()) =
        line.measure(|| Ok(here.opener.create_device(&here.path, &here.opening)?))?;
    report.put("made, with the probe", &cost, Bar::NONE);
    let (cost, device) = line.measure(|| here.open())?;
    report.put("opened, new", &cost, Bar::new(1.0, 10));
    let mut noise = Noise::new(3);
    let contents = noise.bytes(LARGE);
    let (cost, ()) = line.measure(|| {
        for (index, piece) in contents.chunks(1 << 20).enumerate() {
            device.write_as(Class::Contents, (index as u64) << 20, piece)?;
        }
        device.flush()?;
        Ok(device.upload()?)
    })?;
    report.put("65 MB written, in the store", &cost, Bar::new(25.0, 60));
    let (cost, ()) = line.measure(|| {
        let metadata = noise.bytes(usize::try_from(METADATA_BYTES)?);
        for (index, block) in metadata.chunks(usize::try_from(BLOCK)?).enumerate() {
            let offset = METADATA + index as u64 * BLOCK;
            device.write_as(Class::Metadata, offset, block)?;
        }
        Ok(device.upload()?)
    })?;
    report.put("6 MiB of metadata written, in the store", &cost, Bar::NONE);
    let (cost, ()) = line.measure(|| {
        for round in 0..20 {
            for block in 0..8 {
                let bytes = noise.bytes(usize::try_from(BLOCK)?);
                let offset = 2 * METADATA + (round * 8 + block) * BLOCK;
                device.write_as(Class::Metadata, offset, &bytes)?;
            }
            device.flush()?;
            device.upload()?;
        }
        Ok(())
    })?;
    report.put(
        "20 small commits, one after the other",
        &cost,
        Bar::new(5.0, 40),
    );
    let (cost, ()) = line.measure(|| {
        std::thread::sleep(Duration::from_secs(idle));
        Ok(())
    })?;
    report.put(&format!("idle for {idle} s"), &cost, Bar::new(f64::MAX, 0));
    let (cost, ()) = line.measure(|| Ok(device.close(Close::Upload)?))?;
    report.put("closed", &cost, Bar::new(1.0, 5));
    drop(device);
    read_back(line, place, &contents, report)
}

/// Opens it where its cache is, and where nothing of it is.
fn read_back(line: &Line, place: &Path, contents: &[u8], report: &mut Report) -> Result<()> {
    let here = Machine::new(line, &place.join("here"));
    let (cost, device) = line.measure(|| here.open())?;
    report.put("opened, with its cache", &cost, Bar::new(1.0, 10));
    let (cost, ()) = line.measure(|| look(&device))?;
    report.put("1000 blocks of metadata, from the cache", &cost, Bar::NONE);
    let (cost, ()) = line.measure(|| Ok(device.close(Close::Upload)?))?;
    report.put("closed, unchanged", &cost, Bar::new(0.3, 3));
    drop(device);
    let there = Machine::new(line, &place.join("there"));
    let (cost, device) = line.measure(|| there.open())?;
    report.put("opened, everything local lost", &cost, Bar::new(1.0, 10));
    let (cost, ()) = line.measure(|| look(&device))?;
    report.put(
        "1000 blocks of metadata, from the store",
        &cost,
        Bar::new(5.0, 120),
    );
    let (cost, read) = line.measure(|| Ok(device.read_vec(0, contents.len())?))?;
    ensure!(read == contents, "what is read is not what was written");
    report.put("65 MB read", &cost, Bar::NONE);
    device.close(Close::Upload)?;
    Ok(())
}
