//! Passes each change to the function that makes it.

use crate::command::By;
use crate::context::Context;
use crate::datasets::approve::approve_values;
use crate::datasets::create::create_dataset;
use crate::datasets::destroy::{Destruction, destroy_dataset};
use crate::datasets::rename::{Renaming, rename_dataset};
use crate::datasets::rollback::roll_back;
use crate::datasets::set::{inherit_property, set_properties};
use crate::delegation::delegate;
use crate::devices::add::add_vdevs;
use crate::devices::change::change_devices;
use crate::devices::labels::clear_labels;
use crate::devices::online::online;
use crate::devices::settings::set_vdev_property;
use crate::devices::treat::treat;
use crate::keys::change::change_key;
use crate::mounts::table::Mounts;
use crate::pools::checkpoint::checkpoint_pool;
use crate::pools::create::create_pool;
use crate::pools::export::destroy_pool;
use crate::pools::maintain::{reguid_pool, sync_pools, upgrade_pool};
use crate::pools::set::set_pool_property;
use crate::pools::split::split_pool;
use crate::pools::suspension::clear_errors;
use crate::scans::scrub::scan;
use crate::snapshots::change::change_snapshots;
use crate::streams::abort::abort_receive;
use cenote_control::model::{Change, ControlError, Response};

/// Carries out a change and records its command.
// tidy: allow(long-function, one arm for each change, so that none is forgotten)
pub(crate) fn change(
    context: &Context,
    mounts: &Mounts,
    change: Change,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let registry = &context.registry;
    match change {
        Change::CreatePool(new) => create_pool(context, mounts, &new, by),
        Change::DestroyPool { pool, force } => destroy_pool(context, mounts, (&pool, force), by),
        Change::AddVdevs(added) => add_vdevs(context, &added, by),
        Change::ClearErrors { pool, device } => clear_errors(context, &pool, device.as_deref(), by),
        Change::OnlineDevices(devices) => online(context, &devices, by),
        Change::Devices(change) => change_devices(context, change, by),
        Change::SplitPool(split) => split_pool(context, mounts, &split, by),
        Change::SyncPools { pools, force } => sync_pools(registry, &pools, force),
        Change::SetPoolProperty {
            pool,
            property,
            value,
        } => set_pool_property(context, &pool, &property, &value, by),
        Change::SetVdevProperty(set) => set_vdev_property(registry, &set, by),
        Change::ReguidPool { pool, guid } => reguid_pool(registry, &pool, guid, by),
        Change::UpgradePool { pool } => upgrade_pool(registry, &pool, by),
        Change::Treat {
            pool,
            devices,
            kind,
            command,
        } => treat(registry, &pool, &devices, (kind, command), by),
        Change::Checkpoint { pool, discard } => checkpoint_pool(registry, &pool, discard, by),
        Change::Scan { pool, command } => scan(registry, &pool, command, by),
        Change::ClearLabels { device, force } => clear_labels(context, &device, force),
        Change::CreateDataset(new) => create_dataset(context, mounts, &new, by),
        Change::DestroyDataset {
            dataset,
            recursive,
            clones,
            force,
            dry_run,
        } => {
            let how = Destruction {
                recursive,
                clones,
                force,
                dry_run,
            };
            destroy_dataset(context, mounts, &dataset, how, by)
        }
        Change::Snapshots(change) => change_snapshots(context, mounts, change, by),
        Change::AbortReceive { dataset } => abort_receive(registry, &dataset, by),
        Change::RollBack(wanted) => roll_back(context, mounts, &wanted, by),
        Change::RenameDataset {
            from,
            to,
            parents,
            force,
            unmounted,
        } => {
            let how = Renaming {
                parents,
                force,
                unmounted,
            };
            rename_dataset(context, mounts, &from, &to, how, by)
        }
        Change::SetProperties {
            datasets,
            properties,
            unmounted,
        } => set_properties(context, mounts, &datasets, &properties, unmounted, by),
        Change::InheritProperty {
            datasets,
            property,
            recursive,
            received,
        } => inherit_property(
            context,
            mounts,
            &datasets,
            &property,
            (recursive, received),
            by,
        ),
        Change::ApproveValues {
            datasets,
            recursive,
        } => approve_values(context, &datasets, recursive, by),
        Change::Delegate(delegation) => delegate(registry, &delegation, by),
        Change::ChangeKey {
            dataset,
            properties,
            key,
        } => change_key(
            registry,
            context.env.as_ref(),
            &dataset,
            &properties,
            key.as_ref(),
            by,
        ),
    }
}
