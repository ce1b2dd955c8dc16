//! Why a pool could not be imported, and what can be done about it.

use super::diagnosis::{diagnoses_of_missing, feature_name, not_used};
use super::trial::{rewound, trial};
use cenote_base::Env;
use cenote_control::model::{ControlError, MissingLog, OlderState, PoolRefusal};
use cenote_device::DeviceError;
use cenote_pool::{ImportError, ImportOptions, MissingVdev, PoolCandidate, Rewind, import};
use std::sync::Arc;

/// Why an import failed, in the clients' terms.
///
/// If metadata is damaged, older states are tried, so that the message can say whether a rewind
/// would help.
pub(crate) fn refusal(
    env: &Arc<dyn Env>,
    candidate: &PoolCandidate,
    options: &ImportOptions,
    error: ImportError,
) -> ControlError {
    let pool = candidate.name().to_owned();
    match error {
        ImportError::Metadata(_)
        | ImportError::Config(_)
        | ImportError::Dsl(_)
        | ImportError::NeededForWriting { .. }
        | ImportError::DamagedTxg { .. } => {
            let reason = error.to_string();
            if !options.read_only && is_readable(env, candidate, options) {
                return ControlError::ReadOnlyOnly { pool, reason };
            }
            ControlError::PoolDamaged {
                pool,
                place: reason,
                older: older_state(env, candidate, options),
            }
        }
        ImportError::PartOfGroup { .. } => ControlError::PoolDamaged {
            pool,
            place: error.to_string(),
            older: older_state(env, candidate, options),
        },
        error => plain_refusal(candidate, error),
    }
}

/// Whether what is damaged is only needed for writing.
fn is_readable(env: &Arc<dyn Env>, candidate: &PoolCandidate, options: &ImportOptions) -> bool {
    let options = ImportOptions {
        rewind: options.rewind,
        txg: options.txg,
        rewind_to_checkpoint: options.rewind_to_checkpoint,
        ..trial()
    };
    import(candidate, &options, Arc::clone(env)).is_ok()
}

/// The newest state that a rewind would find, beyond those that the options covered already.
fn older_state(
    env: &Arc<dyn Env>,
    candidate: &PoolCandidate,
    options: &ImportOptions,
) -> OlderState {
    if options.txg.is_some() || options.rewind_to_checkpoint {
        return OlderState::Unknown;
    }
    let wider = match options.rewind {
        Rewind::Never => [Rewind::Recent, Rewind::Extreme].as_slice(),
        Rewind::Recent => &[Rewind::Extreme],
        Rewind::Extreme => &[],
    };
    for rewind in wider {
        let options = ImportOptions {
            rewind: *rewind,
            ..trial()
        };
        let Ok(pool) = import(candidate, &options, Arc::clone(env)) else {
            continue;
        };
        let extreme = *rewind == Rewind::Extreme;
        let found = rewound(candidate, &pool);
        return found.map_or(OlderState::Unknown, |state| OlderState::Found {
            state,
            extreme,
        });
    }
    OlderState::None
}

/// The missing devices of logs by their top-level vdev.
fn missing_logs(missing: &[MissingVdev]) -> Vec<MissingLog> {
    let mut logs: Vec<MissingLog> = Vec::new();
    for device in missing {
        let path = device.last_path.as_ref();
        let path = path.map(|path| path.to_string_lossy().into_owned());
        let name = path.unwrap_or_else(|| device.guid.0.to_string());
        let name = name.strip_prefix("/dev/").unwrap_or(&name).to_owned();
        let (top, below) = match device.is_top {
            true => (name, None),
            false => (device.top.clone(), Some(name)),
        };
        match logs.iter_mut().find(|log| log.name == top) {
            Some(log) => log.devices.extend(below),
            None => logs.push(MissingLog {
                name: top,
                devices: below.into_iter().collect(),
            }),
        }
    }
    logs
}

/// Why an import failed that says nothing of damage to metadata.
fn plain_refusal(candidate: &PoolCandidate, error: ImportError) -> ControlError {
    let pool = candidate.name().to_owned();
    match error {
        ImportError::UnsupportedVersion { version } => {
            ControlError::UnsupportedVersion { pool, version }
        }
        ImportError::UnsupportedFeatures { features } => ControlError::UnsupportedFeatures {
            pool,
            features: features.into_iter().map(feature_name).collect(),
            readonly_works: false,
        },
        ImportError::MissingDevices { missing } => {
            let diagnoses = diagnoses_of_missing(candidate, &missing);
            ControlError::DevicesUnavailable { pool, diagnoses }
        }
        ImportError::Parted { outsiders } => {
            let diagnoses = not_used(&candidate.tree, &outsiders);
            ControlError::DevicesUnavailable { pool, diagnoses }
        }
        ImportError::MissingLogs { missing } => ControlError::LogMissing {
            pool,
            logs: missing_logs(&missing),
        },
        ImportError::UnreadableLog { dataset, reason } => ControlError::LogUnreadable {
            pool,
            dataset,
            reason,
        },
        ImportError::InUse {
            hostname,
            hostid,
            timestamp,
        } => ControlError::ForeignHost {
            pool,
            hostname,
            hostid,
            timestamp,
        },
        ImportError::ActiveElsewhere { hostname } => ControlError::ActiveElsewhere {
            pool,
            hostname,
            hostid: candidate.config.hostid,
        },
        ImportError::HostIdRequired => ControlError::HostIdRequired { pool },
        ImportError::NoCheckpoint => ControlError::NoCheckpoint { pool },
        ImportError::NotWritable { reason } => ControlError::ReadOnlyOnly { pool, reason },
        ImportError::Device(DeviceError::InUse { path }) => ControlError::DeviceLocked {
            pool,
            path: path.to_string_lossy().into_owned(),
        },
        ImportError::WrittenMeanwhile { path } => PoolRefusal::WrittenMeanwhile {
            path: path.to_string_lossy().into_owned(),
        }
        .into(),
        // Until here it could be read.
        ImportError::Device(error) => ControlError::ReadOnlyOnly {
            pool,
            reason: error.to_string(),
        },
        error => ControlError::PoolDamaged {
            pool,
            place: error.to_string(),
            older: OlderState::Unknown,
        },
    }
}
