//! Changes of a tree of datasets, and their command lines.

/// How far `zfs destroy` of a dataset goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The dataset alone.
    Alone,
    /// With its snapshots and all below it (`-r`).
    Below,
    /// And with all clones, wherever they are (`-R`).
    Clones,
}

/// One command. Datasets by their full names, snapshots by dataset and name.
#[derive(Clone, Debug)]
pub enum Change {
    /// `zfs create`, of a volume with `-V`.
    Create {
        /// The dataset.
        name: String,
        /// Whether it is a volume.
        is_volume: bool,
    },
    /// `zfs snapshot`.
    Snapshot {
        /// The datasets.
        of: Vec<String>,
        /// The name of the snapshots.
        name: String,
        /// Of all datasets below, too.
        recursive: bool,
    },
    /// `zfs destroy` of snapshots.
    DestroySnapshots {
        /// The dataset.
        of: String,
        /// Names, and ranges of two names: the list of the command line.
        ranges: Vec<(String, String)>,
        /// Of all datasets below, too.
        recursive: bool,
        /// Whether those that are kept go later.
        defer: bool,
    },
    /// `zfs clone`.
    Clone {
        /// The dataset and the snapshot.
        origin: (String, String),
        /// The clone.
        name: String,
    },
    /// `zfs promote`.
    Promote {
        /// The clone.
        name: String,
    },
    /// `zfs rollback`.
    Rollback {
        /// The dataset.
        of: String,
        /// The snapshot.
        to: String,
        /// Whether what is newer goes.
        with_newer: bool,
    },
    /// `zfs destroy` of a dataset.
    Destroy {
        /// The dataset.
        name: String,
        /// How far.
        reach: Reach,
    },
    /// `zfs rename` of a dataset.
    Rename {
        /// The dataset.
        from: String,
        /// Its new name.
        to: String,
    },
    /// `zfs rename` of snapshots.
    RenameSnapshots {
        /// The dataset.
        of: String,
        /// Their name.
        from: String,
        /// Their new name.
        to: String,
        /// Of all datasets below, too.
        recursive: bool,
    },
    /// `zfs hold`, or `zfs release`.
    Hold {
        /// The dataset and the snapshot.
        of: (String, String),
        /// The tag.
        tag: String,
        /// Whether it is given up.
        is_release: bool,
    },
    /// `zfs bookmark`.
    Bookmark {
        /// The dataset and the snapshot.
        of: (String, String),
        /// The bookmark.
        name: String,
    },
    /// `zfs destroy` of a bookmark.
    DestroyBookmark {
        /// The dataset.
        of: String,
        /// The bookmark.
        name: String,
    },
    /// `zfs set quota`.
    Quota {
        /// The dataset.
        of: String,
        /// Mebibytes; 0 for none.
        mebibytes: u64,
    },
}

/// The list of names and ranges of a command line.
pub fn list(ranges: &[(String, String)]) -> String {
    let word = |(first, last): &(String, String)| match first == last {
        true => first.clone(),
        false => format!("{first}%{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

impl Change {
    /// A word for the report.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Snapshot { .. } => "snapshot",
            Self::DestroySnapshots { .. } => "destroy snapshots",
            Self::Clone { .. } => "clone",
            Self::Promote { .. } => "promote",
            Self::Rollback { .. } => "rollback",
            Self::Destroy { .. } => "destroy",
            Self::Rename { .. } => "rename",
            Self::RenameSnapshots { .. } => "rename snapshots",
            Self::Hold { .. } => "hold",
            Self::Bookmark { .. } => "bookmark",
            Self::DestroyBookmark { .. } => "destroy bookmark",
            Self::Quota { .. } => "quota",
        }
    }

    /// Whether the whole change is one task, so that a crash leaves all or nothing.
    pub fn is_atomic(&self) -> bool {
        !matches!(self, Self::Rollback { .. } | Self::Destroy { .. })
    }

    /// The command line.
    pub fn line(&self) -> String {
        let r = |recursive: bool| if recursive { "-r " } else { "" };
        match self {
            Self::Create { name, is_volume } => match is_volume {
                true => format!("zfs create -V 1M {name}"),
                false => format!("zfs create {name}"),
            },
            Self::Snapshot {
                of,
                name,
                recursive,
            } => {
                let names = of.iter().map(|of| format!("{of}@{name}"));
                let names = names.collect::<Vec<_>>().join(" ");
                format!("zfs snapshot {}{names}", r(*recursive))
            }
            Self::DestroySnapshots {
                of,
                ranges,
                recursive,
                defer,
            } => {
                let d = if *defer { "-d " } else { "" };
                let list = list(ranges);
                format!("zfs destroy {d}{}{of}@{list}", r(*recursive))
            }
            Self::Clone { origin, name } => format!("zfs clone {}@{} {name}", origin.0, origin.1),
            Self::Promote { name } => format!("zfs promote {name}"),
            Self::Rollback { of, to, with_newer } => {
                format!("zfs rollback {}{of}@{to}", r(*with_newer))
            }
            Self::Destroy { name, reach } => match reach {
                Reach::Alone => format!("zfs destroy {name}"),
                Reach::Below => format!("zfs destroy -r {name}"),
                Reach::Clones => format!("zfs destroy -R {name}"),
            },
            Self::Rename { from, to } => format!("zfs rename {from} {to}"),
            Self::RenameSnapshots {
                of,
                from,
                to,
                recursive,
            } => format!("zfs rename {}{of}@{from} {of}@{to}", r(*recursive)),
            Self::Hold {
                of,
                tag,
                is_release,
            } => {
                let verb = if *is_release { "release" } else { "hold" };
                format!("zfs {verb} {tag} {}@{}", of.0, of.1)
            }
            Self::Bookmark { of, name } => {
                format!("zfs bookmark {}@{} {}#{name}", of.0, of.1, of.0)
            }
            Self::DestroyBookmark { of, name } => format!("zfs destroy {of}#{name}"),
            Self::Quota { of, mebibytes: 0 } => format!("zfs set quota=none {of}"),
            Self::Quota { of, mebibytes } => format!("zfs set quota={mebibytes}M {of}"),
        }
    }
}
