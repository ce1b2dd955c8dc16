//! Checks that the manual pages are complete and valid.

use super::TABLE;
use cenote_words::manual::{Page, pages};
use std::io::Write;
use std::process::{Command as Process, Stdio};

#[test]
fn pages_have_the_names_that_people_type() {
    let pages = pages(&TABLE);
    let has = |name: &str, section: u8| {
        let mut found = pages.iter().filter(|page| page.name == name);
        found.any(|page| page.section == section)
    };
    for name in [
        "zpool",
        "zpool-create",
        "zfs-send",
        "zfs-recv",
        "zfs-umount",
        "mount.zfs",
    ] {
        assert!(has(name, 8), "{name}");
    }
    for name in ["zfsprops", "zpoolprops", "vdevprops", "zpool-features"] {
        assert!(has(name, 7), "{name}");
    }
    assert!(has("cenote", 1) && has("cenote-verify", 1) && has("cenote-settings", 5));
}

/// groff's warnings about a page, all enabled.
fn complaints(page: &Page) -> String {
    let mut groff = Process::new("groff")
        .args(["-man", "-ww", "-z", "-Tutf8", "-rLL=78n"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("groff, of the package groff-base");
    let mut input = groff.stdin.take().expect("a pipe");
    input.write_all(page.text.as_bytes()).expect("it reads");
    drop(input);
    let ended = groff.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn groff_has_nothing_to_say_about_any_page() {
    let found = Process::new("groff").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        cenote_tests::missing!("groff is not installed");
        return;
    }
    let mut faults = String::new();
    for page in pages(&TABLE) {
        // `.so` pages are one line that names another page.
        if !page.text.starts_with(".so ") {
            let complaints = complaints(&page);
            if !complaints.is_empty() {
                faults.push_str(&format!("{}({}): {complaints}", page.name, page.section));
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    let wrong = Page {
        name: "wrong".to_owned(),
        section: 1,
        text: ".TH x 1\n.SH NAME\nx \\- \\*[nothing]\n".to_owned(),
    };
    assert!(!complaints(&wrong).is_empty(), "the check sees nothing");
}

/// Previously, a page with a name from only one table had a `.so` to a missing page.
#[test]
fn what_a_page_refers_to_is_there() {
    let pages = pages(&TABLE);
    for page in &pages {
        if let Some(target) = page.text.trim().strip_prefix(".so ") {
            let found = pages.iter().any(|other| {
                let (name, section) = (&other.name, other.section);
                target == format!("man{section}/{name}.{section}")
            });
            assert!(found, "{}: {target}", page.name);
        }
    }
}
