//! Sets of features by name: what a release of other software can use.
//!
//! Source: zpool-features(7), "Compatibility feature sets". A pool's property `compatibility`
//! names files with lists of features; an OpenZFS installation brings some for the releases that
//! are in use. These are known here without their files. Most sets are another one with a few
//! features more, which is how the table has them.

use crate::features::{Feature, by_name};

/// A set, by how it differs from another.
struct Row {
    names: &'static [&'static str],
    /// The first name of a row above.
    base: &'static str,
    more: &'static [&'static str],
    less: &'static [&'static str],
}

const fn row(
    names: &'static [&'static str],
    base: &'static str,
    more: &'static [&'static str],
) -> Row {
    Row {
        names,
        base,
        more,
        less: &[],
    }
}

/// What the FreeBSD ports of OpenZFS were late with.
const EDONR: &[&str] = &["edonr"];

const ROWS: &[Row] = &[
    row(
        &["zol-0.6.1"],
        "",
        &["async_destroy", "empty_bpobj", "lz4_compress"],
    ),
    row(
        &["zol-0.6.4"],
        "zol-0.6.1",
        &[
            "bookmarks",
            "embedded_data",
            "enabled_txg",
            "extensible_dataset",
            "hole_birth",
            "spacemap_histogram",
        ],
    ),
    row(
        &["zol-0.6.5", "compat-2018", "2018"],
        "zol-0.6.4",
        &["filesystem_limits", "large_blocks"],
    ),
    row(&["freenas-9.10.2"], "zol-0.6.5", &["multi_vdev_crash_dump"]),
    row(
        &[
            "freebsd-11.0",
            "freebsd-11.1",
            "freenas-11.0",
            "freenas-11.1",
            "compat-2019",
            "2019",
            "compat-2020",
            "2020",
        ],
        "freenas-9.10.2",
        &["sha512", "skein"],
    ),
    row(
        &["freebsd-11.2", "freenas-11.2"],
        "freebsd-11.0",
        &["device_removal", "obsolete_counts", "zpool_checkpoint"],
    ),
    row(
        &[
            "freebsd-11.3",
            "freebsd-11.4",
            "freebsd-12.0",
            "freebsd-12.1",
            "freebsd-12.2",
            "freebsd-12.3",
            "freebsd-12.4",
            "freenas-11.3",
            "compat-2021",
            "2021",
        ],
        "freebsd-11.2",
        &["spacemap_v2"],
    ),
    row(&["openzfsonosx-1.7.0"], "freebsd-11.0", EDONR),
    row(&["openzfsonosx-1.8.1"], "freebsd-11.3", EDONR),
    row(
        &["zol-0.7", "ubuntu-18.04"],
        "openzfsonosx-1.7.0",
        &["large_dnode", "userobj_accounting"],
    ),
    row(
        &[
            "zol-0.8",
            "ubuntu-20.04",
            "openzfsonosx-1.9.3",
            "openzfsonosx-1.9.4",
        ],
        "zol-0.7",
        &[
            "allocation_classes",
            "bookmark_v2",
            "device_removal",
            "encryption",
            "obsolete_counts",
            "project_quota",
            "resilver_defer",
            "spacemap_v2",
            "zpool_checkpoint",
        ],
    ),
    row(
        &["openzfs-2.0-linux"],
        "zol-0.8",
        &[
            "bookmark_written",
            "device_rebuild",
            "livelist",
            "log_spacemap",
            "redacted_datasets",
            "redaction_bookmarks",
            "zstd_compress",
        ],
    ),
    Row {
        less: EDONR,
        ..row(
            &["openzfs-2.0-freebsd", "truenas-12.0"],
            "openzfs-2.0-linux",
            &[],
        )
    },
    row(
        &["openzfs-2.1-linux", "ubuntu-22.04"],
        "openzfs-2.0-linux",
        &["draid"],
    ),
    Row {
        less: EDONR,
        ..row(
            &[
                "openzfs-2.1-freebsd",
                "freebsd-13.0",
                "freebsd-13.1",
                "freebsd-13.2",
            ],
            "openzfs-2.1-linux",
            &[],
        )
    },
    row(
        &["openzfs-2.2", "openzfs-2.2-linux", "openzfs-2.2-freebsd"],
        "openzfs-2.1-linux",
        &[
            "blake3",
            "block_cloning",
            "head_errlog",
            "vdev_zaps_v2",
            "zilsaxattr",
        ],
    ),
    row(
        &["openzfs-2.3", "openzfs-2.3-linux", "openzfs-2.3-freebsd"],
        "openzfs-2.2",
        &[
            "fast_dedup",
            "large_microzap",
            "longname",
            "raidz_expansion",
            "redaction_list_spill",
        ],
    ),
    Row {
        less: &["bookmarks", "extensible_dataset"],
        ..row(
            &["grub2-2.06"],
            "zol-0.6.4",
            &[
                "allocation_classes",
                "block_cloning",
                "device_rebuild",
                "log_spacemap",
                "resilver_defer",
                "spacemap_v2",
                "zpool_checkpoint",
            ],
        )
    },
    row(
        &["grub2-2.12", "grub2"],
        "grub2-2.06",
        &[
            "bookmarks",
            "extensible_dataset",
            "filesystem_limits",
            "large_blocks",
            "livelist",
            "project_quota",
            "userobj_accounting",
            "zilsaxattr",
        ],
    ),
];

/// The features of the set with this name, in no order; `None` for a name that none has.
pub fn feature_set(name: &str) -> Option<Vec<&'static Feature>> {
    let mut row = ROWS.iter().find(|row| row.names.contains(&name))?;
    let (mut names, mut less): (Vec<&str>, Vec<&str>) = Default::default();
    loop {
        // What was taken away above the base is not there.
        names.extend(row.more.iter().filter(|name| !less.contains(name)));
        less.extend(row.less);
        match ROWS
            .iter()
            .find(|other| other.names.first() == Some(&row.base))
        {
            Some(base) => row = base,
            None => break,
        }
    }
    Some(names.into_iter().filter_map(by_name).collect())
}

/// The names of all sets.
pub fn feature_set_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.names).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sorted(mut names: Vec<String>) -> Vec<String> {
        names.sort();
        names
    }

    fn names(set: &str) -> Vec<String> {
        let found = feature_set(set).expect("known").into_iter();
        sorted(found.map(|feature| feature.name.to_owned()).collect())
    }

    #[test]
    fn rows_build_on_rows_above_and_name_features_that_exist() {
        for (index, row) in ROWS.iter().enumerate() {
            let above = |base: &str| ROWS[..index].iter().any(|row| row.names[0] == base);
            assert!(row.base.is_empty() || above(row.base), "{}", row.base);
            for name in row.more.iter().chain(row.less) {
                assert!(by_name(name).is_some(), "{name}");
            }
            let set = names(row.names[0]);
            assert!(set.windows(2).all(|pair| pair[0] != pair[1]), "{set:?}");
        }
        assert_eq!(names("openzfs-2.3").len(), 44);
        assert!(!names("openzfs-2.1-freebsd").contains(&"edonr".to_owned()));
        assert!(names("openzfs-2.1-linux").contains(&"edonr".to_owned()));
        assert!(feature_set("nosuch").is_none() && feature_set("").is_none());
    }

    #[test]
    fn sets_are_those_of_an_installed_openzfs() {
        let place = Path::new("/usr/share/zfs/compatibility.d");
        let Ok(files) = std::fs::read_dir(place) else {
            cenote_tests::missing!("OpenZFS's lists of features are not here");
            return;
        };
        for file in files.map(|file| file.expect("listed")) {
            let set = file.file_name().to_string_lossy().into_owned();
            if !feature_set_names().any(|name| name == set) {
                eprintln!("{set} is newer than this software");
                continue;
            }
            let text = std::fs::read_to_string(file.path()).expect("readable");
            let lines = text.lines().filter_map(|line| line.split('#').next());
            let listed = lines.flat_map(str::split_whitespace).map(str::to_owned);
            assert_eq!(names(&set), sorted(listed.collect()), "{set}");
        }
    }
}
