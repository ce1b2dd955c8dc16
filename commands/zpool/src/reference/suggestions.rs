//! Suggestions for wrong words, where only the daemon knows the right ones.

use cenote_control::model::{ControlError, Depth, Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};

use super::run;
use super::world::Canned;
use cenote_words::context::Daemon;

/// Refuses changes, and lists only one level at a time.
struct Refusing(ControlError);

impl Daemon for Refusing {
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        match request {
            Request::Change { .. } => Err(self.0.clone().into()),
            Request::DatasetList { ref depth, .. } if *depth == Depth::All => {
                panic!("all datasets are asked for: {request:?}")
            }
            request => Canned::tank().call(request, on_part),
        }
    }
}

fn asked(line: &str, refused: ControlError) -> String {
    let ran = run(line, Refusing(refused));
    assert_ne!(ran.code, 0, "{line}");
    let last = ran
        .err
        .lines()
        .find(|line| line.starts_with("did you mean"));
    last.unwrap_or_default().to_owned()
}

#[test]
fn names_are_looked_for_among_the_children_of_their_parent() {
    let none = ControlError::Interrupted;
    for (line, question) in [
        ("zfs get all tank/sf", "did you mean 'tank/fs'?"),
        ("zfs get all tnak/fs", "did you mean 'tank'?"),
        ("zfs get all tank/sf/deep@a2", "did you mean 'tank/fs'?"),
        ("zfs get all tank/fs@a3", "did you mean 'tank/fs@a2'?"),
        ("zpool status tnk", "did you mean 'tank'?"),
        // The common parent `tank/` alone does not make names similar.
        ("zfs get all tank/xyz", ""),
    ] {
        assert_eq!(asked(line, none.clone()), question, "{line}");
    }
}

#[test]
fn properties_and_their_values_are_looked_for_in_the_tables() {
    let unknown = |property: &str| ControlError::NoSuchProperty {
        property: property.to_owned(),
    };
    let bad = |name: &str| ControlError::BadValue {
        name: name.to_owned(),
        reason: "wrong".to_owned(),
    };
    for (line, refused, question) in [
        (
            "zfs set compresion=on tank",
            unknown("compresion"),
            "did you mean 'compression'?",
        ),
        (
            "zfs set compression=lz5 tank",
            bad("compression"),
            "did you mean 'lz4'?",
        ),
        (
            "zfs create -o compress=lz5 tank/n",
            bad("compression"),
            "did you mean 'lz4'?",
        ),
        (
            "zfs create -oatime=onn tank/n",
            bad("atime"),
            "did you mean 'on'?",
        ),
        (
            "zfs inherit -r -S user:x tank",
            unknown("checksm"),
            "did you mean 'checksum'?",
        ),
        (
            "zpool set autotrm=on tank",
            unknown("autotrm"),
            "did you mean 'autotrim'?",
        ),
        (
            "zpool set failmode=wiat tank",
            bad("failmode"),
            "did you mean 'wait'?",
        ),
        (
            "zpool set allocating=offf tank d",
            bad("allocating"),
            "did you mean 'off'?",
        ),
        (
            "zpool set feature@lz4_compres=enabled tank",
            unknown("feature@lz4_compres"),
            "did you mean 'lz4_compress'?",
        ),
        ("zfs set quota=many tank", bad("quota"), ""),
    ] {
        assert_eq!(asked(line, refused), question, "{line}");
    }
}
