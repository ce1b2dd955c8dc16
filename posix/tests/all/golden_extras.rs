//! What manifests say beside the files: which spellings find a name, accounts, differences.

use crate::common;
use cenote_posix::{
    AccountKind, DatasetSpace, DirectoryEntry, FileKind, FileSystem, PosixError, SymlinkPolicy,
    Znode,
};
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn spellings_find_names_as_in_openzfs() {
    let Some(pool) = common::open("names-folding") else {
        return;
    };
    let lookups = pool.golden.manifest.document["lookups"]
        .as_object()
        .expect("an object");
    for (dataset, wanted) in lookups {
        let file_system = pool.file_system(dataset);
        for (path, outcome) in wanted.as_object().expect("an object") {
            let found = file_system.resolve(path.as_bytes(), SymlinkPolicy::Refuse);
            match outcome.as_u64() {
                Some(object) => {
                    let found = found.map(|znode| znode.id().0);
                    assert_eq!(found.ok(), Some(object), "{dataset}: {path}");
                }
                None => {
                    let error = found.expect_err("no such name");
                    assert_eq!(error.errno(), 2, "{dataset}: {path}: {error}");
                }
            }
        }
    }
}

#[test]
fn accounts_are_those_that_openzfs_printed() {
    let Some(pool) = common::open("quotas") else {
        return;
    };
    let file_system = pool.file_system("gold_quotas/users");
    let kinds = [
        (AccountKind::User, "userspace", "POSIX User"),
        (AccountKind::Group, "groupspace", "POSIX Group"),
        (AccountKind::Project, "projectspace", "Project"),
    ];
    for (kind, key, label) in kinds {
        let accounts = file_system.accounts(kind).expect("readable");
        let lines: BTreeSet<String> = accounts
            .iter()
            .map(|a| {
                let (owner, objects) = (&a.owner, a.objects_used);
                format!(
                    "{label}\t{owner}\t{}\t{}\t{objects}\t{}",
                    a.used, a.quota, a.objects_quota
                )
            })
            .collect();
        let wanted = pool.golden.manifest.document[key]
            .as_array()
            .expect("lines");
        let wanted: BTreeSet<String> = wanted
            .iter()
            .map(|line| line.as_str().expect("text").to_owned())
            .collect();
        assert_eq!(lines, wanted);
    }
}

/// Lists a directory in steps of `step` entries, starting again from the last cookie each time.
fn list(file_system: &Arc<FileSystem>, directory: &Arc<Znode>, step: usize) -> Vec<DirectoryEntry> {
    let mut all: Vec<DirectoryEntry> = Vec::new();
    loop {
        let cookie = all.last().map_or(0, |entry| entry.cookie);
        let batch = file_system
            .read_directory_plus(directory, cookie, step)
            .expect("readable");
        if batch.is_empty() {
            return all;
        }
        for (entry, stat) in batch {
            assert_eq!(entry.target.kind, Some(stat.expect("readable").kind));
            all.push(entry);
        }
    }
}

#[test]
fn listings_go_on_from_any_cookie() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let file_system = pool.file_system("gold_singledefault/data");
    for path in [b"many".as_slice(), b"names", b"tiny"] {
        let directory = file_system
            .resolve(path, SymlinkPolicy::Follow)
            .expect("is there");
        let whole = list(&file_system, &directory, usize::MAX);
        assert_eq!(whole.len() as u64, directory.attributes().size);
        assert_eq!(whole[0].name, b".");
        assert_eq!(whole[1].target.object, file_system.root());
        let cookies: BTreeSet<u64> = whole.iter().map(|entry| entry.cookie).collect();
        assert_eq!(cookies.len(), whole.len(), "cookies are unique");
        assert!(whole.iter().all(|entry| entry.cookie < 1 << 62));
        for step in [1, 7, 100] {
            if step > 1 || whole.len() < 100 {
                assert!(
                    list(&file_system, &directory, step) == whole,
                    "steps of {step}"
                );
            }
        }
    }
}

#[test]
fn objects_know_their_paths() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let file_system = pool.file_system("gold_singledefault/data");
    for found in file_system.walk(file_system.root()).expect("begins") {
        let found = found.expect("readable");
        if found.path.starts_with(b"many/") || found.znode.attributes().links != 1 {
            continue;
        }
        let path = file_system.path_of(found.znode.id()).expect("has a path");
        assert_eq!(path, found.path);
    }
    let dirxattr = pool.file_system("gold_singledefault/dirxattr");
    let file = dirxattr
        .resolve(b"xattr/f1", SymlinkPolicy::Follow)
        .expect("is there");
    let hidden = file
        .attributes()
        .xattr_directory
        .expect("has attributes as files");
    assert_eq!(
        dirxattr.path_of(hidden).expect("has a path"),
        b"xattr/f1/<xattrdir>"
    );
}

#[test]
fn links_are_followed_as_asked() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let file_system = pool.file_system("gold_singledefault/data");
    let resolve = |path: &[u8], policy| file_system.resolve(path, policy);
    let link = resolve(b"xattr/link", SymlinkPolicy::FollowParents).expect("the link");
    assert_eq!(link.kind(), FileKind::Symlink);
    let file = resolve(b"xattr/../xattr/./link", SymlinkPolicy::Follow).expect("f0");
    let named = resolve(b"/xattr/f0", SymlinkPolicy::Refuse).expect("f0");
    assert_eq!(file.id(), named.id());
    let errno = |path: &[u8]| {
        resolve(path, SymlinkPolicy::Follow)
            .expect_err("fails")
            .errno()
    };
    assert_eq!(errno(b"links/dangling"), 2);
    assert_eq!(
        errno(b"xattr/f0/"),
        20,
        "a trailing slash asks for a directory"
    );
    assert_eq!(errno(b"xattr/f0/x"), 20);
    assert_eq!(errno(&[b'x'; 2000]), 36);
    let refused = resolve(b"xattr/link/", SymlinkPolicy::Refuse).expect_err("a link");
    assert!(matches!(refused, PosixError::SymlinkRefused { .. }));
    let up = resolve(b"../../..", SymlinkPolicy::Follow).expect("the root");
    assert_eq!(up.id(), file_system.root());
}

#[test]
fn access_lists_have_text() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let file_system = pool.file_system("gold_singledefault/data");
    let file = file_system
        .resolve(b"modes/0644", SymlinkPolicy::Follow)
        .expect("is there");
    let text = file_system.acl_text(&file).expect("decodes");
    let wanted = [
        "owner@:rw-p--aARWcCos:-------:allow",
        "group@:r-----a-R-c--s:-------:allow",
        "everyone@:r-----a-R-c--s:-------:allow",
    ];
    assert_eq!(text, wanted);
}

#[test]
fn a_locked_file_system_is_refused() {
    let Some(pool) = common::open("encryption") else {
        return;
    };
    let keys = &pool.golden.manifest.keys;
    let datasets = &pool.golden.manifest.datasets;
    let is_file_system = |name: &&String| datasets.get(*name).is_some_and(|d| d.entries.is_some());
    let locked = keys
        .keys()
        .find(is_file_system)
        .expect("an encrypted file system");
    let refused = FileSystem::open(pool.object_set(locked)).expect_err("no key");
    assert!(matches!(refused, PosixError::KeyNotLoaded { .. }));
    assert_eq!(refused.errno(), 13);
}

#[test]
fn sums_of_accounts_match_the_files() {
    let Some(pool) = common::open("quotas") else {
        return;
    };
    let file_system = pool.file_system("gold_quotas/users");
    let accounts = file_system.accounts(AccountKind::User).expect("readable");
    let objects: u64 = accounts.iter().map(|account| account.objects_used).sum();
    let walked = file_system
        .walk(file_system.root())
        .expect("begins")
        .count() as u64;
    assert_eq!(objects, walked, "no attribute directories here");
    assert_eq!(file_system.delete_queue().expect("readable"), []);
}

#[test]
fn project_limits_show_in_statfs() {
    let Some(pool) = common::open("quotas") else {
        return;
    };
    let file_system = pool.file_system("gold_quotas/users");
    let space = DatasetSpace {
        referenced: 1 << 20,
        available: 64 << 20,
        record_size: 128 << 10,
        long_names: false,
    };
    let stat = |path: &[u8]| {
        let place = file_system
            .resolve(path, SymlinkPolicy::Follow)
            .expect("is there");
        file_system
            .stat_file_system_at(space, &place)
            .expect("readable")
    };
    let whole = stat(b"");
    assert_eq!(
        (whole.blocks, whole.blocks_free, whole.name_length_max),
        (520, 512, 255)
    );
    assert_eq!(whole.files_free, (64 << 20) / 512);
    let project = stat(b"proj");
    assert_eq!(
        (project.blocks, project.files),
        ((5 << 20) / (128 << 10), 30)
    );
    assert_eq!(project.files_free, 25);
}
