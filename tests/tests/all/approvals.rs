//! Property values that make this machine act may come with streams and with pools. They wait for
//! approval by the local administrator. They used to take effect at once.

use anyhow::{Result, ensure};
use cenote_tests::site::Site;

const WAITING: &str = "tank/copy  cenote:nbd  on";

/// The names that the daemon's own server serves.
fn served(site: &Site) -> Result<Vec<String>> {
    let status: serde_json::Value = serde_json::from_str(&site.ok("cenote nbd status --json")?)?;
    let servers = status["servers"].as_array().cloned().unwrap_or_default();
    let exports = servers
        .iter()
        .flat_map(|server| server["exports"].as_array().cloned().unwrap_or_default());
    let names = exports.filter_map(|export| Some(export["name"].as_str()?.to_owned()));
    Ok(names.collect())
}

fn is_served(site: &Site, names: &[&str]) -> Result<()> {
    let served = served(site)?;
    ensure!(served == names, "{served:?} instead of {names:?}");
    Ok(())
}

fn send(site: &Site, words: &[&str]) -> Result<Vec<u8>> {
    let words: Vec<&str> = ["send"].iter().chain(words).copied().collect();
    Ok(site.cenote().run("zfs", &words)?.success()?.stdout)
}

fn receive(site: &Site, words: &str, stream: &[u8]) -> Result<()> {
    let words: Vec<&str> = ["receive"].into_iter().chain(words.split(' ')).collect();
    let outcome = site.cenote().run_with_input("zfs", &words, stream)?;
    outcome.success().map(drop)
}

/// A stream with properties: the value is stored, has no effect, and all commands report that.
fn streams_bring_no_yes(site: &Site) -> Result<()> {
    site.ok("zfs create -s -V 16M -o cenote:nbd=on tank/v")?;
    is_served(site, &["tank/v"])?;
    site.ok("zfs snapshot tank/v@1")?;
    let first = send(site, &["-p", "tank/v@1"])?;
    receive(site, "tank/copy", &first)?;
    let value = site.ok("zfs get -H -o value,source cenote:nbd tank/copy")?;
    ensure!(value == "on\treceived\n", "{value}");
    is_served(site, &["tank/v"])?;
    let list = site.ok("cenote approve")?;
    ensure!(list.lines().nth(1) == Some(WAITING), "{list}");
    // A note: the exit code stays 0.
    let health = site.ok("cenote health --no-smart --scrub-days 1 tank")?;
    let line = "cenote:nbd=on on 'tank/copy' came with a stream or a pool from elsewhere";
    ensure!(health.contains(line), "{health}");
    ensure!(health.contains("'cenote approve tank/copy'"), "{health}");
    let status = site.ok("cenote nbd status")?;
    let line = "tank/copy: cenote:nbd=on waits for 'cenote approve tank/copy'";
    ensure!(status.contains(line), "{status}");
    let approved = site.ok("cenote approve tank/copy")?;
    ensure!(approved.lines().nth(1) == Some(WAITING), "{approved}");
    is_served(site, &["tank/copy", "tank/v"])?;
    let history = site.ok("zpool history tank")?;
    ensure!(history.contains("cenote approve tank/copy"), "{history}");
    let list = site.ok("cenote approve")?;
    ensure!(list.trim() == "nothing waits for approval", "{list}");

    // The next stream of the same volume brings the same value; another one waits.
    site.ok("zfs snapshot tank/v@2")?;
    let second = send(site, &["-p", "-i", "@1", "tank/v@2"])?;
    receive(site, "-F tank/copy", &second)?;
    is_served(site, &["tank/copy", "tank/v"])?;
    // A yes is the dataset's, whatever is received into it. It goes with the dataset.
    site.ok("zfs destroy tank/copy@%")?;
    receive(site, "-F tank/copy", &first)?;
    is_served(site, &["tank/copy", "tank/v"])?;
    site.ok("zfs destroy -r tank/copy")?;
    receive(site, "tank/copy", &first)?;
    is_served(site, &["tank/v"])?;
    site.ok("cenote approve tank/copy")?;
    // What a user says with the stream is a yes, and below a yes streams need none.
    receive(site, "-o cenote:nbd=on tank/said", &first)?;
    site.ok("zfs create -o cenote:nbd=on tank/below")?;
    receive(site, "tank/below/copy", &first)?;
    is_served(
        site,
        &["tank/below/copy", "tank/copy", "tank/said", "tank/v"],
    )
}

/// The same of a pool that another machine made, and after restarts.
fn pools_bring_no_yes(site: &Site) -> Result<()> {
    let all = ["tank/below/copy", "tank/copy", "tank/said", "tank/v"];
    site.export()?;
    let other = Site::new("tank")?;
    let devices = site.devices().display().to_string();
    let import = format!("zpool import -N -o cachefile=none -d {devices} tank");
    other.ok(&import)?;
    is_served(&other, &[])?;
    let list = other.ok("cenote approve")?;
    ensure!(list.lines().count() == 6, "{list}");
    let refused = other.fails("cenote approve tank/none")?;
    ensure!(
        refused.stderr.contains("does not exist"),
        "{}",
        refused.stderr
    );
    other.ok("cenote approve tank/copy")?;
    other.ok("zfs set cenote:nbd=on tank/v")?;
    is_served(&other, &["tank/copy", "tank/v"])?;
    other.export()?;
    other.ok("cenote daemon stop")?;
    other.kill()?;
    other.start()?;
    other.ok(&import)?;
    is_served(&other, &["tank/copy", "tank/v"])?;
    other.ok("cenote approve -r tank")?;
    is_served(&other, &all)?;
    other.export()?;
    other.abandon();

    // What this machine said yes to before is as it was, also for the next daemon.
    site.import("")?;
    is_served(site, &all)?;
    site.crash()?;
    site.import("-f")?;
    is_served(site, &all)
}

/// Pools of a machine without a record keep working as before. Importing another pool before they
/// are back gains nothing.
fn machines_without_a_record_go_on(site: &Site) -> Result<()> {
    let record = site.cenote().directory().join("state/approvals.json");
    ensure!(std::fs::metadata(&record)?.len() > 100);
    site.kill()?;
    std::fs::remove_file(&record)?;
    site.start()?;
    site.import("-f")?;
    is_served(
        site,
        &["tank/below/copy", "tank/copy", "tank/said", "tank/v"],
    )?;
    site.ok("zfs snapshot tank/v@3")?;
    let third = send(site, &["-p", "tank/v@3"])?;
    receive(site, "tank/later", &third)?;
    let list = site.ok("cenote approve")?;
    ensure!(
        list.lines().count() == 2 && list.contains("tank/later"),
        "{list}"
    );
    Ok(())
}

#[test]
fn values_from_elsewhere_wait_for_a_yes() -> Result<()> {
    let site = Site::create("single", 256, "-O mountpoint=none")?;
    streams_bring_no_yes(&site)?;
    pools_bring_no_yes(&site)?;
    machines_without_a_record_go_on(&site)?;
    site.finish()
}
