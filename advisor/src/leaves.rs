//! Findings about the devices of a pool.
//!
//! How bad it is that a device is away follows from how many more its vdev can lose
//! ([`crate::redundancy`]), and from what the vdev is for: the loss of a log costs speed, that of
//! any other vdev the pool.

use cenote_control::model::{
    AllocationClass, Diagnosis, Fault, PoolStatus, Vdev, VdevAux, VdevKind, VdevNaming, VdevState,
    shell_word,
};

use crate::finding::finding;
use crate::means::Means;
use crate::numbers::{counted, nicebytes};
use crate::redundancy::{failures_by_design, failures_left, failures_to_loss, is_receiving};
use crate::{Finding, Severity};

/// What is to be known of the devices of a pool.
pub(super) fn findings(status: &PoolStatus) -> Vec<Finding> {
    let mut found = Vec::new();
    for top in &status.vdevs.root.children {
        let place = Place {
            pool: &status.name,
            top,
            left: failures_left(top),
            has_stand_in: false,
            not_used: &status.outsiders,
        };
        of_vdev(top, &place, &mut found);
    }
    found
}

/// The position of a device.
struct Place<'a> {
    pool: &'a str,
    top: &'a Vdev,
    /// How many more devices `top` can lose.
    left: Option<u64>,
    /// Whether a spare beside it holds everything.
    has_stand_in: bool,
    /// Devices that are there and not used, and why.
    not_used: &'a [Diagnosis],
}

impl Place<'_> {
    /// Why a device that is there cannot be written to.
    fn not_writable(&self, vdev: &Vdev) -> Option<&str> {
        let mut faults = self.not_used.iter();
        faults.find_map(|known| match &known.fault {
            Fault::NotWritable { reason } if known.guid == vdev.guid => Some(reason.as_str()),
            _ => None,
        })
    }

    /// How bad it is that a device is not whole, and what follows from it.
    fn consequence(&self) -> (Severity, String) {
        let top = self.top.name(VdevNaming::default());
        let has_redundancy = failures_by_design(self.top) > 0;
        if self.top.class == AllocationClass::Log {
            let text = match self.left {
                None => "; synchronous writes are slower without this log, nothing is lost",
                Some(_) => "; the log works with its other devices",
            };
            return (Severity::Attention, text.to_owned());
        }
        match self.left {
            None if has_redundancy => {
                let text = format!("; {top} has lost too many devices, data cannot be read");
                (Severity::Danger, text)
            }
            None => (
                Severity::Danger,
                "; there is no redundancy to make up for it".to_owned(),
            ),
            Some(0) if !has_redundancy => (
                Severity::Danger,
                "; there is no redundancy to make up for it".to_owned(),
            ),
            Some(0) => (Severity::Danger, "; one more failure loses data".to_owned()),
            Some(left) => {
                let spare = match self.has_stand_in {
                    true => "; a spare has taken over",
                    false => "",
                };
                let more = counted(left, "more device");
                let text = format!("{spare}; {top} can lose {more} before data is lost");
                (Severity::Attention, text)
            }
        }
    }
}

fn of_vdev(vdev: &Vdev, place: &Place<'_>, found: &mut Vec<Finding>) {
    if vdev.children.is_empty() {
        of_leaf(vdev, place, found);
        return;
    }
    let is_pair = vdev.kind == VdevKind::Spare;
    let below = Place {
        has_stand_in: is_pair && failures_to_loss(vdev) > 0,
        ..*place
    };
    // Trees are at most twenty deep by their decoder.
    for child in &vdev.children {
        of_vdev(child, &below, found);
    }
}

fn of_leaf(vdev: &Vdev, place: &Place<'_>, found: &mut Vec<Finding>) {
    if matches!(vdev.kind, VdevKind::Hole | VdevKind::Indirect) {
        return;
    }
    let name = vdev.name(VdevNaming::default());
    let shown = match (&vdev.path, vdev.not_present) {
        (Some(path), true) => format!("{name} (was {path})"),
        _ => name.clone(),
    };
    let (pool, word) = (shell_word(place.pool), shell_word(&name));
    let means = Means::of(vdev);
    let found_wrong = match place.not_writable(vdev) {
        Some(reason) if vdev.state == VdevState::CantOpen => Some((
            format!("cannot be written to: {reason}"),
            format!(
                "{}, then run 'zpool online {pool} {word}', or replace it: \
                 'zpool replace {pool} {word} NEW'",
                means.make_writable()
            ),
        )),
        _ => state_of(vdev, means, &pool, &word).map(|(what, advice)| (what.to_owned(), advice)),
    };
    if let Some((what, advice)) = found_wrong {
        let (severity, consequence) = place.consequence();
        let what = format!("{what}{consequence}");
        found.push(finding(severity, &shown, what, advice));
    } else if is_receiving(vdev) {
        of_receiving(&shown, &pool, place, found);
    }
    let counters = &vdev.counters;
    let errors = counters.read_errors + counters.write_errors + counters.checksum_errors;
    if errors > 0 {
        let what = format!(
            "{} read, {} write and {}; {} were repaired",
            counters.read_errors,
            counters.write_errors,
            counted(counters.checksum_errors, "checksum error"),
            nicebytes(counters.self_healed + counters.scan_repaired)
        );
        let advice = format!(
            "{}; 'zpool scrub {pool}' finds what else is wrong, \
             'zpool replace {pool} {word} NEW' replaces it, \
             'zpool clear {pool} {word}' resets the counters",
            means.look()
        );
        found.push(finding(Severity::Attention, &shown, what, advice));
    }
    if counters.slow_ios > 0 {
        let what = format!("{} took very long", counted(counters.slow_ios, "request"));
        let advice = means.slow().to_owned();
        found.push(finding(Severity::Attention, &shown, what, advice));
    }
}

/// A device that is receiving what it missed does not count yet.
fn of_receiving(shown: &str, pool: &str, place: &Place<'_>, found: &mut Vec<Finding>) {
    let is_data = place.top.class != AllocationClass::Log;
    // A new copy of what has only one is no step back.
    let has_lost = failures_by_design(place.top) > 0 && place.left == Some(0);
    if is_data && has_lost {
        let what = "is being resilvered; one more failure before it ends loses data".to_owned();
        let advice = format!("take no device away; 'zpool wait -t resilver {pool}' waits for it");
        found.push(finding(Severity::Danger, shown, what, advice));
    }
}

/// What is wrong with a leaf's state.
fn state_of(vdev: &Vdev, means: Means, pool: &str, name: &str) -> Option<(&'static str, String)> {
    let replace = format!("'zpool replace {pool} {name} NEW'");
    let online = format!("run 'zpool online {pool} {name}'");
    let bring_back = means.bring_back();
    if means == Means::DistributedSpare && vdev.state != VdevState::Online {
        let advice = format!("{bring_back}, or replace them");
        return Some(("is a distributed spare that cannot be used", advice));
    }
    Some(match vdev.state {
        VdevState::Online | VdevState::Unknown if vdev.resilver_deferred => (
            "missed writes and waits for a resilver",
            format!("run 'zpool resilver {pool}', and do not take the other devices away"),
        ),
        VdevState::Online | VdevState::Unknown => return None,
        VdevState::Degraded => (
            "made many errors",
            format!("{}, or replace it: {replace}", means.look()),
        ),
        VdevState::Faulted => (
            "is out of service because of errors",
            format!("{}, then replace it: {replace}", means.look()),
        ),
        VdevState::Offline => ("was taken offline", online),
        VdevState::Removed if matches!(vdev.aux, VdevAux::Replaced | VdevAux::Deleted) => (
            match vdev.aux {
                VdevAux::Deleted => "was deleted while in use",
                _ => "was replaced by another file or device while in use",
            },
            format!("put the right one in its place and {online}, or replace it: {replace}"),
        ),
        VdevState::Removed | VdevState::Closed => (
            "was removed",
            format!("{bring_back} and {online}, or replace it: {replace}"),
        ),
        VdevState::CantOpen => match vdev.aux {
            VdevAux::BadLabel | VdevAux::CorruptData | VdevAux::TooSmall => (
                "has missing or outdated data",
                format!("if its contents were lost, run 'zpool replace {pool} {name}'"),
            ),
            _ => (
                "cannot be opened",
                format!("{bring_back} and {online}, or replace it: {replace}"),
            ),
        },
    })
}
