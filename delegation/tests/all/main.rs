//! Permissions delegated to ordinary users: real processes of theirs use them.

use anyhow::{Context, Result, ensure};
use cenote_tests::program::{Limits, Outcome, run};
use cenote_tests::site::Site;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

/// Users and a group that the system need not know.
const ALICE: u32 = 64_001;
const BOB: u32 = 64_002;
const STAFF: u32 = 64_100;

/// An ordinary user of the site, perhaps in the group.
struct User<'a> {
    site: &'a Site,
    id: u32,
    groups: &'a [u32],
}

impl User<'_> {
    fn command(&self, line: &str) -> Result<Command> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (program, arguments) = words.split_first().context("a command")?;
        let mut command = Command::new("setpriv");
        let id = self.id.to_string();
        command.args(["--reuid", &id, "--regid", &id]);
        match self.groups {
            [] => command.arg("--clear-groups"),
            groups => {
                let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
                command.args(["--groups", &groups.join(",")])
            }
        };
        let found = self.site.cenote().directory().join("bin").join(program);
        command.arg(if found.exists() {
            found.as_path()
        } else {
            Path::new(program)
        });
        command.args(arguments).current_dir("/");
        Ok(self.site.cenote().in_environment(command))
    }

    fn run_with(&self, line: &str, input: &[u8]) -> Result<Outcome> {
        run(self.command(line)?, input, Limits::default())
    }

    fn ok(&self, line: &str) -> Result<Outcome> {
        self.run_with(line, b"")?.success()
    }

    /// The line must fail with this message.
    fn refused(&self, line: &str, message: &str) -> Result<()> {
        let refused = self.run_with(line, b"")?;
        let is_refused = refused.code.is_some_and(|code| code != 0);
        ensure!(
            is_refused && refused.stderr.contains(message),
            "{}",
            refused.report()
        );
        Ok(())
    }
}

/// A pool whose file system `tank/home/a` is mounted and belongs to Alice; `None` if this cannot
/// be, because it takes root.
fn site() -> Result<Option<Site>> {
    if !rustix::process::geteuid().is_root() || !cenote_tests::pool::can_mount() {
        return Ok(None);
    }
    let site = Site::create("single", 256, "")?;
    for directory in [site.cenote().directory().to_owned(), site.path("")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    site.ok("zfs create tank/home")?;
    site.ok("zfs create tank/home/a")?;
    chown(site.path("tank/home/a"), Some(ALICE), Some(ALICE))?;
    Ok(Some(site))
}

fn people(site: &Site) -> [User<'_>; 2] {
    [ALICE, BOB].map(|id| User {
        site,
        id,
        groups: &[],
    })
}

/// The line of the table of mounts that is about a place.
fn mount_of(place: &Path) -> Result<String> {
    let place = format!(" {} ", place.display());
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let found = table.lines().find(|line| line.contains(&place));
    Ok(found.unwrap_or_default().to_owned())
}

/// What `zfs allow` prints of what the first test delegates.
const SHOWN: &str = "\
---- Permissions on tank/home/a --------------------------------------
Local+Descendent permissions:
\tuser (unknown: 64001) @mine,allow,hold,quota,release,send,snapshot,userprop
---- Permissions on tank/home ----------------------------------------
Permission sets:
\t@mine clone,create,destroy,mount,promote,rename,rollback
Create time permissions:
\tcompression
Local permissions:
\teveryone diff
Descendent permissions:
\tgroup (unknown: 64100) snapshot
";

#[test]
fn users_do_what_is_delegated_and_nothing_else() -> Result<()> {
    let Some(site) = site()? else {
        return Ok(());
    };
    let [alice, bob] = people(&site);
    alice.refused(
        "zfs create tank/home/a/x",
        "cannot create 'tank/home/a/x': permission denied",
    )?;
    site.ok("zfs allow -s @mine create,mount,destroy,rename,clone,promote,rollback tank/home")?;
    site.ok(
        "zfs allow -u 64001 @mine,snapshot,send,hold,release,quota,userprop,allow tank/home/a",
    )?;
    site.ok("zfs allow -c compress tank/home")?;
    site.ok("zfs allow -d -g 64100 snapshot tank/home")?;
    site.ok("zfs allow -l everyone diff tank/home")?;
    let seen = bob.ok("zfs allow tank/home/a")?.text();
    ensure!(seen == SHOWN, "{seen}");

    alice.refused("zfs create tank/home/a/x", "cannot mount 'tank/home/a/x'")?;
    let place = site.path("tank/home/a/x");
    site.ok("zfs mount tank/home/a/x")?;
    ensure!(fs::metadata(&place)?.uid() == ALICE, "the creator owns it");
    // The create-time permission is Alice's there, and not elsewhere.
    alice.ok("zfs set compression=zstd tank/home/a/x")?;
    alice.refused("zfs set compression=zstd tank/home/a", "permission denied")?;
    alice.refused("zfs set recordsize=8k tank/home/a/x", "permission denied")?;
    alice.refused("zfs set cenote:nbd=on tank/home/a/x", "permission denied")?;
    alice.ok("zfs set org:owner=alice quota=64m tank/home/a/x")?;
    let file = place.join("file");
    alice.ok(&format!("touch {}", file.display()))?;
    alice.ok("zfs snapshot -r tank/home/a@one")?;
    alice.ok(&format!("mkdir {}/.zfs/snapshot/two", place.display()))?;
    let sent = alice.ok("zfs send tank/home/a/x@one")?;
    ensure!(sent.stdout.len() > 1000, "a stream");
    alice.ok("zfs hold keep tank/home/a/x@one")?;
    alice.ok("zfs release keep tank/home/a/x@one")?;
    alice.ok("zfs rollback -r tank/home/a/x@one")?;
    alice.ok("zfs clone -u tank/home/a/x@one tank/home/a/y")?;
    alice.ok("zfs promote tank/home/a/y")?;
    alice.ok("zfs rename tank/home/a/y tank/home/a/z")?;
    alice.refused(
        "zfs rename tank/home/a/x tank/home/a/w",
        "permission denied",
    )?;
    alice.refused("zfs destroy tank/home/a/x", "permission denied")?;
    alice.refused("zfs rename tank/home/a/z tank/home/z", "permission denied")?;
    alice.refused(
        "zfs create tank/home/b",
        "cannot create 'tank/home/b': permission denied",
    )?;
    alice.refused("zpool export tank", "ermission denied")?;
    alice.refused("zpool set delegation=off tank", "ermission denied")?;

    bob.refused("zfs snapshot tank/home/a@bob", "permission denied")?;
    let staff = User {
        site: &site,
        id: BOB,
        groups: &[STAFF],
    };
    staff.ok("zfs snapshot tank/home/a@bob")?;
    staff.refused("zfs snapshot tank/home@bob", "permission denied")?;

    property_of_pool(&site, &alice)?;
    site.finish()
}

/// The pool's property `delegation`, and an export.
fn property_of_pool(site: &Site, alice: &User<'_>) -> Result<()> {
    site.ok("zpool set delegation=off tank")?;
    alice.refused("zfs snapshot tank/home/a@off", "permission denied")?;
    site.ok("zpool set delegation=on tank")?;
    site.export()?;
    site.import("")?;
    ensure!(site.path("tank/home/a/z/file").exists());
    alice.ok("zfs snapshot tank/home/a@again")?;
    alice.refused("zfs destroy -R tank/home/a/z", "permission denied")?;
    site.ok("zfs unmount tank/home/a/x")?;
    site.ok("zfs unmount tank/home/a/z")?;
    alice.refused("zfs destroy -r tank/home/a/z", "dependent clones")?;
    alice.ok("zfs destroy -R tank/home/a/z")?;
    Ok(())
}

/// Users can hand on what they have, and can give up what is theirs.
#[test]
fn users_delegate_what_they_have() -> Result<()> {
    let Some(site) = site()? else {
        return Ok(());
    };
    let [alice, bob] = people(&site);
    site.ok("zfs allow -l -u 64001 allow,snapshot tank/home/a")?;
    site.ok("zfs allow -s @set destroy tank/home")?;
    let denied = "cannot set permissions on 'tank/home/a': permission denied";
    // What she has on the dataset itself she cannot give on those below.
    alice.refused("zfs allow -u 64002 snapshot tank/home/a", denied)?;
    alice.ok("zfs allow -l -u 64002 snapshot tank/home/a")?;
    for other in ["allow", "destroy", "@set"] {
        alice.refused(
            &format!("zfs allow -l -u 64002 {other} tank/home/a"),
            denied,
        )?;
    }
    bob.ok("zfs snapshot tank/home/a@bob")?;
    bob.refused("zfs allow -l -u 64002 snapshot tank/home/a", denied)?;
    alice.refused("zfs unallow -u 64002 tank/home/a", denied)?;
    alice.ok("zfs unallow -u 64001 snapshot tank/home/a")?;
    alice.refused("zfs snapshot tank/home/a@alice", "permission denied")?;
    site.ok("zfs unallow -r -u 64002 tank")?;
    bob.refused("zfs snapshot tank/home/a@more", "permission denied")?;
    site.ok("zfs unallow -s @set tank/home")?;
    site.ok("zfs unallow -u 64001 tank/home/a")?;
    ensure!(
        site.ok("zfs allow tank/home/a")?.is_empty(),
        "all is taken back"
    );

    for (line, message) in [
        (
            "zfs allow -u nosuchuser snapshot tank",
            "invalid user nosuchuser",
        ),
        (
            "zfs allow nosuchuser snapshot tank",
            "invalid user/group nosuchuser",
        ),
        ("zfs allow -u 64001 used tank", "invalid permission"),
        ("zfs allow -u -g 64001 snapshot tank", "mutually exclusive"),
        ("zfs allow -s set snapshot tank", "missing '@' prefix"),
        (
            "zfs allow -c -l snapshot tank",
            "invalid options combined with -c",
        ),
        ("zfs allow tank/none", "dataset does not exist"),
        (
            "zfs unallow -s @set -l tank",
            "invalid options combined with -s",
        ),
    ] {
        let refused = site.fails(line)?;
        ensure!(refused.stderr.contains(message), "{}", refused.report());
    }
    site.finish()
}

/// An ordinary user that could move mounts could exchange directories on the way to them meanwhile:
/// one got a mount without `nosuid`, covered directories of the system, and removed others.
#[test]
fn users_mount_nothing() -> Result<()> {
    let Some(site) = site()? else {
        return Ok(());
    };
    let [alice, _] = people(&site);
    site.ok("zfs allow -u 64001 create,mount,mountpoint,rename,receive:append tank/home/a")?;
    let system = site.cenote().subdirectory("system")?;
    let link = site.path("tank/home/a/link");
    symlink(&system, &link)?;
    std::os::unix::fs::lchown(&link, Some(ALICE), Some(ALICE))?;
    alice.refused(
        "zfs create tank/home/a/link",
        "cannot mount 'tank/home/a/link'",
    )?;
    // Nor for root: the user may have put the link there since.
    let refused = site.fails("zfs mount tank/home/a/link")?;
    ensure!(
        refused.stderr.contains("leads out of"),
        "{}",
        refused.report()
    );
    ensure!(
        mount_of(&system)?.is_empty(),
        "nothing is mounted on the directory of the system"
    );
    for line in [
        "zfs set mountpoint=/system tank/home/a/link",
        "zfs set canmount=noauto tank/home/a/link",
        "zfs inherit mountpoint tank/home/a/link",
        "zfs create -o mountpoint=/system tank/home/a/y",
        "zfs rename tank/home/a tank/home/a2",
        "zfs mount tank/home/a/link",
        "zfs unmount tank/home/a",
        "zfs unmount -a",
    ] {
        alice.refused(line, "ermission denied")?;
    }
    let path = site.path("tank/home/a");
    alice.refused(
        &format!("zfs unmount {}", path.display()),
        "ermission denied",
    )?;
    ensure!(!mount_of(&path)?.is_empty(), "still mounted");
    streams(&site, &alice)?;
    alice.refused("zfs create tank/home/a/no/parent", "parent does not exist")?;
    site.finish()
}

/// A stream brings contents, and no properties that are not delegated.
fn streams(site: &Site, alice: &User<'_>) -> Result<()> {
    site.ok("zfs create -o mountpoint=/elsewhere -o atime=off tank/source")?;
    site.ok("zfs snapshot tank/source@s")?;
    let stream = site
        .cenote()
        .run("zfs", &["send", "-p", "tank/source@s"])?
        .success()?
        .stdout;
    let received = alice.run_with("zfs receive tank/home/a/r", &stream)?;
    for property in ["mountpoint", "atime"] {
        let line =
            format!("cannot receive {property} property on tank/home/a/r: permission denied");
        ensure!(received.stderr.contains(&line), "{}", received.report());
    }
    let seen = site.ok("zfs get -H -o value atime,mounted,mountpoint tank/home/a/r")?;
    ensure!(
        seen.starts_with("on\nno\n") && !seen.contains("elsewhere"),
        "{seen}"
    );
    let forced = alice.run_with("zfs receive -F tank/home/a/r", &stream)?;
    ensure!(forced.code != Some(0), "{}", forced.report());
    Ok(())
}
