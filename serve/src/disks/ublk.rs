//! Disks of volumes by the kernel's ublk driver.
//!
//! A disk has a [`Gate`] in front of its volume. The gate keeps a journal of unflushed writes
//! ([`Unflushed`]), so that a disk that outlives its daemon loses nothing.

use super::label::disk_label_name;
use super::seam::{KernelDisk, KernelDisks, KernelFault, LeftDisk};
use crate::volumes::nbd::VolumeDisk;
use cenote_control::model::{ControlError, Response, UblkLeft, UblkRefusal, UblkStatus};
use cenote_device::kernel_use;
use cenote_engine::ServedVolume;
use cenote_nbd::protocol::ErrorCode;
use cenote_nbd::{BlockDevice, BlockError};
use cenote_ublk::{
    Counters, DeviceOptions, Kept, KernelDevice, Lasting, LeftDevice, UblkError, Unflushed,
    left_devices, remove_left,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The directory of the unflushed writes. It is in memory, and lasts as long as the machine runs.
const KEPT: &str = "/run/cenote/disks";

/// Bytes of a sector, in which the kernel gives sizes.
const SECTOR: u64 = 512;

type Gate = cenote_ublk::Gate<VolumeDisk>;

impl Lasting for VolumeDisk {
    fn flushes_last(&self) -> bool {
        self.served().flushes_last()
    }

    fn make_last(&self) -> Result<(), BlockError> {
        let synced = self.served().sync();
        synced.map_err(|error| BlockError::new(ErrorCode::Io, error))
    }
}

/// Makes disks by ublk.
#[derive(Debug, Default)]
pub struct UblkDisks {
    /// Bytes of unflushed writes of all disks.
    kept: Arc<AtomicU64>,
}

struct UblkDisk {
    device: Arc<KernelDevice>,
    gate: Arc<Gate>,
}

impl UblkDisk {
    fn of(device: KernelDevice, gate: Arc<Gate>) -> Arc<dyn KernelDisk> {
        let device = Arc::new(device);
        Arc::new(Self { device, gate })
    }
}

fn fault(error: UblkError) -> KernelFault {
    match error {
        UblkError::InUse { .. } => KernelFault::Open,
        UblkError::NotBuilt
        | UblkError::NoDriver
        | UblkError::TooOld(_)
        | UblkError::NotPermitted { .. }
        | UblkError::IoUringForbidden { .. }
        | UblkError::NoIoUring { .. } => KernelFault::Unavailable(error.to_string()),
        error => KernelFault::Failed(error.to_string()),
    }
}

fn failed(error: impl std::fmt::Display) -> KernelFault {
    KernelFault::Failed(error.to_string())
}

/// The directory of one disk's unflushed writes. The identity of the volume names it, without the
/// volume's name.
fn kept_at(label: &str) -> PathBuf {
    let identity = label.split(' ').next().unwrap_or(label);
    Path::new(KEPT).join(identity.replace('/', "_"))
}

/// The size of a disk, as the kernel reports it.
fn kernel_size(number: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/block/ublkb{number}/size")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(SECTOR)
}

fn left_device(left: &LeftDisk) -> Result<LeftDevice, KernelFault> {
    let all = left_devices().map_err(fault)?;
    let mut all = all.into_iter();
    let found = all.find(|one| (one.number, &one.name) == (left.number, &left.label));
    found.ok_or_else(|| {
        let number = left.number;
        failed(format!("/dev/ublkb{number} is not there any more"))
    })
}

impl UblkDisks {
    fn gate(
        &self,
        volume: ServedVolume,
        label: &str,
        is_fresh: bool,
    ) -> Result<Arc<Gate>, KernelFault> {
        let directory = kept_at(label);
        let place = Kept::open(&directory);
        let unflushed =
            place.and_then(|place| Unflushed::begin(place, is_fresh, Arc::clone(&self.kept)));
        let unflushed =
            unflushed.map_err(|error| failed(format!("{}: {error}", directory.display())))?;
        Ok(Arc::new(Gate::new(VolumeDisk::new(volume), unflushed)))
    }
}

impl KernelDisks for UblkDisks {
    fn check(&self) -> Result<(), KernelFault> {
        cenote_ublk::check().map_err(fault)
    }

    fn start(&self, volume: ServedVolume, label: &str) -> Result<Arc<dyn KernelDisk>, KernelFault> {
        let options = DeviceOptions {
            is_read_only: volume.is_read_only(),
            ..DeviceOptions::new(label)
        };
        let gate = self.gate(volume, label, true)?;
        match KernelDevice::start(Arc::clone(&gate) as _, &options) {
            Ok(device) => Ok(UblkDisk::of(device, gate)),
            Err(error) => {
                gate.end();
                Err(fault(error))
            }
        }
    }

    fn left(&self) -> Result<Vec<LeftDisk>, KernelFault> {
        if cenote_ublk::check().is_err() {
            return Ok(Vec::new());
        }
        let left = left_devices().map_err(fault)?.into_iter();
        let left = left.map(|one| LeftDisk {
            number: one.number,
            label: one.name,
        });
        Ok(left.collect())
    }

    fn recover(
        &self,
        volume: ServedVolume,
        left: &LeftDisk,
    ) -> Result<Arc<dyn KernelDisk>, KernelFault> {
        let device = left_device(left)?;
        let gate = self.gate(volume, &left.label, false)?;
        let name = &left.label;
        let replayed = gate.replay().map_err(|error| {
            failed(format!(
                "what was written and not flushed is in {} and cannot be written to the volume: \
                 {error}",
                kept_at(name).display()
            ))
        })?;
        let device = KernelDevice::recover(Arc::clone(&gate) as _, &device);
        let device = device.map_err(fault)?;
        log::info!(
            "the disk {} continues; {replayed} writes that were not flushed were made again",
            device.path().display()
        );
        let size = gate.size();
        if kernel_size(device.number()).is_some_and(|known| known != size)
            && let Err(error) = device.resize(size)
        {
            log::warn!(
                "{}: it keeps its old size: {error}",
                device.path().display()
            );
        }
        Ok(UblkDisk::of(device, gate))
    }

    fn remove(&self, left: &LeftDisk, force: bool) -> Result<(), KernelFault> {
        let device = left_device(left)?;
        let path = device_path(left.number);
        if !force && kernel_use(Path::new(&path)).is_some() {
            return Err(KernelFault::Open);
        }
        remove_left(&device).map_err(fault)?;
        // The disk is gone, so its unflushed writes are not replayed any more.
        let place = Kept::open(&kept_at(&left.label));
        let kept = place.and_then(|place| Unflushed::begin(place, true, Arc::clone(&self.kept)));
        if let Ok(kept) = kept {
            kept.end();
        }
        Ok(())
    }
}

impl KernelDisk for UblkDisk {
    fn number(&self) -> u32 {
        self.device.number()
    }

    fn is_open(&self) -> bool {
        self.device.is_open()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn resize(&self, size: u64) -> Result<(), KernelFault> {
        self.device.resize(size).map_err(fault)
    }

    fn stop(&self, force: bool) -> Result<(), KernelFault> {
        self.device.stop(force).map_err(fault)?;
        self.gate.end();
        Ok(())
    }

    fn leave(&self) -> Result<(), KernelFault> {
        // A drop would wait for requests, and these wait in the gate from now on.
        std::mem::forget(Arc::clone(&self.device));
        self.gate.leave().map_err(failed)
    }
}

/// What `cenote ublk status` shows if no daemon runs.
pub fn status_without_daemon() -> UblkStatus {
    let left = left_behind().into_iter().map(|(left, dataset)| UblkLeft {
        dataset,
        device: device_path(left.number),
    });
    UblkStatus {
        left: left.collect(),
        unavailable: cenote_ublk::check().err().map(|error| error.to_string()),
        ..UblkStatus::default()
    }
}

/// Removes disks that daemons left when they died, if no daemon runs.
pub fn stop_without_daemon(targets: &[String], force: bool) -> Result<Response, ControlError> {
    let left = left_behind();
    for target in targets {
        let is_meant = |(left, dataset): &&(LeftDisk, String)| {
            target == dataset || *target == device_path(left.number)
        };
        let found = left.iter().find(is_meant);
        let (found, dataset) = found.ok_or_else(|| UblkRefusal::Unknown {
            target: target.clone(),
        })?;
        let removed = UblkDisks::default().remove(found, force);
        removed.map_err(|fault| {
            let (dataset, device) = (dataset.clone(), device_path(found.number));
            match fault {
                KernelFault::Open => UblkRefusal::InUse { dataset, device },
                fault => UblkRefusal::Stays {
                    dataset,
                    device,
                    reason: fault.to_string(),
                },
            }
        })?;
    }
    Ok(Response::Done)
}

fn device_path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

/// The disks that daemons left when they died, each with the volume's name; none without a driver.
fn left_behind() -> Vec<(LeftDisk, String)> {
    let left = UblkDisks::default().left().unwrap_or_default();
    let each = left.into_iter();
    each.filter_map(|left| {
        let name = disk_label_name(&left.label)?;
        Some((left, name))
    })
    .collect()
}
