//! Properties of pools set, by a command or an import, and obeyed.

use super::growth::obey_autoexpand;
use super::settings::{PoolSetting, pool_setting};
use super::suspension::obey_fail_mode;
use crate::command::{By, Nothing, run};
use crate::context::Context;
use crate::errors::{of_dsl, of_sync, parse_name};
use crate::registry::ereports::report_faults;
use crate::registry::imported::Imported;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::SetPoolProperty;
use cenote_dsl::{DatasetType, Stored};
use cenote_pool::Actor;
use std::sync::Arc;

pub(crate) fn set_pool_property(
    context: &Context,
    pool: &str,
    property: &str,
    value: &str,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(pool)?;
    let setting = pool_setting(property, value, false)?;
    if let PoolSetting::CacheFile(file) = &setting {
        // It belongs to the import, and that of a pool that is only read has one as well.
        context.registry.set_cache_file(&imported, file)?;
        if !imported.pool.is_writable() {
            return Ok(Response::Done);
        }
    }
    let imported = context.registry.writable_pool(pool)?;
    apply_pool_setting(context, &imported, setting, by)?;
    Ok(Response::Done)
}

/// Applies its properties to a pool that was just opened.
pub(crate) fn obey_properties(context: &Context, imported: &Arc<Imported>) {
    obey_fail_mode(context, imported);
    obey_autoexpand(&context.events, imported);
    report_faults(&context.events, &context.env, imported);
}

/// Sets the properties of a pool that its import was given.
pub(crate) fn set_at_import(
    context: &Context,
    imported: &Arc<Imported>,
    properties: &[(String, String)],
) -> Result<(), ControlError> {
    const OF_THE_IMPORT: [&str; 3] = ["readonly", "altroot", "cachefile"];
    if !imported.pool.is_writable() {
        return Ok(());
    }
    let by = By {
        actor: Actor::default(),
        // The import itself is what is noted.
        command: "",
        rights: None,
    };
    let is_stored = |name: &str| !OF_THE_IMPORT.contains(&name) && !name.starts_with("cenote:");
    for (name, value) in properties.iter().filter(|(name, _)| is_stored(name)) {
        let setting = pool_setting(name, value, false)?;
        apply_pool_setting(context, imported, setting, &by)?;
    }
    Ok(())
}

fn apply_pool_setting(
    context: &Context,
    imported: &Arc<Imported>,
    setting: PoolSetting,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let stored = match setting {
        PoolSetting::Stored(name, value) => (name.to_owned(), value),
        PoolSetting::User(name, value) => (name, Stored::Text(value)),
        PoolSetting::Ashift(shift) => ("ashift".to_owned(), Stored::Number(shift.into())),
        PoolSetting::BootFileSystem(name) => {
            let object = boot_file_system(imported, &name)?;
            ("bootfs".to_owned(), Stored::Number(object))
        }
        other => return set_in_configuration(imported, other, by),
    };
    let (name, value) = stored;
    let (property, is_on) = (name.clone(), value == Stored::Number(1));
    let said = value.clone();
    let storing = imported.waiting.begin();
    run(imported, SetPoolProperty { name, value }, by)?;
    let approvals = &context.registry.approvals;
    approvals.said_of_pool(imported, &property, Some(&said));
    drop(storing);
    match property.as_str() {
        "autotrim" => imported.pool.set_autotrim(is_on),
        "autoexpand" => obey_autoexpand(&context.events, imported),
        "failmode" => obey_fail_mode(context, imported),
        "multihost" => {
            let begun = imported.pool.set_multihost(is_on);
            begun.map_err(|error| ControlError::Io {
                place: format!("the heartbeats of pool '{}': {error}", imported.name()),
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// The object of the file system to boot from; 0 for none.
fn boot_file_system(imported: &Imported, name: &str) -> Result<u64, ControlError> {
    if name.is_empty() {
        return Ok(0);
    }
    let invalid = || ControlError::BadValue {
        name: "bootfs".to_owned(),
        reason: format!("'{name}' is an invalid name"),
    };
    let parsed = parse_name(name).map_err(|_| invalid())?;
    if parsed.pool() != imported.name() {
        return Err(invalid());
    }
    let dataset = imported.dsl().dataset(&parsed);
    let dataset = dataset.map_err(|_| ControlError::BadValue {
        name: "bootfs".to_owned(),
        reason: "no such pool or dataset".to_owned(),
    })?;
    match dataset.dataset_type().map_err(of_dsl)? {
        DatasetType::Filesystem => Ok(dataset.id().0),
        DatasetType::Volume => Err(ControlError::BadValue {
            name: "bootfs".to_owned(),
            reason: "property 'bootfs' not supported on volumes".to_owned(),
        }),
    }
}

/// Sets a property in the pool's configuration, or a feature, and records the command.
fn set_in_configuration(
    imported: &Arc<Imported>,
    setting: PoolSetting,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let pool = &imported.pool;
    let set = match setting {
        PoolSetting::Comment(text) => pool.set_comment(&text, &by.actor, by.command),
        PoolSetting::Compatibility(sets) => pool.set_compatibility(&sets, &by.actor, by.command),
        PoolSetting::Version(_) => unreachable!("only a new pool is given it"),
        PoolSetting::Feature(feature, _) => {
            if pool.remarks().1.as_deref() == Some("legacy") {
                return Err(ControlError::BadValue {
                    name: feature.name.to_owned(),
                    reason: "the pool's 'compatibility' property is 'legacy'".to_owned(),
                });
            }
            pool.enable_feature(feature, &by.actor, by.command)
        }
        // The cache file is set already; the others can only be set by `zpool create`.
        _ => pool.run_command(Nothing, &by.actor, by.command).map(drop),
    };
    set.map_err(|error| of_sync(imported.name(), error))
}
