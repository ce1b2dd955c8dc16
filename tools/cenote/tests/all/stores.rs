//! Commands that open a pool themselves can read it from an object store as from a disk.
//!
//! Previously, `cenote ls -d s3://…` could not work: each opener parsed device names in its own
//! way, and that of these commands knew only paths. A directory is the store here.

use crate::support::{TestPool, stderr, stdout};
use std::process::Output;

fn ok(output: Output) -> String {
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text, "", "no warning");
    stdout(&output)
}

#[test]
fn a_pool_in_a_store_is_read_like_one_on_a_disk() {
    let pool = TestPool::new("single-default");
    let disk = pool.device(0);
    let disk = disk.to_str().expect("a name");
    let store = format!("file://{}", pool.directory().join("store").display());
    ok(pool.run(&["cloud", "copy", "-q", disk, &store]));

    let place = format!("{}:/", pool.manifest.pool);
    let wanted = ok(pool.cenote("ls", &["-lR", &place]));
    assert!(wanted.lines().count() > 3, "{wanted}");
    std::fs::remove_dir_all(pool.directory().join("devices")).expect("the only other copy");
    let url: &[&str] = &["-d", &store];
    assert_eq!(
        ok(pool.run(&[&["ls"], url, &["-lR", &place]].concat())),
        wanted
    );
    // Options in a name apply to opening.
    let with_options = format!("{store}?log=0");
    let listing = pool.run(&["ls", "-d", &with_options, "-lR", &place]);
    assert_eq!(ok(listing), wanted);
    ok(pool.run(&[&["verify"], url, &["-q", &pool.manifest.pool]].concat()));
    let labels = ok(pool.run(&["inspect", "labels", &store]));
    assert!(labels.contains(&pool.manifest.pool), "{labels}");
    let mut listed = pool.command(&["ls", "-lR", &place]);
    listed.env("CENOTE_DEVICES", format!("/nosuch:{store}:."));
    assert_eq!(stdout(&listed.output().expect("cenote runs")), wanted);
}

#[test]
fn what_is_no_device_of_a_store_says_so() {
    let pool = TestPool::new("single-default");
    let place = format!("{}:/", pool.manifest.pool);
    let missing = format!("file://{}", pool.directory().join("missing").display());
    for (name, reason) in [
        (missing.as_str(), "there is no device"),
        ("gs://bucket", "there is no kind of device 'gs'"),
        ("file:///x?size=none", "size"),
    ] {
        let output = pool.run(&["ls", "-d", name, &place]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(reason) && text.contains(name), "{text}");
    }
    assert!(
        !pool.directory().join("missing").exists(),
        "looking makes no store"
    );
}
