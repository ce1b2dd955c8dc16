//! The texts of `zpool status` and `zpool import` about a pool's condition.
//!
//! Tools look only for the prefixes. Users search the web for these sentences, so they are
//! OpenZFS's. A newline in a text continues after a TAB.

use cenote_control::model::{Condition, FeatureName, ImportCondition};

use cenote_words::texts::feature_line;

/// The URL of the article about a message.
pub fn article(message_id: &str) -> String {
    format!("https://openzfs.github.io/openzfs-docs/msg/{message_id}")
}

const WAIT_RESILVER: &str = "Wait for the resilver to complete.";
const ONLINE_MISSING: &str = "Attach the missing device and online it using 'zpool online'.";
const REPLACE_FAULTED: &str =
    "Replace the faulted device, or use 'zpool clear' to mark the device\nrepaired.";
const RESTORE_POOL: &str = "Destroy and re-create the pool from\na backup source.";
const FAULTED_DEGRADED: &str = "One or more devices are faulted in response to persistent errors.\n\
     Sufficient replicas exist for the pool to continue functioning in a\ndegraded state.";

/// The texts after `status:` and `action:`.
pub fn status(condition: &Condition) -> (String, String) {
    let (status, action) = match condition {
        Condition::Resilvering | Condition::Rebuilding => (
            "One or more devices is currently being resilvered.  The pool will\n\
             continue to function, possibly in a degraded state.",
            WAIT_RESILVER,
        ),
        Condition::RebuildScrub => (
            "One or more devices have been sequentially resilvered, scrubbing\n\
             the pool is recommended.",
            "Use 'zpool scrub' to verify all data checksums.",
        ),
        Condition::HostMismatch => (
            "Mismatch between pool hostid and system hostid on imported pool.\n\
             This pool was previously imported into a system with a different\n\
             hostid, and then was verbatim imported into this system.",
            "Export this pool on all systems on which it is imported.\n\
             Then import it to correct the mismatch.",
        ),
        Condition::VersionNewer => (
            "The pool has been upgraded to a newer, incompatible on-disk version.\n\
             The pool cannot be accessed on this system.",
            "Access the pool from a system running more recent software, or\n\
             restore the pool from backup.",
        ),
        Condition::StaleDevices { stale, needed } => return stale_devices(stale, needed),
        Condition::UnsupportedRead(features) => return unsupported_read(features),
        Condition::UnsupportedWrite(features) => return unsupported_write(features),
        Condition::CompatibilityError => (
            "This pool has a compatibility list specified, but it could not be\n\
             read/parsed at this time. The pool can still be used, but this\n\
             should be investigated.",
            "Check the value of the 'compatibility' property against the\n\
             appropriate file in /etc/zfs/compatibility.d or\n\
             /usr/share/zfs/compatibility.d.",
        ),
        Condition::IncompatibleFeatures => (
            "One or more features are enabled on the pool despite not being\n\
             requested by the 'compatibility' property.",
            "Consider setting 'compatibility' to an appropriate value, or\n\
             adding needed features to the relevant file in\n\
             /etc/zfs/compatibility.d or /usr/share/zfs/compatibility.d.",
        ),
        Condition::FeaturesDisabled => (
            "Some supported and requested features are not enabled on the pool.\n\
             The pool can still be used, but some features are unavailable.",
            "Enable all features using 'zpool upgrade'. Once this is done,\n\
             the pool may no longer be accessible by software that does not support\n\
             the features. See zpool-features(7) for details.",
        ),
        Condition::LegacyVersion => (
            "The pool is formatted using a legacy on-disk format.  The pool can\n\
             still be used, but some features are unavailable.",
            "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\
             pool will no longer be accessible on software that does not support\nfeature flags.",
        ),
        Condition::Errata(number) => return errata(*number),
        Condition::IoFailureStopped(cause) => return stopped(cause),
        other => status_of_devices(other),
    };
    (status.to_owned(), action.to_owned())
}

/// A pool that refuses all changes. OpenZFS has no text for it, because it panics instead.
fn stopped(cause: &str) -> (String, String) {
    (
        format!("The pool is suspended because its last changes could not be written:\n{cause}"),
        "Make sure the pool's devices are connected, then run 'zpool export -f'\n\
         and import the pool again. Changes since its last transaction group are lost."
            .to_owned(),
    )
}

/// Which devices in use have outdated data, and which devices have the current data.
fn stale_devices(stale: &[String], needed: &[String]) -> (String, String) {
    let status = format!(
        "One or more devices lack what was written while they were away:\n{}.",
        stale.join(", ")
    );
    let mut action = "Use 'zpool resilver' to bring it to them.".to_owned();
    if !needed.is_empty() {
        action.push_str(&format!(
            "  Until then the pool cannot do\nwithout {}: do not take that away.",
            needed.join(", ")
        ));
    }
    (status, action)
}

/// Conditions caused by broken devices and data.
fn status_of_devices(condition: &Condition) -> (&'static str, &'static str) {
    match condition {
        Condition::IoFailureWait | Condition::IoFailureContinue => (
            "One or more devices are faulted in response to IO failures.",
            "Make sure the affected devices are connected, then run 'zpool clear'.",
        ),
        Condition::IoFailureMultihost => (
            "The pool is suspended because multihost writes failed or were delayed;\n\
             another system could import the pool undetected.",
            "Make sure the pool's devices are connected, then run 'zpool export -f'\n\
             and import the pool again.",
        ),
        Condition::BadLog => (
            "An intent log record could not be read.\n\
             Waiting for administrator intervention to fix the faulted pool.",
            "Either restore the affected device(s) and run 'zpool online',\n\
             or ignore the intent log records by running 'zpool clear'.",
        ),
        Condition::MissingNoReplicas => (
            "One or more devices could not be opened.  There are insufficient\n\
             replicas for the pool to continue functioning.",
            ONLINE_MISSING,
        ),
        Condition::CorruptLabelNoReplicas => (
            "One or more devices could not be used because the label is missing\n\
             or invalid.  There are insufficient replicas for the pool to continue\nfunctioning.",
            RESTORE_POOL,
        ),
        Condition::CorruptPool => (
            "The pool metadata is corrupted and the pool cannot be opened.",
            RESTORE_POOL,
        ),
        Condition::CorruptData => (
            "One or more devices has experienced an error resulting in data\n\
             corruption.  Applications may be affected.",
            "Restore the file in question if possible.  Otherwise restore the\n\
             entire pool from backup.",
        ),
        Condition::MissingDevice => (
            "One or more devices could not be opened.  Sufficient replicas exist for\n\
             the pool to continue functioning in a degraded state.",
            ONLINE_MISSING,
        ),
        Condition::CorruptLabel => (
            "One or more devices could not be used because the label is missing or\n\
             invalid.  Sufficient replicas exist for the pool to continue\n\
             functioning in a degraded state.",
            "Replace the device using 'zpool replace'.",
        ),
        Condition::FailingDevice => (
            "One or more devices has experienced an unrecoverable error.  An\n\
             attempt was made to correct the error.  Applications are unaffected.",
            "Determine if the device needs to be replaced, and clear the errors\n\
             using 'zpool clear' or replace the device with 'zpool replace'.",
        ),
        other => status_of_absent_devices(other),
    }
}

/// Devices that are missing or unusable, while replicas remain.
fn status_of_absent_devices(condition: &Condition) -> (&'static str, &'static str) {
    match condition {
        Condition::OfflineDevice => (
            "One or more devices has been taken offline by the administrator.\n\
             Sufficient replicas exist for the pool to continue functioning in a\ndegraded state.",
            "Online the device using 'zpool online' or replace the device with\n'zpool replace'.",
        ),
        Condition::RemovedDevice => (
            "One or more devices have been removed.\n\
             Sufficient replicas exist for the pool to continue functioning in a\ndegraded state.",
            "Online the device using 'zpool online' or replace the device with\n'zpool replace'.",
        ),
        Condition::NonNativeAshift => (
            "One or more devices are configured to use a non-native block size.\n\
             Expect reduced performance.",
            "Replace affected devices with devices that support the\n\
             configured block size, or migrate data to a properly configured\npool.",
        ),
        // Only the faulted ones remain.
        _ => (FAULTED_DEGRADED, REPLACE_FAULTED),
    }
}

fn features_text(lead: &str, features: &[FeatureName]) -> String {
    let mut text = lead.to_owned();
    for feature in features {
        text.push('\n');
        // The TAB of a continuation line precedes the feature's own.
        text.push_str(&feature_line(feature));
    }
    text
}

fn unsupported_read(features: &[FeatureName]) -> (String, String) {
    let lead = "The pool cannot be accessed on this system because it uses the\n\
                following feature(s) not supported on this system:";
    let action = "Access the pool from a system that supports the required feature(s),\n\
                  or restore the pool from backup.";
    (features_text(lead, features), action.to_owned())
}

fn unsupported_write(features: &[FeatureName]) -> (String, String) {
    let lead = "The pool can only be accessed in read-only mode on this system. It\n\
                cannot be accessed in read-write mode because it uses the following\n\
                feature(s) not supported on this system:";
    let action = "The pool cannot be accessed in read-write mode. Import the pool with\n\
                  \"-o readonly=on\", access the pool from a system that supports the\n\
                  required feature(s), or restore the pool from backup.";
    (features_text(lead, features), action.to_owned())
}

fn errata(number: u64) -> (String, String) {
    let action = match number {
        1 => "To correct the issue run 'zpool scrub'.",
        2 => "To correct the issue let the asynchronous destroy complete on the pool.",
        3 | 4 => {
            "To correct the issue back up existing encrypted datasets to new\n\
             encrypted datasets and destroy the old ones."
        }
        _ => "See the article for how to correct the issue.",
    };
    (format!("Errata #{number} detected."), action.to_owned())
}

const IMPORTABLE: &str = "The pool can be imported using its name or numeric identifier.";
const IMPORTABLE_LESS: &str = "The pool can be imported using its name or numeric \
     identifier, though\n\
     some features will not be available without an explicit 'zpool upgrade'.";
const CANNOT: &str = "The pool cannot be imported due to damaged devices or data.";

/// The texts of an import listing: `status:`, `action:`, and the message's id.
pub fn import(condition: &ImportCondition, usable: bool) -> (String, String, Option<&'static str>) {
    let import_action = if usable { IMPORTABLE } else { CANNOT };
    let plain = |status: &str, id| (status.to_owned(), import_action.to_owned(), id);
    match condition {
        ImportCondition::MissingDevices => {
            let id = if usable { "ZFS-8000-2Q" } else { "ZFS-8000-3C" };
            let status = "One or more devices are missing from the system.";
            let action = if usable {
                IMPORTABLE
            } else {
                "The pool cannot be imported. Attach the missing\ndevices and try again."
            };
            (status.to_owned(), action.to_owned(), Some(id))
        }
        ImportCondition::BadGuidSum => (
            "One or more devices are missing from the system.".to_owned(),
            "The pool cannot be imported. Attach the missing\ndevices and try again.".to_owned(),
            Some("ZFS-8000-6X"),
        ),
        ImportCondition::CorruptDevices => {
            let id = if usable { "ZFS-8000-4J" } else { "ZFS-8000-5E" };
            plain("One or more devices contains corrupted data.", Some(id))
        }
        ImportCondition::CorruptData => plain("The pool data is corrupted.", Some("ZFS-8000-8A")),
        ImportCondition::OfflineDevices => plain("One or more devices are offlined.", None),
        ImportCondition::CorruptPool => {
            plain("The pool metadata is corrupted.", Some("ZFS-8000-72"))
        }
        ImportCondition::FaultedDevices => plain("One or more devices are faulted.", None),
        ImportCondition::BadLog => {
            plain("An intent log record cannot be read.", Some("ZFS-8000-K4"))
        }
        ImportCondition::Overwritten { by } => (
            format!("The pool was destroyed or overwritten: its devices are those of '{by}'."),
            format!("Import '{by}'. To forget this pool, its old labels have to be overwritten."),
            None,
        ),
        ImportCondition::Resilvering => plain("One or more devices were being resilvered.", None),
        ImportCondition::Errata(number) => {
            let (status, action) = errata(*number);
            (status, action, Some("ZFS-8000-ER"))
        }
        other => import_refusal(other),
    }
}

/// Conditions not caused by devices.
fn import_refusal(condition: &ImportCondition) -> (String, String, Option<&'static str>) {
    let own = |status: &str, action: &str, id| (status.to_owned(), action.to_owned(), id);
    match condition {
        ImportCondition::LegacyVersion => own(
            "The pool is formatted using a legacy on-disk version.",
            IMPORTABLE_LESS,
            None,
        ),
        ImportCondition::VersionNewer => own(
            "The pool is formatted using an incompatible version.",
            "The pool cannot be imported.  Access the pool on a system running newer\n\
             software, or recreate the pool from backup.",
            Some("ZFS-8000-A5"),
        ),
        ImportCondition::FeaturesDisabled => own(
            "Some supported features are not enabled on the pool.\n\
             (Note that they may be intentionally disabled if the\n\
             'compatibility' property is set.)",
            IMPORTABLE_LESS,
            None,
        ),
        ImportCondition::IncompatibleFeatures => own(
            "One or more features are enabled on the pool despite not being\n\
             requested by the 'compatibility' property.",
            IMPORTABLE,
            None,
        ),
        ImportCondition::UnsupportedRead(features) => (
            features_text(
                "The pool uses the following feature(s) not supported on this system:",
                features,
            ),
            "The pool cannot be imported. Access the pool on a system that supports\n\
             the required feature(s), or recreate the pool from backup."
                .to_owned(),
            None,
        ),
        ImportCondition::UnsupportedWrite(features) => (
            features_text(
                "The pool can only be accessed in read-only mode on this system. It\n\
                 cannot be accessed in read-write mode because it uses the following\n\
                 feature(s) not supported on this system:",
                features,
            ),
            "The pool cannot be imported in read-write mode. Import the pool with\n\
             \"-o readonly=on\", access the pool on a system that supports the\n\
             required feature(s), or recreate the pool from backup."
                .to_owned(),
            None,
        ),
        ImportCondition::ActiveElsewhere => own(
            "The pool is currently imported by another system.",
            "The pool must be exported from there before it can be safely imported.",
            Some("ZFS-8000-EY"),
        ),
        ImportCondition::HostIdRequired => own(
            "The pool has the multihost property on.  It cannot\n\
             be safely imported when the system hostid is not set.",
            "Set a unique system hostid with the zgenhostid(8) command.",
            Some("ZFS-8000-EY"),
        ),
        // Only the foreign host remains.
        _ => own(
            "The pool was last accessed by another system.",
            "The pool can be imported using its name or numeric identifier and\nthe '-f' flag.",
            Some("ZFS-8000-EY"),
        ),
    }
}

/// A text with its continuation lines, and a newline.
pub fn paragraph(label: &str, text: &str) -> String {
    format!("{label}{}\n", text.replace('\n', "\n\t"))
}
