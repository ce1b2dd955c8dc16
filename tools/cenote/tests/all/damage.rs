//! Damaged pools: errors name the file and what to do, and intact data can still be read.

use crate::support::{TestPool, stderr, stdout};
use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// Where a vdev's space begins on its device, after the labels and the boot area.
const SPACE_START: u64 = 4 << 20;

/// The pool to damage: it has one device, so nothing can be repaired.
const KIND: &str = "quotas";
const DATASET: &str = "gold_quotas/users";

/// The path of a file with blocks of its own, and its first block pointer.
fn victim(pool: &TestPool) -> (String, Value) {
    let found = pool.cenote("find", &[DATASET, "-type", "f", "-size", "+8k"]);
    for path in stdout(&found).lines() {
        let place = format!("{DATASET}:{path}");
        let output = pool.run(&["inspect", "bp", "-d", "devices", "--json", &place, "0", "0"]);
        let pointer: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        if pointer["copies"]
            .as_array()
            .is_some_and(|copies| !copies.is_empty())
        {
            return (path.to_owned(), pointer);
        }
    }
    panic!("no file of {DATASET} has a block");
}

/// Overwrites all copies of a block.
fn damage(pool: &TestPool, pointer: &Value) {
    let device = OpenOptions::new()
        .write(true)
        .open(pool.device(0))
        .expect("the device");
    for copy in pointer["copies"].as_array().expect("copies") {
        let offset = copy["offset"].as_u64().expect("a number") + SPACE_START;
        device.write_all_at(&[0x5a; 64], offset).expect("writable");
    }
}

#[test]
fn a_damaged_file_is_named() {
    let pool = TestPool::new(KIND);
    let (path, pointer) = victim(&pool);
    assert_eq!(pointer["health"][0]["health"], "good");
    damage(&pool, &pointer);
    let place = format!("{DATASET}:{path}");

    let output = pool.cenote("cat", &[&place]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&place), "{}", stderr(&output));

    let output = pool.cenote("manifest", &["--sha256", DATASET]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&place), "{}", stderr(&output));
    let manifest: Value = serde_json::from_str(&stdout(&output)).expect("JSON, whatever happens");
    let entry = &manifest["entries"][path.trim_start_matches('/')];
    assert!(
        entry["size"].is_u64() && entry["sha256"].is_null(),
        "{entry}"
    );

    let output = pool.cenote("verify", &["--json", "-q", "gold_quotas"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let damaged = report["damaged"].as_array().expect("a list");
    let names_it = |block: &Value| block["path"] == path && block["dataset"] == DATASET;
    assert!(damaged.iter().any(names_it), "{report}");
}

/// Without `--keep-going` a copy skips the damaged file and continues; previously it ended there.
/// With it only the damaged block is lost.
#[test]
fn a_copy_goes_on_after_damage() {
    let pool = TestPool::new(KIND);
    let (path, pointer) = victim(&pool);
    let place = format!("{DATASET}:{path}");
    let whole = pool.cenote("cat", &[&place]).stdout;
    damage(&pool, &pointer);
    let from = format!("{DATASET}:/");

    let output = pool.cenote("cp", &["-a", "-q", &from, "without"]);
    assert_eq!(output.status.code(), Some(1));
    let named = stderr(&output);
    assert!(
        named.contains(&place) && named.contains("not copied"),
        "{named}"
    );
    let copied = pool.directory().join("without");
    let victim = copied.join(path.trim_start_matches('/'));
    assert!(!victim.exists(), "a file that is not whole has no name");
    let found = pool.cenote("find", &[DATASET]);
    for path in stdout(&found)
        .lines()
        .map(|path| copied.join(path.trim_start_matches('/')))
    {
        assert!(
            path.symlink_metadata().is_ok() || path == victim,
            "{}",
            path.display()
        );
    }

    let output = pool.cenote("cp", &["-a", "-q", "-k", &from, "salvaged"]);
    assert_eq!(output.status.code(), Some(1));
    let message = format!("{place}: bytes 0 to ");
    assert!(stderr(&output).contains(&message), "{}", stderr(&output));
    let salvaged = pool
        .directory()
        .join("salvaged")
        .join(path.trim_start_matches('/'));
    let salvaged = std::fs::read(salvaged).expect("the file");
    let block = usize::try_from(pointer["logical_size"].as_u64().expect("a size")).expect("small");
    let lost = block.min(whole.len());
    assert_eq!(salvaged.len(), whole.len());
    assert!(salvaged[..lost].iter().all(|byte| *byte == 0));
    assert_eq!(salvaged[lost..], whole[lost..]);
}

/// Labels are shown even if they do not form a pool.
#[test]
fn labels_of_a_wrecked_device_are_shown() {
    let pool = TestPool::new(KIND);
    let device = OpenOptions::new()
        .write(true)
        .open(pool.device(0))
        .expect("the device");
    device
        .write_all_at(&vec![0x77; 512 << 10], 0)
        .expect("writable");
    let path = pool.device(0).display().to_string();
    let output = pool.run(&["inspect", "labels", "--json", &path]);
    let labels: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let health: Vec<&str> = (0..4)
        .filter_map(|i| labels["labels"][i]["health"].as_str())
        .collect();
    assert_eq!(health, ["not a label", "not a label", "valid", "valid"]);
    assert!(
        pool.cenote("ls", &[DATASET]).status.success(),
        "two labels are enough"
    );

    let end = device.metadata().expect("metadata").len() - (512 << 10);
    device
        .write_all_at(&vec![0x77; 512 << 10], end)
        .expect("writable");
    let output = pool.run(&["inspect", "uberblocks", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no uberblock"),
        "{}",
        stderr(&output)
    );
    let output = pool.cenote("ls", &[DATASET]);
    assert!(
        stderr(&output).contains("no pool 'gold_quotas' found"),
        "{}",
        stderr(&output)
    );
}

/// Missing devices are listed with their last known paths.
#[test]
fn missing_devices_are_named() {
    let pool = TestPool::new("raidz1-3");
    std::fs::remove_file(pool.device(0)).expect("there");
    assert!(
        pool.cenote("ls", &["gold_raidz13/data"]).status.success(),
        "one may be missing"
    );
    std::fs::remove_file(pool.device(1)).expect("there");
    let output = pool.cenote("ls", &["gold_raidz13/data"]);
    let complaint = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint.contains("devices are missing: raidz1-0 device"),
        "{complaint}"
    );
    assert!(complaint.contains("last seen as"), "{complaint}");
    assert!(
        complaint.contains("v2.img: all labels valid"),
        "{complaint}"
    );
}

/// A device inside a larger file is found by its offset.
#[test]
fn a_device_may_begin_anywhere() {
    let pool = TestPool::new(KIND);
    let whole = std::fs::read(pool.device(0)).expect("the device");
    let image = pool.directory().join("image");
    std::fs::write(&image, [vec![0; 12_345_344], whole].concat()).expect("writable");
    let open = |offset: &str| {
        let words = ["ls", "-d", "image", "--offset", offset, DATASET];
        pool.run(&words).status.success()
    };
    assert!(open("12345344") && !open("0") && !open("512"));
    let words = ["inspect", "labels", "-j", "--offset", "12345344", "image"];
    let labels: Value = serde_json::from_str(&stdout(&pool.run(&words))).expect("JSON");
    assert_eq!(labels["labels"][3]["health"], "valid");
}

/// Previously, a device without labels printed nothing and exited with 0, as if all were well.
#[test]
fn devices_without_labels_are_not_passed_over_in_silence() {
    let pool = TestPool::new(KIND);
    let size = std::fs::metadata(pool.device(0)).expect("the device").len();
    std::fs::File::create(pool.device(0))
        .expect("writable")
        .set_len(size)
        .expect("room");
    for what in ["labels", "uberblocks"] {
        let output = pool.run(&["inspect", what, "-d", "devices"]);
        assert_eq!(output.status.code(), Some(1), "{what}");
        assert!(
            stderr(&output).contains("labels of a pool"),
            "{}",
            stderr(&output)
        );
    }
}
