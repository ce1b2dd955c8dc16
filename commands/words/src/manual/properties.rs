//! The pages about properties and features, under OpenZFS's names.

use super::examples;
use super::page::Page;
use super::property_texts as texts;
use super::roff::Roff;
use crate::FEATURES;
use cenote_control::model::properties::{
    ACCOUNTING, DATASET, Effect, POOL, PropertyInfo, VDEV, dataset_effect, pool_effect, vdev_effect,
};
use cenote_ondisk::features::by_name;

const SECTION: u8 = 7;

struct Kind {
    page: &'static str,
    summary: &'static str,
    about: &'static str,
    table: &'static [PropertyInfo],
    texts: &'static [texts::Text],
    effect: fn(&str) -> Effect,
    commands: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind {
        page: "zfsprops",
        summary: "properties of file systems, volumes, snapshots and bookmarks",
        about: "'zfs get' prints properties and 'zfs set' changes them. A dataset inherits many\n\
                of them from the dataset above. A name with a colon (org.example:backup) is a\n\
                property of your own, which ZFS only stores.",
        table: DATASET,
        texts: texts::DATASET,
        effect: dataset_effect,
        commands: &["zfs-get", "zfs-set", "zfs-inherit"],
    },
    Kind {
        page: "zpoolprops",
        summary: "properties of pools",
        about: "'zpool get' prints properties and 'zpool set' changes them.",
        table: POOL,
        texts: texts::POOL,
        effect: pool_effect,
        commands: &["zpool-get", "zpool-set"],
    },
    Kind {
        page: "vdevprops",
        summary: "properties of vdevs",
        about: "'zpool get PROPERTY POOL VDEV' prints properties, and 'zpool set PROPERTY=VALUE\n\
                POOL VDEV' changes them.",
        table: VDEV,
        texts: texts::VDEV,
        effect: vdev_effect,
        commands: &["zpool-get", "zpool-set"],
    },
];

/// All of them.
pub fn pages() -> Vec<Page> {
    let mut pages: Vec<Page> = KINDS.iter().map(of_kind).collect();
    pages.push(features());
    pages
}

fn of_kind(kind: &Kind) -> Page {
    let mut roff = Roff::new(kind.page, SECTION, kind.summary);
    roff.section("DESCRIPTION");
    roff.prose(kind.about);
    roff.section("PROPERTIES");
    for info in kind.table {
        let head = match info.alias {
            "" => info.name.to_owned(),
            alias => format!("{} ({alias})", info.name),
        };
        roff.entry(&head, &explained(info, kind));
    }
    if kind.page == "zfsprops" {
        for prefix in ACCOUNTING {
            let text = match prefix.contains("quota") {
                true => "A limit for this user, group or project: a size or count, or none.",
                false => "What this user, group or project uses. Read-only.",
            };
            roff.entry(&format!("{prefix}NAME"), text);
        }
        let written = "Space written since this snapshot or bookmark. Read-only.";
        roff.entry("written@SNAPSHOT, written#BOOKMARK", written);
    }
    examples::section(&mut roff, kind.page);
    let pages: Vec<(String, u8)> = kind
        .commands
        .iter()
        .map(|name| ((*name).to_owned(), 8))
        .collect();
    roff.see_also(&pages);
    Page {
        name: kind.page.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}

/// What a property means, its values, whether it can be set, and how it differs here.
fn explained(info: &PropertyInfo, kind: &Kind) -> String {
    let found = kind.texts.iter().find(|(name, _)| *name == info.name);
    let mut text = found.map_or(String::new(), |(_, text)| (*text).to_owned());
    if !info.values.is_empty() {
        text.push_str(&format!("\nValues: {}.", info.values));
    }
    text.push_str(match (info.editable, info.inherits) {
        (true, true) => "\nCan be set, and is inherited.",
        (true, false) => "\nCan be set.",
        (false, true) => "\nCan be set only when the dataset is created, and is inherited.",
        (false, false) if matches!(info.name, "keyformat" | "pbkdf2iters") => {
            "\nCan be set when the dataset is created, and by 'zfs change-key'."
        }
        (false, false) => "\nRead-only.",
    });
    match (kind.effect)(info.name) {
        Effect::Obeyed => {}
        Effect::Kept(reason) => {
            text.push_str(&format!("\nStored only; it has no effect here: {reason}."));
        }
        Effect::Refused(reason) => text.push_str(&format!("\nRefused here: {reason}.")),
    }
    text
}

fn features() -> Page {
    let name = "zpool-features";
    let mut roff = Roff::new(name, SECTION, "features of pools");
    roff.section("DESCRIPTION");
    roff.prose(
        "A feature is a change of the on-disk format. Each has a property feature@NAME of the\n\
         pool: 'disabled', 'enabled' (may be used), or 'active' (is in use). A system that does\n\
         not know an active feature cannot import the pool, or only read-only.\n\
         \n\
         'zpool create' and 'zpool upgrade' enable all features, or those of the sets that the\n\
         property compatibility names. 'zpool set feature@NAME=enabled' enables one.",
    );
    roff.section("FEATURES");
    for feature in FEATURES.iter().filter_map(|name| by_name(name)) {
        let mut text = format!("{}.\nGUID {}.", feature.description, feature.guid);
        if feature.read_only_compatible {
            text.push_str("\nSystems without it can import the pool read-only.");
        }
        roff.entry(feature.name, &text);
    }
    examples::section(&mut roff, name);
    roff.see_also(&[
        ("zpool-create".to_owned(), 8),
        ("zpool-upgrade".to_owned(), 8),
        ("zpoolprops".to_owned(), SECTION),
    ]);
    Page {
        name: name.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}
