//! The pool of the transcripts in various faulty states, and the output of `zpool status`.

use cenote_control::model::{
    Condition, ControlError, Part, PoolHealth, Request, Response, RunState, Scan, ScanKind,
    Treatment, TreatmentState, Vdev, VdevAux, VdevState, VdevTree,
};
use cenote_control::protocol::{CallError, Interrupt};
use cenote_words::context::Daemon;

use super::run;
use super::transcripts::check;
use super::world::Canned;

/// Parses `state:aux`, in OpenZFS's numbers.
fn state_of(word: &str) -> (VdevState, VdevAux) {
    let (state, aux) = word.split_once(':').expect("two numbers");
    let state = match state {
        "2" => VdevState::Offline,
        "4" => VdevState::CantOpen,
        "5" => VdevState::Faulted,
        "6" => VdevState::Degraded,
        "7" => VdevState::Online,
        other => panic!("state {other} is not used here"),
    };
    let aux = match aux {
        "0" => VdevAux::None,
        "1" => VdevAux::OpenFailed,
        "2" => VdevAux::CorruptData,
        "3" => VdevAux::NoReplicas,
        "6" => VdevAux::BadLabel,
        "7" => VdevAux::VersionNewer,
        "11" => VdevAux::TooManyErrors,
        other => panic!("aux {other} is not used here"),
    };
    (state, aux)
}

fn health_of(vdev: &Vdev) -> PoolHealth {
    match (vdev.state, vdev.aux) {
        (VdevState::CantOpen, VdevAux::CorruptData) | (VdevState::Faulted, _) => {
            PoolHealth::Faulted
        }
        (VdevState::CantOpen, _) => PoolHealth::Unavail,
        (VdevState::Degraded, _) => PoolHealth::Degraded,
        _ => PoolHealth::Online,
    }
}

fn condition_of(word: &str) -> Condition {
    match word {
        "MissingDevice" => Condition::MissingDevice,
        "MissingNoReplicas" => Condition::MissingNoReplicas,
        "FaultedDevice" => Condition::FaultedDevice,
        "OfflineDevice" => Condition::OfflineDevice,
        "CorruptLabel" => Condition::CorruptLabel,
        "FailingDevice" => Condition::FailingDevice,
        "VersionNewer" => Condition::VersionNewer,
        "CorruptPool" => Condition::CorruptPool,
        "CorruptData" => Condition::CorruptData,
        "FeaturesDisabled" => Condition::FeaturesDisabled,
        other => panic!("condition {other} is not used here"),
    }
}

/// A scan from the digits for function and state in the transcripts.
fn scan_of(digits: &str) -> Scan {
    let (kind, state) = digits.split_at(1);
    Scan {
        kind: if kind == "1" {
            ScanKind::Scrub
        } else {
            ScanKind::Resilver
        },
        state: match state {
            "1" => RunState::Running,
            "2" => RunState::Finished,
            _ => RunState::Canceled,
        },
        start_time: 1_700_000_000,
        end_time: 1_700_000_061,
        to_examine: 1 << 30,
        examined: 1 << 29,
        skipped: 1 << 20,
        processed: 12_345,
        errors: 0,
        pass_examined: 1 << 29,
        pass_start: 1_700_000_000,
        pause_time: 0,
        paused_seconds: 0,
        pass_issued: 1 << 28,
        issued: 1 << 28,
    }
}

/// Sets initialization and trim of all devices to this state.
fn treat_all(tree: &mut VdevTree, state: &str) {
    let treatment = |time, done| Treatment {
        state: match state {
            "1" => TreatmentState::Active,
            "4" => TreatmentState::Complete,
            other => panic!("state {other} is not used here"),
        },
        time,
        done,
        total: 112 << 20,
    };
    let others = tree.cache.iter_mut().chain(&mut tree.spares);
    let mut stack: Vec<&mut Vdev> = others.chain([&mut tree.root]).collect();
    while let Some(vdev) = stack.pop() {
        vdev.initialize = Some(treatment(1_700_000_000, 40 << 20));
        vdev.trim = Some(treatment(1_700_000_100, 30 << 20));
        stack.extend(vdev.children.iter_mut());
    }
}

fn world(changes: &str) -> Canned {
    let mut world = Canned::tank();
    let pool = &mut world.statuses[0];
    for change in changes.split(' ') {
        let (name, value) = change.split_once('=').expect("NAME=VALUE");
        let root = &mut pool.vdevs.root;
        match name {
            "SH_L0" => {
                let disk = &mut root.children[0].children[0];
                (disk.state, disk.aux) = state_of(value);
            }
            "SH_TOP" => {
                (root.state, root.aux) = state_of(value);
                let mirror = &mut root.children[0];
                (mirror.state, mirror.aux) = state_of(value);
                pool.health = health_of(&pool.vdevs.root);
            }
            "SH_CK" => {
                let errors = value.parse().expect("a number");
                root.children[0].children[0].counters.checksum_errors = errors;
                pool.error_count = 2;
            }
            "SH_SCAN" => pool.scan = Some(scan_of(value)),
            "SH_PAUSE" => {
                let scan = pool.scan.as_mut().expect("SH_SCAN comes first");
                scan.pause_time = 1_700_000_030;
            }
            "SH_IT" => treat_all(&mut pool.vdevs, value),
            "condition" => pool.condition = Some(condition_of(value)),
            other => panic!("{other} is not used here"),
        }
    }
    let vdevs = pool.vdevs.clone();
    world.pools[0].vdevs = Some(vdevs);
    world.pools[0].health = world.statuses[0].health;
    world
}

#[test]
fn trouble_is_told_as_openzfs_tells_it() {
    let text = include_str!("../../tests/reference/states.txt");
    let cases: Vec<&str> = text.split("# ").filter(|case| !case.is_empty()).collect();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let (changes, transcript) = case.split_once('\n').expect("a line of changes");
        check(transcript, &world(changes));
    }
}

/// Shows pools, but neither their history nor their events.
struct Discreet(Canned);

impl Daemon for Discreet {
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        match request {
            Request::History { .. } | Request::Events { .. } => {
                Err(ControlError::PermissionDenied.into())
            }
            request => self.0.call(request, on_part),
        }
    }
}

/// Previously, the heading of the list was printed before "permission denied".
#[test]
fn a_list_that_is_refused_has_no_heading() {
    for line in [
        "zpool history",
        "zpool history tank",
        "zpool events",
        "zpool events tank",
    ] {
        let refused = run(line, Discreet(Canned::tank()));
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{line}");
        assert!(refused.err.contains("permission denied"), "{}", refused.err);
    }
}
