//! The kind of a device, by its name, and what to do if it fails.
//!
//! Advice has to fit: a bucket has no cables, and a file no SMART values. This is the one table of
//! such advice, for findings and alarms.
//!
//! Any other name is a disk.

use cenote_control::model::{Vdev, VdevKind};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A disk that is plugged in.
    Disk,
    /// A disk of a virtual machine.
    VirtualDisk,
    /// A card or stick without SMART values.
    Card,
    /// A volume of LVM, LUKS, MD or multipath on other devices.
    Mapped,
    /// A disk over the network: NBD, iSCSI, Ceph, DRBD.
    Network,
    /// A bucket.
    Bucket,
    /// A directory with objects.
    Directory,
    /// A file, also behind a loop device.
    File,
    /// Space on the other devices of a dRAID.
    DistributedSpare,
}

/// The kinds of devices by how the last component of their paths begins.
const BY_NAME: [(&str, Means); 24] = [
    ("loop", Means::File),
    ("nbd", Means::Network),
    ("rbd", Means::Network),
    ("drbd", Means::Network),
    ("ublkb", Means::Mapped),
    ("dm-", Means::Mapped),
    ("md", Means::Mapped),
    ("lvm-", Means::Mapped),
    ("zd", Means::Mapped),
    ("zram", Means::Mapped),
    ("bcache", Means::Mapped),
    ("vd", Means::VirtualDisk),
    ("xvd", Means::VirtualDisk),
    ("virtio-", Means::VirtualDisk),
    ("scsi-0QEMU_", Means::VirtualDisk),
    ("ata-QEMU_", Means::VirtualDisk),
    ("nvme-QEMU_", Means::VirtualDisk),
    ("nvme-Amazon_Elastic_Block_Store", Means::VirtualDisk),
    ("google-", Means::VirtualDisk),
    ("scsi-0Google_", Means::VirtualDisk),
    ("mmcblk", Means::Card),
    ("mmc-", Means::Card),
    ("ip-", Means::Network),
    ("usb-", Means::Disk),
];

impl Means {
    /// What a vdev's device is.
    pub fn of(vdev: &Vdev) -> Self {
        match (&vdev.kind, vdev.path.as_deref()) {
            (VdevKind::DraidSpare, _) => Means::DistributedSpare,
            (kind, Some(path)) => Self::named(path, *kind == VdevKind::File),
            (VdevKind::File, None) => Means::File,
            _ => Means::Disk,
        }
    }

    /// What a device of this name is; `is_file` says that its configuration calls it a file.
    pub fn named(path: &str, is_file: bool) -> Self {
        if let Some((scheme, _)) = path.split_once("://") {
            return match scheme {
                "file" => Means::Directory,
                scheme if scheme.starts_with("nbd") => Means::Network,
                _ => Means::Bucket,
            };
        }
        let Some(name) = path.strip_prefix("/dev/") else {
            return if is_file { Means::File } else { Means::Disk };
        };
        if name.starts_with("mapper/") || name.starts_with("zvol/") {
            return Means::Mapped;
        }
        let last = name.rsplit('/').next().unwrap_or(name);
        let mut known = BY_NAME.iter();
        let found = known.find(|(start, _)| last.starts_with(start));
        found.map_or(Means::Disk, |(_, means)| *means)
    }

    /// What to look at where a device makes errors.
    pub fn look(self) -> &'static str {
        match self {
            Means::Disk => "check its cables and SMART values",
            Means::VirtualDisk => "check the storage of the machine that provides this disk",
            Means::Card => "check that it sits well; cards wear out, so have another one ready",
            Means::Mapped => "check the devices below it ('lsblk -s' shows them)",
            Means::Network => "check the network and the server that provides it",
            Means::Bucket => "check the network and the bucket's credentials and limits",
            Means::Directory => "check the file system that the directory is on, and its space",
            Means::File => "check the file system that the file is on, and its disk",
            Means::DistributedSpare => "check the devices of its dRAID, which have its space",
        }
    }

    /// What to do where a device's requests take very long.
    pub fn slow(self) -> &'static str {
        match self {
            Means::Disk => "a disk that becomes slow often fails next: check its SMART values",
            other => other.look(),
        }
    }

    /// How to make a device writable that is there and refuses to be written to.
    pub fn make_writable(self) -> &'static str {
        match self {
            Means::Disk | Means::VirtualDisk | Means::Card => {
                "make it writable ('blockdev --getro' says whether it is write-protected)"
            }
            Means::Mapped => "make it and the devices below it writable",
            Means::Network => "let this machine write to it on the server that provides it",
            Means::Bucket => "let the bucket's credentials write to it",
            Means::Directory => {
                "make the directory writable (its permissions, and the mount options of the file \
                 system it is on)"
            }
            Means::File => {
                "make the file writable (its permissions and attributes, and the mount options of \
                 the file system it is on)"
            }
            Means::DistributedSpare => "make the devices of its dRAID writable",
        }
    }

    /// How to get a device back that is away.
    pub fn bring_back(self) -> &'static str {
        match self {
            Means::Disk | Means::Card => "plug it in",
            Means::VirtualDisk => "attach it to this machine",
            Means::Mapped => "activate it (and the devices below it)",
            Means::Network => "make its server reachable",
            Means::Bucket => "make the bucket reachable",
            Means::Directory => "make the directory available (mount the file system it is on)",
            Means::File => "put the file back (mount the file system it is on)",
            Means::DistributedSpare => "bring the devices of its dRAID back",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets were advised to have their cables and SMART values checked.
    #[test]
    fn advice_fits_the_device() {
        let cases = [
            ("/dev/sda1", false, Means::Disk),
            ("/dev/disk/by-id/ata-X-part1", false, Means::Disk),
            ("/dev/disk/by-id/usb-Stick-0:0", false, Means::Disk),
            ("/dev/nvme0n1", false, Means::Disk),
            ("/dev/loop7", false, Means::File),
            ("/dev/nbd0", false, Means::Network),
            ("/dev/vda2", false, Means::VirtualDisk),
            ("/dev/disk/by-id/virtio-1", false, Means::VirtualDisk),
            ("/dev/mapper/luks-1", false, Means::Mapped),
            ("/dev/disk/by-id/dm-name-x", false, Means::Mapped),
            (
                "/dev/disk/by-path/ip-10.0.0.1:3260-iscsi-x-lun-0",
                false,
                Means::Network,
            ),
            ("/dev/mmcblk0p2", false, Means::Card),
            ("/srv/disk.img", true, Means::File),
            ("s3://bucket/tank", true, Means::Bucket),
            ("file:///srv/store", true, Means::Directory),
            ("nbds+unix:///e?socket=/s", true, Means::Network),
        ];
        for (path, is_file, means) in cases {
            assert_eq!(Means::named(path, is_file), means, "{path}");
            let advice = [means.look(), means.slow(), means.bring_back()];
            let is_for_disks = |advice: &&str| advice.contains("SMART") || advice.contains("cable");
            assert_eq!(
                advice.iter().any(is_for_disks),
                means == Means::Disk,
                "{path}"
            );
        }
        let mut spare = Vdev::new(VdevKind::DraidSpare, 0, 1);
        spare.path = Some("draid1-0-0".to_owned());
        assert_eq!(Means::of(&spare), Means::DistributedSpare);
    }
}
