//! What is refused, in the words and with the exit codes of OpenZFS 2.3.2: each line here was
//! compared with what its programs say.

use anyhow::{Result, ensure};
use cenote_tests::site::Site;
use std::fs::File;

/// A command line, its exit code, and how its complaint begins.
type Refusal = (&'static str, i32, &'static str);

fn refused(site: &Site, refusals: &[Refusal]) -> Result<()> {
    let devices = site.devices().display().to_string();
    for (line, code, text) in refusals {
        let words = line.replace("DIR", &devices);
        let (program, arguments) = words.split_once(' ').unwrap_or((&words, ""));
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let outcome = site.cenote().run(program, &arguments)?;
        ensure!(
            outcome.code == Some(*code)
                && outcome.stderr.replace(&devices, "DIR").starts_with(text),
            "{line}: {}",
            outcome.report()
        );
    }
    Ok(())
}

const NEW_POOLS: &[Refusal] = &[
    (
        "zpool create tank DIR/none",
        1,
        "cannot resolve path 'DIR/none'",
    ),
    (
        "zpool create tank raidz4 DIR/a DIR/b",
        1,
        "cannot open 'raidz4': no such device in /dev\nmust be a full path",
    ),
    (
        "zpool create tank DIR/a DIR/a",
        1,
        "cannot create 'tank': one or more vdevs refer to the same device",
    ),
    (
        "zpool create tank DIR/small",
        1,
        "cannot create 'tank': one or more devices is less than the minimum size (64M): DIR/small",
    ),
    (
        "zpool create tank mirror DIR/a DIR/large",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\n\
         mirror contains devices of different sizes",
    ),
    (
        "zpool create tank mirror DIR/a DIR/b special DIR/c",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\n\
         mismatched replication level: both mirror and file vdevs are present",
    ),
    (
        "zpool create tank log DIR/a",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\n\
         at least one general top-level vdev must be specified",
    ),
    (
        "zpool create tank draid:9d DIR/a DIR/b DIR/c",
        1,
        "requested number of dRAID data disks per group 9 is too high,\n\
         at most 2 disks are available for data",
    ),
    (
        "zpool create tank draid:2c DIR/a DIR/b DIR/c",
        1,
        "invalid number of dRAID children; 2 required but 3 provided",
    ),
    (
        "zpool create tank draid1:3s DIR/a DIR/b DIR/c",
        1,
        "request number of distributed spares 3 and parity level 1\n\
         leaves no disks available for data",
    ),
    (
        "zpool create tank draid1:1x DIR/a DIR/b DIR/c",
        1,
        "invalid dRAID syntax; expected [:<number><c|d|s>] not 'draid1:1x'",
    ),
    (
        "zpool create tank draid1:é DIR/a DIR/b DIR/c",
        1,
        "invalid dRAID syntax",
    ),
    (
        "zpool create -o ashift=20 tank DIR/a",
        1,
        "invalid 'ashift=20' property: only values between 9 and 16 are allowed.",
    ),
    (
        "zpool create -o nosuch=1 tank DIR/a",
        1,
        "property 'nosuch' is not a valid pool or vdev property",
    ),
    (
        "zpool create -o version=28 -o feature@lz4_compress=enabled tank DIR/a",
        1,
        "'feature@' and 'version' properties cannot be specified together",
    ),
    (
        "zpool create -o feature@lz4_compress=disabled -O compression=lz4 tank DIR/a",
        1,
        "cannot create 'tank': property 'compression' needs the feature 'lz4_compress', which \
         the pool would not have",
    ),
    (
        "zpool create -O reservation=1T tank DIR/a",
        1,
        "cannot create 'tank': 'tank': reservation does not fit: the limit is",
    ),
    (
        "zpool create -o version=27 -d tank DIR/a",
        1,
        "cannot create 'tank': pools of version 27 are not made here, only opened",
    ),
    (
        "zpool create -O volsize=1M tank DIR/a",
        1,
        "property 'volsize' is not a valid filesystem property",
    ),
    (
        "zpool create -m relative tank DIR/a",
        1,
        "invalid mountpoint 'relative': must be an absolute path, 'legacy', or 'none'",
    ),
    (
        "zpool create -R relative tank DIR/a",
        1,
        "invalid alternate root 'relative': must be an absolute path",
    ),
    (
        "zpool create -m /etc tank DIR/a",
        1,
        "mountpoint '/etc' exists and is not empty\nuse '-m' option",
    ),
    (
        "zpool create -m /dev/null tank DIR/a",
        1,
        "mountpoint '/dev/null' is not a directory\nuse '-m' option",
    ),
    (
        "zpool create -o tank DIR/a DIR/b",
        1,
        "missing '=' for -o option",
    ),
];

const OF_POOLS: &[Refusal] = &[
    (
        "zpool set comment=a none",
        22,
        "cannot open 'none': is not a pool",
    ),
    (
        "zpool set bootfs=tank/none tank",
        1,
        "cannot set property for 'tank': no such pool or dataset",
    ),
    ("zpool trim none", 255, "cannot open 'none': no such pool"),
    (
        "zpool trim -r x tank",
        2,
        "invalid value for rate: bad numeric value 'x'",
    ),
    ("zpool upgrade -V 99 tank", 2, "invalid version '99'"),
    ("zpool reguid -g x tank", 2, "invalid GUID: x"),
    ("zpool reguid -g -x tank", 2, "invalid GUID: -x"),
    ("zpool sync -? tank", 2, "invalid option '?'\nusage:\n"),
    ("zfs get -h all tank", 2, "invalid option 'h'\nusage:\n"),
    (
        "zpool reguid -g 0 tank",
        255,
        "cannot reguid 'tank': invalid argument for this pool operation",
    ),
    (
        "zpool labelclear DIR/none",
        1,
        "failed to open DIR/none: No such file or directory",
    ),
    (
        "zpool labelclear none",
        1,
        "failed to find device none, try specifying absolute path instead",
    ),
    (
        "zpool labelclear DIR/a",
        1,
        "DIR/a is a member (ACTIVE) of pool \"tank\"",
    ),
    (
        "zpool create other DIR/a",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\n\
         DIR/a is part of active pool 'tank'",
    ),
    (
        "zpool create -f other DIR/a",
        1,
        "invalid vdev specification\nthe following errors must be manually repaired:\n\
         DIR/a is part of active pool 'tank'",
    ),
];

const OF_DATASETS: &[Refusal] = &[
    // It destroyed the first.
    ("zfs destroy tank/a tank/b", 2, "too many arguments"),
    (
        "zfs destroy -d tank/a",
        1,
        "cannot open 'tank/a': missing '@' delimiter in snapshot name",
    ),
    (
        "zfs destroy tank/a#none",
        1,
        "bookmark 'tank/a#none' does not exist.",
    ),
    (
        "zfs destroy tank/a",
        1,
        "cannot destroy 'tank/a': filesystem has children\n\
         use '-r' to destroy the following datasets:\ntank/a/b/c\ntank/a/b\n",
    ),
    // These made a file system.
    (
        "zfs create -b 8k tank/c",
        2,
        "'-s' and '-b' can only be used when creating a volume",
    ),
    (
        "zfs create -V 8M -u tank/c",
        2,
        "'-u' can only be used when creating a file system",
    ),
    (
        "zfs create -o utf8only=off -o normalization=formC tank/c",
        1,
        "cannot create 'tank/c': 'utf8only' must be set 'on' if normalization chosen",
    ),
    // The first made it and then failed; so the second succeeded.
    (
        "zfs create -o volsize=8M tank/c",
        1,
        "cannot create 'tank/c': 'volsize' does not apply to datasets of this type",
    ),
    (
        "zfs create -p -o volsize=8M tank/c",
        1,
        "cannot create 'tank/c': 'volsize' does not apply to datasets of this type",
    ),
    (
        "zfs create -V 8M -o userquota@0=1M tank/c",
        1,
        "cannot create 'tank/c': 'userquota@0' does not apply to datasets of this type",
    ),
    (
        "zfs get all tank/c",
        1,
        "cannot open 'tank/c': dataset does not exist",
    ),
    (
        "zfs create -o copies=01 tank/c",
        1,
        "cannot create 'tank/c': 'copies' must be one of '1 | 2 | 3'",
    ),
    (
        "zfs create -p -V 150m tank",
        1,
        "cannot create 'tank': missing dataset name",
    ),
    (
        "zfs receive -d -e tank",
        2,
        "invalid option combination: -d and -e are mutually exclusive",
    ),
    ("zpool events -c -v", 2, "-c must be used alone"),
    (
        "zfs create -s tank/c",
        2,
        "'-s' and '-b' can only be used when creating a volume",
    ),
    (
        "zfs create -V 0 tank/c",
        1,
        "cannot create 'tank/c': volume size cannot be zero",
    ),
    (
        "zfs create tank/c%d",
        1,
        "cannot create 'tank/c%d': invalid character % in name",
    ),
    (
        "zfs create -o atime tank/c",
        1,
        "missing '=' for property=value argument\n",
    ),
    (
        "zfs rename -r tank/a tank/c",
        2,
        "source dataset for recursive rename must be a snapshot",
    ),
    (
        "zfs rename tank/a tank/b",
        1,
        "cannot rename 'tank/a': dataset already exists",
    ),
    (
        "zfs rename tank/a tank/no/c",
        1,
        "cannot create 'tank/no/c': parent does not exist",
    ),
    (
        "zfs rename tank/a tank/v/c",
        1,
        "cannot create 'tank/v/c': parent is not a filesystem",
    ),
    (
        "zfs rename tank/a tank/a/c",
        1,
        "cannot rename to 'tank/a/c': New dataset name cannot be",
    ),
    (
        "zfs rename tank/a tank2",
        1,
        "cannot create 'tank2': missing dataset name",
    ),
    (
        "zfs rename tank/a tank/b%",
        1,
        "cannot rename to 'tank/b%': invalid character % in name",
    ),
    (
        "zfs set atime=off tank/none",
        1,
        "cannot open 'tank/none': dataset does not exist",
    ),
    (
        "zfs set compression=fast tank/a",
        255,
        "cannot set property for 'tank/a': 'compression' must be one of \
         'on | off | lzjb | gzip | gzip-[1-9] | zle |",
    ),
    (
        "zfs set canmount=maybe tank/a",
        255,
        "cannot set property for 'tank/a': 'canmount' must be one of 'on | off | noauto'",
    ),
    (
        "zfs set copies=4 tank/a",
        255,
        "cannot set property for 'tank/a': 'copies' must be one of '1 | 2 | 3'",
    ),
    (
        "zfs set utf8only=on tank/a",
        255,
        "cannot set property for 'tank/a': 'utf8only' is readonly",
    ),
    (
        "zfs set keylocation=foo tank/a",
        255,
        "cannot set property for 'tank/a': invalid keylocation",
    ),
    (
        "zfs set mlslabel=foo tank/a",
        255,
        "cannot set property for 'tank/a': mlslabels are unsupported",
    ),
    (
        "zfs set userquota@nosuchuser=1G tank/a",
        255,
        "cannot set property for 'tank/a': 'userquota@nosuchuser' has an invalid user/group name",
    ),
    (
        "zfs set reservation=1.7.2 tank/a",
        255,
        "cannot set property for 'tank/a': invalid numeric suffix '.2'",
    ),
    ("zfs list -d -1", 2, "Depth can not be negative."),
    (
        "zfs unmount tank/v",
        1,
        "cannot open 'tank/v': operation not applicable to datasets of this type",
    ),
];

#[test]
fn refusals_have_the_words_of_openzfs() -> Result<()> {
    let site = Site::new("tank")?;
    for (name, mebibytes) in [
        ("a", 128),
        ("b", 128),
        ("c", 128),
        ("large", 300),
        ("small", 30),
    ] {
        File::create(site.devices().join(name))?.set_len(mebibytes << 20)?;
    }
    refused(&site, NEW_POOLS)?;
    ensure!(site.ok("zpool list -H")?.is_empty(), "something was made");
    let device = site.devices().join("a");
    site.ok(&format!(
        "zpool create -O mountpoint=none tank {}",
        device.display()
    ))?;
    for dataset in ["tank/a", "tank/a/b", "tank/a/b/c", "tank/b", "-V 8M tank/v"] {
        site.ok(&format!("zfs create {dataset}"))?;
    }
    let before = site.ok("zfs list -Ho name")?;
    refused(&site, OF_POOLS)?;
    refused(&site, OF_DATASETS)?;
    // A command that changes several datasets is in the history once.
    site.ok("zfs inherit -r compression tank")?;
    site.ok("zfs set atime=off tank/a tank/b")?;
    let history = site.ok("zpool history tank")?;
    for command in [
        "zfs inherit -r compression tank",
        "zfs set atime=off tank/a tank/b",
    ] {
        let times = history.lines().filter(|line| line.ends_with(command));
        ensure!(times.count() == 1, "{command}: {history}");
    }
    ensure!(
        site.ok("zfs list -Ho name")? == before,
        "a refused command changed something"
    );
    site.finish()
}
