//! Whether the vdevs of a pool protect alike: a layout in which they do not is most likely a
//! mistake (cli/contract-zpool 5).

use cenote_control::model::{NewVdev, NewVdevKind, NewVdevRole};
use cenote_ondisk::{VdevConfig, VdevKind};
use std::path::Path;

/// How a top-level vdev protects what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replication {
    kind: &'static str,
    /// Devices of a raidz or dRAID that may be lost.
    parity: u64,
    /// Devices that are alike.
    children: usize,
}

impl Replication {
    /// That of a new vdev; `None` if it holds no data.
    pub fn of_new(vdev: &NewVdev) -> Option<Self> {
        if matches!(
            vdev.role,
            NewVdevRole::Log | NewVdevRole::Spare | NewVdevRole::Cache
        ) {
            return None;
        }
        let (kind, parity) = match &vdev.kind {
            NewVdevKind::Disk if vdev.devices.iter().any(|path| Path::new(path).is_file()) => {
                ("file", 0)
            }
            NewVdevKind::Disk => ("disk", 0),
            NewVdevKind::Mirror => ("mirror", 0),
            NewVdevKind::Raidz { parity } => ("raidz", u64::from(*parity)),
            NewVdevKind::Draid { parity, .. } => ("draid", u64::from(*parity)),
        };
        let children = vdev.devices.len();
        Some(Self {
            kind,
            parity,
            children,
        })
    }

    /// That of a pool's vdev; `None` if it holds no data.
    pub fn of_config(top: &VdevConfig) -> Option<Self> {
        if top.is_log {
            return None;
        }
        // One side of what is being replaced stands for it.
        let mut vdev = top;
        while matches!(vdev.kind, VdevKind::Replacing | VdevKind::Spare) {
            vdev = vdev.children.first()?;
        }
        let kind = match vdev.kind {
            VdevKind::Disk => "disk",
            VdevKind::File => "file",
            VdevKind::Mirror => "mirror",
            VdevKind::Raidz => "raidz",
            VdevKind::Draid => "draid",
            _ => return None,
        };
        Some(Self {
            kind,
            parity: vdev.parity,
            children: vdev.children.len().max(1),
        })
    }

    /// Of a vdev with parity and a mirror, in this order: what may be lost of each.
    fn unlike(&self, other: &Self) -> Option<(u64, usize)> {
        match (self.kind, other.kind) {
            ("raidz" | "draid", "mirror") => Some((self.parity, other.children)),
            ("mirror", "raidz" | "draid") => Some((other.parity, self.children)),
            _ => None,
        }
    }

    /// Whether kinds go together that lose as many devices: raidz and dRAID do.
    fn has_like_kind(&self, other: &Self) -> bool {
        self.kind == other.kind || self.parity > 0 && other.parity > 0
    }

    /// Whether the widths differ where that matters. The data of a dRAID is in groups, which do not
    /// depend on how many devices it has.
    fn has_other_width(&self, other: &Self) -> bool {
        self.kind == other.kind && self.kind != "draid" && self.children != other.children
    }
}

/// The first two new vdevs that do not protect alike, as a line about them.
pub(crate) fn mismatch_within(new: &[NewVdev]) -> Option<String> {
    let mut levels = new.iter().filter_map(Replication::of_new);
    let first = levels.next()?;
    levels.find_map(|other| {
        let text = match first.unlike(&other) {
            Some((parity, children)) if parity as usize + 1 == children => return None,
            Some((parity, children)) => format!(
                "{} and mirror vdevs with different redundancy, \
                 {parity} vs. {} ({children}-way) are present",
                if first.parity > 0 {
                    first.kind
                } else {
                    other.kind
                },
                children.saturating_sub(1)
            ),
            None if !first.has_like_kind(&other) => {
                format!("both {} and {} vdevs are present", first.kind, other.kind)
            }
            None if first.parity != other.parity => format!(
                "both {} and {} device parity {} vdevs are present",
                first.parity, other.parity, first.kind
            ),
            None if first.has_other_width(&other) => format!(
                "both {}-way and {}-way {} vdevs are present",
                first.children, other.children, first.kind
            ),
            None => return None,
        };
        Some(format!("mismatched replication level: {text}"))
    })
}

/// Why new vdevs do not fit those that a pool has. Pools that are mixed already say nothing.
pub(crate) fn mismatch_with(pool: &[VdevConfig], new: &[NewVdev]) -> Option<String> {
    if let Some(text) = mismatch_within(new) {
        return Some(text);
    }
    let mut levels = pool.iter().filter_map(Replication::of_config);
    let current = levels.next()?;
    if levels.any(|other| other != current && other.unlike(&current).is_none()) {
        return None;
    }
    let added = new.iter().find_map(Replication::of_new)?;
    let text = match current.unlike(&added) {
        Some((parity, children)) if parity as usize + 1 == children => return None,
        Some((parity, children)) => format!(
            "pool and new vdev with different redundancy, {} and {} vdevs, \
             {parity} vs. {} ({children}-way)",
            current.kind,
            added.kind,
            children.saturating_sub(1)
        ),
        None if !current.has_like_kind(&added) => {
            format!("pool uses {} and new vdev is {}", current.kind, added.kind)
        }
        None if current.parity != added.parity => format!(
            "pool uses {} device parity and new vdev uses {}",
            current.parity, added.parity
        ),
        None if current.has_other_width(&added) => format!(
            "pool uses {}-way {} and new vdev uses {}-way {}",
            current.children, current.kind, added.children, added.kind
        ),
        None => return None,
    };
    Some(format!("mismatched replication level: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vdev(role: NewVdevRole, kind: NewVdevKind, children: usize) -> NewVdev {
        NewVdev {
            role,
            kind,
            devices: (0..children).map(|index| format!("/d{index}")).collect(),
        }
    }

    #[test]
    fn vdevs_that_protect_alike_go_together() {
        use NewVdevRole::{Log, Normal, Special};
        let raidz = |parity, children| vdev(Normal, NewVdevKind::Raidz { parity }, children);
        let mirror = |role, children| vdev(role, NewVdevKind::Mirror, children);
        let disk = || vdev(Normal, NewVdevKind::Disk, 1);
        let text = |new: &[NewVdev]| mismatch_within(new).unwrap_or_default();
        assert_eq!(text(&[disk(), disk()]), "");
        assert_eq!(text(&[raidz(2, 4), mirror(Special, 3)]), "");
        assert_eq!(text(&[raidz(2, 4), mirror(Log, 2)]), "");
        let draid = |parity, children| {
            let kind = NewVdevKind::Draid {
                parity,
                data: None,
                children: None,
                spares: 0,
            };
            vdev(Normal, kind, children)
        };
        // These were refused.
        assert_eq!(text(&[draid(1, 3), mirror(Normal, 2)]), "");
        assert_eq!(text(&[draid(1, 3), raidz(1, 4), draid(1, 5)]), "");
        assert!(text(&[draid(2, 4), mirror(Normal, 2)]).contains("draid and mirror vdevs"));
        assert!(text(&[raidz(1, 3), draid(2, 4)]).contains("1 and 2 device parity"));
        assert!(text(&[raidz(2, 4), mirror(Special, 2)]).ends_with("2 vs. 1 (2-way) are present"));
        assert!(text(&[raidz(2, 4), raidz(1, 4)]).contains("2 and 1 device parity raidz"));
        assert!(text(&[raidz(1, 4), raidz(1, 3)]).contains("both 4-way and 3-way raidz"));
        assert!(
            text(&[mirror(Normal, 2), disk()]).ends_with("both mirror and disk vdevs are present")
        );
    }
}
