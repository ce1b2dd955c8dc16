//! The texts of `zpool status` about trims and initializations (cli/contract-zpool 2).

use cenote_control::model::{Treatment, TreatmentState, Vdev};
use cenote_words::format::date::{Form, date};
use jiff::tz::TimeZone;

/// The words for one kind.
struct Words {
    never: &'static str,
    running: &'static str,
    done: &'static str,
}

const INITIALIZE: Words = Words {
    never: "(uninitialized)",
    running: "(initializing)",
    done: "initialized",
};
const TRIM: Words = Words {
    never: "(untrimmed)",
    running: "(trimming)",
    done: "trimmed",
};

/// The notes about a device: with `details` about each kind, otherwise only about running ones.
pub fn notes(vdev: &Vdev, details: (bool, bool), zone: &TimeZone) -> Vec<String> {
    let initialize = text(vdev.initialize.as_ref(), &INITIALIZE, details.0, zone);
    let trim = match (vdev.trim_unsupported && vdev.trim.is_none(), details.1) {
        (true, true) => Some("(trim unsupported)".to_owned()),
        (true, false) => None,
        (false, details) => text(vdev.trim.as_ref(), &TRIM, details, zone),
    };
    [initialize, trim].into_iter().flatten().collect()
}

fn text(
    treatment: Option<&Treatment>,
    words: &Words,
    details: bool,
    zone: &TimeZone,
) -> Option<String> {
    let state = treatment.map(|treatment| treatment.state);
    if !details {
        return (state == Some(TreatmentState::Active)).then(|| words.running.to_owned());
    }
    let Some(treatment) = treatment.filter(|one| one.state != TreatmentState::Canceled) else {
        return Some(words.never.to_owned());
    };
    let percent = match (treatment.state, treatment.total) {
        (TreatmentState::Complete, _) => 100,
        (_, 0) => 0,
        (_, total) => u128::from(treatment.done) * 100 / u128::from(total),
    };
    let when = date(treatment.time, Form::Ctime, zone);
    let how = match treatment.state {
        TreatmentState::Active => format!("started at {when}"),
        TreatmentState::Suspended => format!("suspended, started at {when}"),
        _ => format!("completed at {when}"),
    };
    Some(format!("({percent}% {}, {how})", words.done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::VdevKind;

    #[test]
    fn states_are_told_as_openzfs_does() {
        let mut vdev = Vdev::new(VdevKind::Disk, 0, 1);
        let notes = |vdev: &Vdev, details| notes(vdev, details, &TimeZone::UTC);
        assert_eq!(
            notes(&vdev, (true, true)),
            ["(uninitialized)", "(untrimmed)"]
        );
        assert!(notes(&vdev, (false, false)).is_empty());
        vdev.trim = Some(Treatment {
            state: TreatmentState::Active,
            time: 1_700_000_000,
            done: 47,
            total: 100,
        });
        assert_eq!(notes(&vdev, (false, false)), ["(trimming)"]);
        let running = "(47% trimmed, started at Tue Nov 14 22:13:20 2023)";
        assert_eq!(notes(&vdev, (false, true)), [running]);
        vdev.trim
            .iter_mut()
            .for_each(|trim| trim.state = TreatmentState::Complete);
        let done = "(100% trimmed, completed at Tue Nov 14 22:13:20 2023)";
        assert_eq!(notes(&vdev, (false, true)), [done]);
        (vdev.trim, vdev.trim_unsupported) = (None, true);
        assert_eq!(notes(&vdev, (false, true)), ["(trim unsupported)"]);
    }
}
