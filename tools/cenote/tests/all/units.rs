//! Checks the units of `contrib/systemd` with systemd, and the scripts that they run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd")
}

/// Copies the units to a directory, with paths of existing programs.
fn units(place: &Path) -> Vec<PathBuf> {
    for name in ["cenote", "zpool", "zfs"] {
        symlink(env!("CARGO_BIN_EXE_cenote"), place.join(name)).expect("a link");
    }
    let own = ["cenote.service", "cenote-pools.service"];
    let mut files: Vec<PathBuf> = own.iter().map(|name| source().join(name)).collect();
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
        for name in ["zfs-load-key", "if-daemon-runs", "for-pool"] {
            let script = source().join("zfs").join(name).display().to_string();
            text = text.replace(&format!("/usr/lib/cenote/{name}"), &script);
        }
        let name = file.file_name().expect("a name");
        fs::write(place.join(name), text).expect("a file");
        made.push(place.join(name));
    }
    made
}

/// The complaints of systemd-analyze, without those about the machine's own units.
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
        // A template is checked as one of its instances.
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

/// Previously, a line of /etc/fstab was mounted before the daemon ran, or was in a dependency cycle
/// with it.
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
                 none none zfs noauto 0 0\n\
                 tank/idle /idle zfs noauto 0 0\n\
                 tank/last /last zfs noauto";
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
    // A line with an invalid mount point ended the generator, and a last line without newline was
    // not read.
    let wanted = [
        "idle.mount.d",
        "last.mount.d",
        "srv-home\\x20of\\x20all.mount.d",
    ];
    assert_eq!(made, wanted);
    let text = fs::read_to_string(normal.join("idle.mount.d/50-cenote.conf")).expect("a drop-in");
    assert!(
        text.contains("After=cenote.service zfs-import.target"),
        "{text}"
    );
    let told = fs::read_to_string(&log).expect("a message");
    assert!(told.contains("'/late' needs the option _netdev"), "{told}");
}

/// Commands that record their arguments, and answer like a machine with the pools 'my-pool' and
/// 'two words'.
const COMMANDS: &str = r#"#!/bin/sh
echo "$(basename "$0") $(printf '<%s>' "$@")" >>"$LOG"
case "$(basename "$0") $*" in
    'zpool list -H -o name my-pool' | 'zpool list -H -o name two words') ;;
    'zpool list'*) exit 1 ;;
    'zpool status my-pool') echo "scan: ${SCAN:-none requested}" ;;
    'zfs get -H -o value keystatus tank/gone') echo "does not exist" >&2; exit 1 ;;
    'zfs get -H -o value keystatus tank/plain') echo none ;;
    'zfs get -H -o value keystatus '*) echo unavailable ;;
    'zfs get -H -o value keylocation '*) echo prompt ;;
    'systemd-ask-password '*) echo typed ;;
    'zfs load-key '*) [ "${KEY:-right}" = right ] ;;
esac
"#;

/// Runs a script of the units with these commands; returns its exit code, its errors, and its
/// calls.
fn with_commands(script: &str, arguments: &[&str], set: &[(&str, &str)]) -> (i32, String, String) {
    let place = tempfile::tempdir().expect("a directory");
    for name in ["zpool", "zfs", "cenote", "systemd-ask-password"] {
        let path = place.path().join(name);
        fs::write(&path, COMMANDS).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("a mode");
    }
    let log = place.path().join("log");
    let path = std::env::var("PATH").expect("a path");
    let ran = Command::new(source().join("zfs").join(script))
        .args(arguments)
        .env("PATH", format!("{}:{path}", place.path().display()))
        .env("LOG", &log)
        .envs(set.iter().copied())
        .output()
        .expect("it runs");
    let complaints = String::from_utf8_lossy(&ran.stderr).into_owned();
    let calls = fs::read_to_string(log).unwrap_or_default();
    (ran.status.code().unwrap_or(-1), complaints, calls)
}

/// Previously, `zfs-scrub@my\x2dpool`, which systemd-escape generates for 'my-pool', scrubbed no
/// pool. A pool with a space in its name could not be scrubbed at all. And if a scrub was already
/// running, the unit failed.
#[test]
fn timers_find_their_pools() {
    let last = |arguments: &[&str], set: &[(&str, &str)]| {
        let (code, complaints, calls) = with_commands("for-pool", arguments, set);
        assert_eq!(code, 0, "{complaints}");
        calls.lines().last().unwrap_or_default().to_owned()
    };
    let scrub = "zpool <scrub><-w><my-pool>";
    assert_eq!(last(&["my-pool", "scrub"], &[]), scrub);
    assert_eq!(last(&["my-pool", "trim"], &[]), "zpool <trim><-w><my-pool>");
    if Command::new("systemd-escape").arg("a").output().is_ok() {
        assert_eq!(last(&["my\\x2dpool", "scrub"], &[]), scrub);
        assert_eq!(
            last(&["two\\x20words", "pause-scrub"], &[]),
            "zpool <scrub><-p><two words>"
        );
    }
    let running = [("SCAN", "scrub in progress since")];
    assert_eq!(
        last(&["my-pool", "scrub"], &running),
        "zpool <wait><-t><scrub><my-pool>"
    );
    // It waits for the resilver, then scrubs.
    let resilvering = [("SCAN", "resilver in progress since")];
    let (_, _, calls) = with_commands("for-pool", &["my-pool", "scrub"], &resilvering);
    assert!(
        calls.ends_with(&format!("zpool <wait><-t><resilver><my-pool>\n{scrub}\n")),
        "{calls}"
    );
    // A scrub that has ended need not be paused.
    let (code, _, calls) = with_commands(
        "for-pool",
        &["my-pool", "pause-scrub"],
        &[("EXIT_CODE", "exited")],
    );
    assert_eq!((code, calls.contains("scrub><-p>")), (0, false), "{calls}");
}

/// If a dataset's pool was not imported, the unit reported "is not encrypted; disable this unit".
#[test]
fn a_key_that_cannot_be_loaded_has_its_reason() {
    let load = |root: &str, set: &[(&str, &str)]| with_commands("zfs-load-key", &[root], set);
    let (code, complaints, _) = load("tank/gone", &[]);
    assert!(
        code == 1 && complaints.contains("is not there"),
        "{complaints}"
    );
    let (code, complaints, _) = load("tank/plain", &[]);
    assert!(
        code == 1 && complaints.contains("is not encrypted"),
        "{complaints}"
    );
    let (code, _, calls) = load("tank/my home", &[]);
    assert!(
        code == 0 && calls.contains("<load-key><tank/my home>"),
        "{calls}"
    );
    let (code, complaints, calls) = load("tank/home", &[("KEY", "wrong")]);
    assert_eq!((code, calls.matches("load-key").count()), (1, 3), "{calls}");
    assert!(complaints.contains("zfs mount -a"), "{complaints}");
}
