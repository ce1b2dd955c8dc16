//! `zfs redact`, `zfs send --redact` and increments from redaction bookmarks.

use anyhow::{Result, ensure};
use cenote_tests::program::Outcome;
use cenote_tests::site::{Site, same};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Bytes of a block of all files here.
const BLOCK: usize = 16 << 10;

/// Contents that nothing compresses, with a word in each block that can be searched for.
fn contents(blocks: usize, word: &str) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes: Vec<u8> = Vec::with_capacity(blocks * BLOCK);
    while bytes.len() < blocks * BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    for block in 0..blocks {
        let word = format!("{word}{block:04}");
        bytes[block * BLOCK..][..word.len()].copy_from_slice(word.as_bytes());
    }
    bytes
}

fn holds(stream: &[u8], word: &str) -> bool {
    stream
        .windows(word.len())
        .any(|window| window == word.as_bytes())
}

/// A pool with a snapshot, two clones of it that removed something, and their snapshots.
///
/// ```text
/// blocks of one:   0 1 2 3 4 5 6 7      two       three, 4 blocks
/// changed in a     x x x . . . x .      removed   blocks 2, 3 cut off
/// changed in b     . x x x . . x .      removed   the same
/// ```
struct House {
    site: Site,
}

impl House {
    fn new() -> Result<Self> {
        let site = Site::create("single", 512, "-O recordsize=16k -O compression=off")?;
        site.ok("zfs create tank/house")?;
        let root = site.path("tank/house");
        fs::write(root.join("one"), contents(8, "ONE"))?;
        fs::write(root.join("two"), contents(4, "TWO"))?;
        fs::write(root.join("three"), contents(4, "THREE"))?;
        fs::write(root.join("four"), contents(4, "FOUR"))?;
        site.ok("zfs snapshot tank/house@early")?;
        site.ok("zfs snapshot tank/house@snap")?;
        for (clone, changed) in [("a", [0, 1, 2, 6]), ("b", [1, 2, 3, 6])] {
            site.ok(&format!("zfs clone tank/house@snap tank/{clone}"))?;
            let root = site.path(&format!("tank/{clone}"));
            let one = File::options().write(true).open(root.join("one"))?;
            for block in changed {
                one.write_all_at(&[b'x'; BLOCK], (block * BLOCK) as u64)?;
            }
            fs::remove_file(root.join("two"))?;
            let three = File::options().write(true).open(root.join("three"))?;
            three.set_len(2 * BLOCK as u64)?;
            site.ok(&format!("zfs snapshot tank/{clone}@snap"))?;
        }
        Ok(Self { site })
    }

    fn sent(&self, arguments: &str) -> Result<Vec<u8>> {
        let mut words = vec!["send"];
        words.extend(arguments.split_whitespace());
        Ok(self.site.cenote().run("zfs", &words)?.success()?.stdout)
    }

    fn receive(&self, arguments: &str, stream: &[u8]) -> Result<Outcome> {
        let mut words = vec!["receive"];
        words.extend(arguments.split_whitespace());
        self.site.cenote().run_with_input("zfs", &words, stream)
    }

    fn says(&self, line: &str, text: &str) -> Result<()> {
        let said = self.site.fails(line)?;
        ensure!(said.stderr.contains(text), "{}", said.report());
        Ok(())
    }

    fn feature_is(&self, feature: &str, state: &str) -> Result<()> {
        let now = self
            .site
            .ok(&format!("zpool get -H -o value feature@{feature} tank"))?;
        ensure!(now.trim() == state, "{feature}: {now}");
        Ok(())
    }

    /// The guids of snapshots, as `redact_snaps` has them.
    fn guids(&self, snapshots: &str) -> Result<String> {
        let guids = self
            .site
            .ok(&format!("zfs get -Hp -o value guid {snapshots}"))?;
        Ok(guids.split_whitespace().collect::<Vec<_>>().join(","))
    }

    fn bookmarks_have_lists(&self) -> Result<()> {
        self.feature_is("redaction_bookmarks", "enabled")?;
        let command = "zfs redact tank/house@snap book tank/a@snap tank/b@snap";
        self.site.ok(command)?;
        self.feature_is("redaction_bookmarks", "active")?;
        self.says(
            command,
            "specified redaction bookmark (tank/house#book) provided already exists",
        )?;
        let by = self
            .site
            .ok("zfs get -Hp -o value redact_snaps tank/house#book")?;
        ensure!(by.trim() == self.guids("tank/a@snap tank/b@snap")?, "{by}");
        let logged = self.site.ok("zpool history -i tank")?;
        ensure!(logged.contains(command), "{logged}");
        // A copy is an ordinary bookmark.
        self.site
            .ok("zfs bookmark tank/house#book tank/house#plain")?;
        let by = self
            .site
            .ok("zfs get -Hp -o value redact_snaps tank/house#plain")?;
        ensure!(by.trim() == "-", "{by}");
        self.feature_is("redaction_bookmarks", "active")
    }

    /// What all clones removed is not in the stream, and all else is.
    fn secrets_stay_at_home(&self) -> Result<()> {
        let whole = self.sent("tank/house@snap")?;
        let stream = self.sent("--redact book tank/house@snap")?;
        let listed = [
            ("ONE", &[1, 2, 6][..], 8),
            ("TWO", &[0, 1, 2, 3], 4),
            ("THREE", &[2, 3], 4),
            ("FOUR", &[], 4),
        ];
        for (word, redacted, blocks) in listed {
            for block in 0..blocks {
                let word = format!("{word}{block:04}");
                ensure!(holds(&whole, &word), "{word} is not sent at all");
                let is_sent = !redacted.contains(&block);
                ensure!(holds(&stream, &word) == is_sent, "{word}: {is_sent}");
            }
        }
        let size = self.site.ok("zfs send -nP --redact book tank/house@snap")?;
        ensure!(size.contains(&format!("size\t{}", stream.len())), "{size}");
        for name in ["#book", "tank/house#book"] {
            let again = self.sent(&format!("--redact {name} tank/house@snap"))?;
            ensure!(again == stream, "{name}");
        }
        self.receive("-u tank/copy", &stream)?.success()?;
        let by = self
            .site
            .ok("zfs get -Hp -o value redact_snaps tank/copy@snap")?;
        ensure!(by.trim() == self.guids("tank/a@snap tank/b@snap")?, "{by}");
        self.site.ok("zfs mount -f -o ro tank/copy")?;
        let mut expected = contents(8, "ONE");
        for block in [1, 2, 6] {
            expected[block * BLOCK..][..BLOCK].fill(0);
        }
        ensure!(fs::read(self.site.path("tank/copy").join("one"))? == expected);
        self.site.ok("zfs unmount tank/copy").map(drop)
    }

    /// Each of the clones is whole upon what was received, and so is what comes from the bookmark.
    fn increments_are_whole(&self) -> Result<()> {
        for clone in ["a", "b"] {
            let stream = self.sent(&format!("-i tank/house@snap tank/{clone}@snap"))?;
            let target = format!("-o origin=tank/copy@snap tank/copy-{clone}");
            self.receive(&target, &stream)?.success()?;
            let (ours, theirs) = (format!("tank/{clone}"), format!("tank/copy-{clone}"));
            same(&self.site.walk(&ours)?, &self.site.walk(&theirs)?)?;
        }
        let later = self.site.path("tank/house");
        let one = File::options().write(true).open(later.join("one"))?;
        one.write_all_at(&[b'y'; BLOCK], 2 * BLOCK as u64)?;
        fs::remove_file(later.join("three"))?;
        fs::write(later.join("five"), contents(2, "FIVE"))?;
        self.site.ok("zfs snapshot tank/house@late")?;
        let stream = self.sent("-i @snap tank/house@late")?;
        let refused = self.receive("tank/copy", &stream)?;
        ensure!(refused.code == Some(1), "{}", refused.report());
        let stream = self.sent("-i #book tank/house@late")?;
        for (word, is_sent) in [
            ("ONE0001", true),
            ("ONE0002", false),
            ("ONE0004", false),
            ("TWO0003", true),
        ] {
            ensure!(holds(&stream, word) == is_sent, "{word}");
        }
        let size = self.site.ok("zfs send -nP -i #book tank/house@late")?;
        ensure!(size.contains(&format!("size\t{}", stream.len())), "{size}");
        self.is_resumed("tank/copy", &stream)?;
        self.site.ok("zfs mount tank/copy")?;
        same(
            &self.site.walk("tank/house")?,
            &self.site.walk("tank/copy")?,
        )
    }

    /// A stream that is cut somewhere is resumed with `zfs send -t`.
    fn is_resumed(&self, target: &str, stream: &[u8]) -> Result<()> {
        let cut = self.receive(&format!("-s -u {target}"), &stream[..stream.len() * 2 / 3])?;
        ensure!(cut.code == Some(1), "{}", cut.report());
        let token = format!("zfs get -H -o value receive_resume_token {target}");
        let token = self.site.ok(&token)?;
        let rest = self.sent(&format!("-t {token}"))?;
        ensure!(rest.len() < stream.len(), "{} bytes", rest.len());
        self.receive(&format!("-s -u {target}"), &rest)?
            .success()
            .map(drop)
    }

    fn redacted_streams_are_resumed(&self) -> Result<()> {
        let stream = self.sent("--redact book tank/house@snap")?;
        self.is_resumed("tank/resumed", &stream)?;
        let by = self
            .site
            .ok("zfs get -Hp -o value redact_snaps tank/resumed@snap")?;
        ensure!(by.trim() == self.guids("tank/a@snap tank/b@snap")?, "{by}");
        // Without the list nothing may be sent: it would be sent in full.
        let cut = self.receive("-s -u tank/again", &stream[..stream.len() / 2])?;
        ensure!(cut.code == Some(1), "{}", cut.report());
        let token = self
            .site
            .ok("zfs get -H -o value receive_resume_token tank/again")?;
        self.site.ok("zfs destroy tank/house#book")?;
        self.says(
            &format!("zfs send -t {token}"),
            "no appropriate redaction bookmark exists",
        )?;
        self.site.ok("zfs receive -A tank/again").map(drop)
    }

    fn others_are_refused(&self) -> Result<()> {
        let redact = "zfs redact tank/house@snap";
        self.says(
            &format!("{redact} #book tank/a@snap"),
            "must not contain '#'",
        )?;
        self.says(
            &format!("{redact} book2 @snap"),
            "full dataset names required",
        )?;
        let descendant = "redaction snapshot must be descendent of snapshot being redacted";
        self.says(&format!("{redact} book2 tank/house@early"), descendant)?;
        self.says(&format!("{redact} book2 tank/house@snap"), descendant)?;
        let redacted = "with respect to redacted dataset";
        self.says("zfs redact tank/copy@snap book2 tank/copy-a@snap", redacted)?;
        let missing = self
            .site
            .fails("zfs redact tank/house@none book2 tank/a@snap")?;
        ensure!(missing.code == Some(2), "{}", missing.report());
        for (arguments, text) in [
            ("--redact plain tank/house@snap", "not a redaction bookmark"),
            (
                "--redact none tank/house@snap",
                "nonexistent redaction bookmark provided",
            ),
            (
                "--redact book tank/house@early",
                "redaction bookmark is of another snapshot",
            ),
            (
                "--redact book tank/a",
                "cannot do a redacted send to a filesystem",
            ),
            (
                "-w --redact book tank/house@snap",
                "raw sends may not be redacted",
            ),
            (
                "-R --redact book tank/house@snap",
                "multiple snapshots cannot be sent redacted",
            ),
        ] {
            self.says(&format!("zfs send {arguments}"), text)?;
        }
        Ok(())
    }

    /// More snapshots than a dnode has room for.
    fn many_snapshots_have_a_spill_block(&self) -> Result<()> {
        let mut all = Vec::new();
        for number in 0..37 {
            let snapshot = format!("tank/a@s{number}");
            self.site.ok(&format!("zfs snapshot {snapshot}"))?;
            all.push(snapshot);
        }
        let all = all.join(" ");
        self.site
            .ok(&format!("zfs redact tank/house@snap many {all}"))?;
        self.feature_is("redaction_list_spill", "active")?;
        let by = self
            .site
            .ok("zfs get -Hp -o value redact_snaps tank/house#many")?;
        ensure!(by.trim() == self.guids(&all)?, "{by}");
        let stream = self.sent("--redact many tank/house@snap")?;
        ensure!(!holds(&stream, "ONE0000") && holds(&stream, "ONE0003"));
        // OpenZFS reads what is in all of the pool: lists in bonus buffers, in spill blocks, and
        // datasets that were received redacted.
        self.site.export()?;
        self.site.judge()?;
        self.site.import("")
    }

    fn destroyed_bookmarks_leave_nothing(&self) -> Result<()> {
        self.site.ok("zfs destroy tank/house#many")?;
        self.site.ok("zfs destroy tank/house#plain")?;
        self.feature_is("redaction_bookmarks", "enabled")?;
        self.feature_is("redaction_list_spill", "enabled")
    }
}

/// A snapshot whose clones removed secrets is sent without them.
#[test]
fn redacted_streams_have_what_some_clone_has() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let house = House::new()?;
    house.bookmarks_have_lists()?;
    house.secrets_stay_at_home()?;
    house.increments_are_whole()?;
    house.others_are_refused()?;
    house.many_snapshots_have_a_spill_block()?;
    house.redacted_streams_are_resumed()?;
    house.destroyed_bookmarks_leave_nothing()?;
    house.site.finish()
}
