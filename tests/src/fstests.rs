//! xfstests on two mounts: what kernel file systems are tested with.
//!
//! It mounts by mount(8), by way of our [`Helper`]. Its name for our type is `fuse`.

use crate::mount_helper::Helper;
use crate::site::Site;
use anyhow::{Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Tests that are left out, and why they cannot pass.
const LEFT_OUT: [(&str, &str); 7] = [
    ("generic/003", "the option strictatime changes nothing"),
    ("generic/285", "holes of less than a record are not kept"),
    ("generic/424", "FUSE does not carry the flags of statx"),
    ("generic/436", "holes of less than a record are not kept"),
    ("generic/490", "holes of less than a record are not kept"),
    (
        "generic/676",
        "positions are hashes, and behind the last name's is the end",
    ),
    ("generic/701", "fallocate reserves no space, as in OpenZFS"),
];

/// `df` as it is found, with xfstests' name of our type.
const DF: &str = "#!/bin/sh\n/usr/bin/df \"$@\" | sed 's/ fuse\\.cenote / fuse /'\n";

/// What to run, and on what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of a built xfstests.
    pub source: PathBuf,
    /// Arguments of its `check`: tests, or `-g` and a group.
    pub words: Vec<String>,
    /// `-o` options of both file systems.
    pub properties: String,
    /// Size of the pool's device in MiB; it takes what is written only.
    pub device_mebibytes: u64,
}

fn require(options: &Options) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "xfstests needs root");
    let check = options.source.join("check");
    ensure!(
        check.is_file(),
        "{} is not there: name the directory of xfstests, after its README's 'make'",
        check.display()
    );
    let accounts = fs::read_to_string("/etc/passwd")?;
    for user in ["fsgqa", "fsgqa2", "123456-fsgqa"] {
        let line = format!("{user}:");
        if !accounts.lines().any(|account| account.starts_with(&line)) {
            bail!("there is no user {user}: useradd --badname -m -U {user}");
        }
    }
    Ok(())
}

/// Runs the tests, and has OpenZFS judge the pool; whether all passed.
pub fn run(options: &Options) -> Result<bool> {
    require(options)?;
    let site = Site::create("single", options.device_mebibytes, "-O acltype=posix")?;
    let properties = &options.properties;
    site.ok(&format!(
        "zfs create -o mountpoint=legacy {properties} tank/test"
    ))?;
    // Some tests fill it.
    site.ok(&format!(
        "zfs create -o mountpoint=legacy -o quota=3G {properties} tank/scratch"
    ))?;
    let place = site.cenote().directory();
    let tools = site.cenote().subdirectory("tools")?;
    fs::write(tools.join("df"), DF)?;
    fs::set_permissions(tools.join("df"), fs::Permissions::from_mode(0o755))?;
    let mut config = String::new();
    for (name, directory) in [("TEST", "TEST_DIR"), ("SCRATCH", "SCRATCH_MNT")] {
        let at = site.cenote().subdirectory(name)?;
        let dataset = format!("tank/{}", name.to_lowercase());
        config += &format!(
            "export {name}_DEV={dataset}\nexport {directory}={}\n",
            at.display()
        );
    }
    let results = site.cenote().subdirectory("results")?;
    config += &format!(
        "export FSTYP=fuse\nexport FUSE_SUBTYP=.cenote\nexport RESULT_BASE={}\n",
        results.display()
    );
    let config_file = place.join("local.config");
    fs::write(&config_file, config)?;
    // Other users pass through.
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    let left_out: Vec<&str> = LEFT_OUT.iter().map(|(test, _)| *test).collect();
    for (test, reason) in LEFT_OUT {
        println!("{test} is left out: {reason}");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let helper = Helper::install(&place.join("bin/mount.fuse.cenote"))?;
    let passed = Command::new("./check")
        .args(["-e", &left_out.join(",")])
        .args(&options.words)
        .current_dir(&options.source)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("HOST_OPTIONS", &config_file)
        .env("CENOTE_SOCKET", site.cenote().socket())
        .status()?
        .success();
    drop(helper);
    site.finish()?;
    Ok(passed)
}
