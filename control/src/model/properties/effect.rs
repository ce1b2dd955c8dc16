//! What setting a property does here.
//!
//! OpenZFS has properties for things that Cenote does not have, or does in another way. Each
//! settable one is of one of three kinds. It is obeyed. Or it is stored for other systems that open
//! the pool, with a message to the user. Or it is refused, because the user would rely on an effect
//! that it does not have. Tests in the engine check that there is code that obeys the first kind,
//! and none for the others.

/// What setting a property does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What OpenZFS says that it does.
    Obeyed,
    /// It is stored and changes nothing here, for this reason.
    Kept(&'static str),
    /// Values other than `off` are refused, with this reason and advice.
    Refused(&'static str),
}

const NOT_SHARED_BY_NFS: &str = "Cenote does not share file systems by NFS; export the mounted \
    directory with 'exportfs -o fsid=NUMBER CLIENT:DIRECTORY' or a line with fsid=NUMBER in \
    /etc/exports";
const NOT_SHARED_BY_SMB: &str = "Cenote does not share file systems by SMB; share the mounted \
    directory with 'net usershare add NAME DIRECTORY' or a section of smb.conf";
const NO_CONTEXT: &str = "mounts by FUSE have the label that the system's policy gives them";

/// The properties of datasets that are not obeyed.
const DATASET: &[(&str, Effect)] = &[
    ("sharenfs", Effect::Refused(NOT_SHARED_BY_NFS)),
    ("sharesmb", Effect::Refused(NOT_SHARED_BY_SMB)),
    ("context", Effect::Kept(NO_CONTEXT)),
    ("fscontext", Effect::Kept(NO_CONTEXT)),
    ("defcontext", Effect::Kept(NO_CONTEXT)),
    ("rootcontext", Effect::Kept(NO_CONTEXT)),
    (
        "mlslabel",
        Effect::Kept("no system that Cenote runs on has such labels"),
    ),
    ("nbmand", Effect::Kept("Linux has no mandatory locks")),
    (
        "secondarycache",
        Effect::Kept("cache devices are not used yet"),
    ),
    (
        "volthreading",
        Effect::Kept("requests to volumes are always carried out in parallel"),
    ),
    (
        "vscan",
        Effect::Kept("no system that Cenote runs on scans for viruses so"),
    ),
    (
        "zoned",
        Effect::Kept("datasets cannot be given to containers yet; it is mounted as before"),
    ),
];

/// The properties of pools that are not obeyed.
const POOL: &[(&str, Effect)] = &[("bootfs", Effect::Kept("boot loaders read it"))];

/// The properties of vdevs that are not obeyed.
const VDEV: &[(&str, Effect)] = &[(
    "failfast",
    Effect::Kept("the system decides how often a request is retried"),
)];

fn of(table: &[(&str, Effect)], name: &str) -> Effect {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or(Effect::Obeyed, |(_, effect)| *effect)
}

/// What setting a property of a dataset does.
pub fn dataset_effect(name: &str) -> Effect {
    of(DATASET, name)
}

/// What setting a property of a pool does.
pub fn pool_effect(name: &str) -> Effect {
    of(POOL, name)
}

/// What setting a property of a vdev does.
pub fn vdev_effect(name: &str) -> Effect {
    of(VDEV, name)
}
