//! `cenote ublk`: disks because of commands.

use super::disk::Disk;
use super::follow::is_for_reading;
use super::label::Label;
use super::seam::{KernelFault, LeftDisk};
use super::table::LocalDisks;
use crate::context::Context;
use crate::volumes::offer::{Commanded, commanded};
use cenote_control::model::{ControlError, Response, UblkAct, UblkRefusal, UblkStatus};
use cenote_dsl::Dataset;
use cenote_engine::errors::{of_dsl, of_volume};
use cenote_engine::{Grip, Imported, LetsGo};
use cenote_volume::Volume;
use std::path::Path;
use std::sync::Arc;

/// Carries out a request about disks.
pub(crate) fn act_on_disks(context: &Context, act: &UblkAct) -> Result<Response, ControlError> {
    match act {
        UblkAct::Serve { volumes, read_only } => serve(context, volumes, *read_only),
        UblkAct::Status => Ok(Response::Ublk {
            status: context.disks.status(),
        }),
        UblkAct::Stop { targets, force } => stop(context, targets, *force),
    }
}

fn serve(
    context: &Context,
    volumes: &[String],
    is_read_only: bool,
) -> Result<Response, ControlError> {
    let disks = &context.disks;
    let new = commanded(&context.registry, volumes, is_read_only)?;
    disks.check().map_err(|fault| UblkRefusal::Unavailable {
        reason: fault.to_string(),
    })?;
    for one in &new {
        let disk = disks.disk(one.key());
        let is_read_only = one
            .find(&context.registry)
            .is_some_and(|(imported, dataset)| is_for_reading(one, &imported, &dataset));
        let is_other = |disk: &Arc<Disk>| disk.label.is_read_only != is_read_only;
        if let Some(disk) = disk.filter(is_other) {
            disk.let_go(Grip::Unused)?;
        }
    }
    let before = disks.commanded();
    disks.add(&new);
    context.follow_disks();
    let is_running = |one: &Commanded| disks.disk(one.key()).is_some_and(|disk| disk.is_running());
    let mut each = volumes.iter().zip(&new);
    if let Some((name, _)) = each.find(|(_, one)| !is_running(one)) {
        let reason = disks.failure(name);
        let reason = reason.unwrap_or_else(|| "it is being changed; try again".to_owned());
        // All of them or none.
        new.iter().for_each(|one| disks.remove(one.key()));
        disks.add(&before);
        context.follow_disks();
        return Err(UblkRefusal::NotServed { reason }.into());
    }
    let mut status = UblkStatus {
        disks: disks.running(),
        ..UblkStatus::default()
    };
    status.disks.retain(|disk| volumes.contains(&disk.dataset));
    Ok(Response::Ublk { status })
}

/// A disk to remove.
enum Target {
    Disk(Arc<Disk>),
    Left(LeftDisk, String),
}

/// The disk that an argument means: a volume's name, or the path of its link or disk.
fn target(disks: &LocalDisks, word: &str) -> Result<Target, ControlError> {
    let links = &disks.place.links;
    let path = Path::new(word);
    let name = links.dataset_of(path).unwrap_or(word);
    let number = links.number_of(path);
    let running = disks.running();
    let named = running
        .iter()
        .find(|disk| disk.dataset == name || disk.device == word);
    if let Some(named) = named {
        let mut all = disks.all().into_iter();
        if let Some(disk) = all.find(|disk| disk.name() == named.dataset) {
            return match disks.is_by_property(disk.key) {
                true => Err(UblkRefusal::ByProperty {
                    dataset: named.dataset.clone(),
                }
                .into()),
                false => Ok(Target::Disk(disk)),
            };
        }
    }
    let is_meant =
        |(label, left): &(Label, LeftDisk)| label.name == name || number == Some(left.number);
    match disks.left().into_iter().find(is_meant) {
        Some((label, left)) => Ok(Target::Left(left, label.name)),
        None => Err(UblkRefusal::Unknown {
            target: word.to_owned(),
        }
        .into()),
    }
}

fn stop(context: &Context, targets: &[String], force: bool) -> Result<Response, ControlError> {
    let disks = &context.disks;
    let mut gone: Vec<Target> = Vec::new();
    for word in targets {
        gone.push(target(disks, word)?);
    }
    if targets.is_empty() {
        let commanded = disks.commanded().into_iter();
        let commanded = commanded.filter(|one| !disks.is_by_property(one.key()));
        gone.extend(commanded.filter_map(|one| disks.disk(one.key()).map(Target::Disk)));
    }
    // All or nothing, unless a program opens a disk after this check.
    for one in gone.iter().filter(|_| !force) {
        if let Target::Disk(disk) = one {
            disk.let_go(Grip::Look)?;
        }
    }
    let grip = if force { Grip::Force } else { Grip::Unused };
    for one in gone {
        match one {
            Target::Disk(disk) => {
                disk.let_go(grip)?;
                disks.remove(disk.key);
                disks.forget(&disk);
            }
            Target::Left(left, dataset) => remove_left(disks, &left, dataset, force)?,
        }
    }
    Ok(Response::Done)
}

fn remove_left(
    disks: &LocalDisks,
    left: &LeftDisk,
    dataset: String,
    force: bool,
) -> Result<(), ControlError> {
    let kernel = disks.check();
    let removed = kernel.and_then(|kernel| kernel.remove(left, force));
    removed.map_err(|fault| {
        let device = disks.place.links.device(left.number).display().to_string();
        match fault {
            KernelFault::Open => UblkRefusal::InUse { dataset, device },
            KernelFault::Unavailable(reason) | KernelFault::Failed(reason) => UblkRefusal::Stays {
                dataset,
                device,
                reason,
            },
        }
    })?;
    disks.place.links.prune(|number| number == left.number);
    Ok(())
}

/// Gives the disk of a volume the volume's new size.
///
/// # Errors
/// The kernel cannot.
pub(crate) fn resize_disk(
    context: &Context,
    imported: &Imported,
    volume: &Dataset,
) -> Result<(), ControlError> {
    let disk = context.disks.disk((imported.load_guid, volume.id()));
    let Some(disk) = disk else {
        return Ok(());
    };
    let set = volume.object_set().map_err(of_dsl)?;
    disk.resize(Volume::open(set).map_err(of_volume)?.size())
}
