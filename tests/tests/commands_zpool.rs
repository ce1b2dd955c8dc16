//! The commands that change pools as a whole, as a person types them.
//!
//! Each test ends with an export, and OpenZFS's judgement of the pool where it is installed.

use anyhow::{Result, ensure};
use cenote_tests::site::Site;
use std::fs::{self, File};

/// A file for a device beside those of the site.
fn device(site: &Site, name: &str) -> Result<String> {
    let path = site.devices().join(name);
    File::create(&path)?.set_len(128 << 20)?;
    Ok(path.display().to_string())
}

/// The commands in the pool's history, without their times.
fn history(site: &Site) -> Result<Vec<String>> {
    let text = site.ok("zpool history tank")?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(_, command)| command.to_owned()).collect())
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

#[test]
fn vdevs_of_all_kinds_are_added() -> Result<()> {
    let site = Site::create("mirror", 128, "")?;
    let names = ["c", "d", "e", "f", "g", "h", "i"];
    let paths = names.map(|name| device(&site, name));
    let paths = paths.into_iter().collect::<Result<Vec<_>>>()?;
    let [c, d, e, f, log, cache, spare] = paths.as_slice() else {
        unreachable!("as many as names");
    };
    let refused = site.fails(&format!("zpool add tank {c}"))?;
    let reason = "mismatched replication level: pool uses mirror and new vdev is disk";
    has(
        &refused.stderr,
        "use '-f' to override the following errors:",
    )?;
    has(&refused.stderr, reason)?;
    let preview = site.ok(&format!("zpool add -n tank mirror {c} {d}"))?;
    has(
        &preview,
        "would update 'tank' to the following configuration:\n\n\ttank\n\t  mirror-0\n",
    )?;
    has(&preview, &format!("\t  mirror\n\t    {c}\n\t    {d}\n"))?;
    ensure!(
        !site.ok("zpool status tank")?.contains("mirror-1"),
        "-n added"
    );
    let command = format!("zpool add tank mirror {c} {d} special mirror {e} {f}");
    site.ok(&command)?;
    site.ok(&format!(
        "zpool add tank log {log} cache {cache} spare {spare}"
    ))?;
    ensure!(history(&site)?.contains(&command), "{:?}", history(&site)?);
    let status = site.ok("zpool status tank")?;
    for part in ["mirror-1", "special", "mirror-2", "logs", "cache", "AVAIL"] {
        has(&status, part)?;
    }
    let again = site.fails(&format!("zpool add -f tank {c}"))?;
    has(&again.stderr, "is part of active pool 'tank'")?;
    site.export()?;
    site.import("")?;
    let listed = site.ok("zpool list -Hv tank")?;
    ensure!(!listed.contains("UNAVAIL"), "{listed}");
    site.finish()
}

#[test]
fn vdevs_that_need_features_are_refused_without() -> Result<()> {
    let site = Site::new("tank")?;
    let (a, b) = (device(&site, "a")?, device(&site, "b")?);
    site.ok(&format!("zpool create -d -O mountpoint=none tank {a}"))?;
    let refused = site.fails(&format!("zpool add -f tank special {b}"))?;
    has(&refused.stderr, "cannot add to 'tank': ")?;
    has(&refused.stderr, "allocation_classes")?;
    ensure!(
        fs::metadata(&b)?.len() == 128 << 20,
        "the device is untouched"
    );
    site.finish()
}
