//! The units of `contrib/systemd`, as systemd reads them, and the scripts that they run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd")
}

/// The units in a directory of their own, with programs that are there.
fn units(place: &Path) -> Vec<PathBuf> {
    for name in ["cenote", "zpool", "zfs"] {
        symlink(env!("CARGO_BIN_EXE_cenote"), place.join(name)).expect("a link");
    }
    let mut files = vec![source().join("cenote.service")];
    for entry in fs::read_dir(source().join("zfs")).expect("units") {
        files.push(entry.expect("a file").path());
    }
    let is_unit = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("service" | "timer" | "target"))
    };
    let mut made = Vec::new();
    for file in files.into_iter().filter(is_unit) {
        let mut text = fs::read_to_string(&file).expect("a unit");
        for name in ["cenote", "zpool", "zfs"] {
            let program = place.join(name).display().to_string();
            for start in ["=", "=-"] {
                text = text.replace(&format!("{start}{name} "), &format!("{start}{program} "));
            }
        }
        for name in ["zfs-load-key", "if-daemon-runs"] {
            let script = source().join("zfs").join(name).display().to_string();
            text = text.replace(&format!("/usr/lib/cenote/{name}"), &script);
        }
        let name = file.file_name().expect("a name");
        fs::write(place.join(name), text).expect("a file");
        made.push(place.join(name));
    }
    made
}

/// What systemd-analyze complains of, without what it says of the machine's own units.
fn complaints(unit: &Path, place: &Path) -> String {
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(unit)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", place.display()))
        .output()
        .expect("systemd-analyze runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn systemd_understands_every_unit() {
    let found = Command::new("systemd-analyze").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        cenote_tests::missing!("systemd-analyze is not installed");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path();
    let units = units(place);
    assert!(units.len() > 10, "{units:?}");
    let mut faults = String::new();
    for unit in &units {
        // A template is checked as an instance of it.
        let name = unit.file_name().expect("a name").to_string_lossy();
        let instance = place.join(name.replace("@.", "@tank."));
        if instance != *unit {
            fs::copy(unit, &instance).expect("a copy");
        }
        faults.push_str(&complaints(&instance, place));
    }
    assert!(faults.is_empty(), "{faults}");
    let wrong = place.join("wrong.service");
    fs::write(
        &wrong,
        "[Service]\nExecStart=/no/such/program\nTypo=notify\n",
    )
    .expect("a file");
    assert!(
        !complaints(&wrong, place).is_empty(),
        "the check sees nothing"
    );
}

/// A line of /etc/fstab was mounted before the daemon ran, or in a circle with it.
#[test]
fn the_generator_makes_mounts_wait() {
    if !Command::new("systemd-escape")
        .arg("a")
        .output()
        .is_ok_and(|ran| ran.status.success())
    {
        cenote_tests::missing!("systemd-escape is not installed");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let table = place.path().join("fstab");
    let lines = "# a comment\n\
                 /dev/sda1 / ext4 defaults 0 1\n\
                 tank/home /srv/home\\040of\\040all zfs defaults,_netdev 0 0\n\
                 tank/late /late zfs defaults 0 0\n\
                 tank/idle /idle zfs noauto 0 0\n";
    fs::write(&table, lines).expect("a file");
    let (normal, log) = (place.path().join("normal"), place.path().join("kmsg"));
    let ran = Command::new(source().join("zfs/cenote-mount-generator"))
        .args([&normal, &normal, &normal])
        .env("FSTAB", &table)
        .env("KMSG", &log)
        .status();
    assert!(ran.expect("it runs").success());
    let mut made: Vec<String> = fs::read_dir(&normal)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    made.sort();
    assert_eq!(made, ["idle.mount.d", "srv-home\\x20of\\x20all.mount.d"]);
    let text = fs::read_to_string(normal.join("idle.mount.d/50-cenote.conf")).expect("a drop-in");
    assert!(
        text.contains("After=cenote.service zfs-import.target"),
        "{text}"
    );
    let told = fs::read_to_string(&log).expect("a message");
    assert!(told.contains("'/late' needs the option _netdev"), "{told}");
}
