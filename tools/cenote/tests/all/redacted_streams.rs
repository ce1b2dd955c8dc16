//! `zfs receive` of redacted streams, by any snapshots: streams of whole snapshots are changed. The
//! first block of a file is left out, and BEGIN says so.

use anyhow::{Result, ensure};
use cenote_ondisk::ObjectType;
use cenote_ondisk::stream::{BeginPayload, ByteOrder, Feature, Record, Redact};
use cenote_stream::{Checks, Reader, Writer};
use cenote_tests::program::Outcome;
use cenote_tests::site::{Site, same};
use std::fs;

/// Runs `zfs receive` with a stream.
fn receive(site: &Site, arguments: &str, stream: &[u8]) -> Result<Outcome> {
    let mut words = vec!["receive"];
    words.extend(arguments.split_whitespace());
    site.cenote().run_with_input("zfs", &words, stream)
}

fn sent(site: &Site, arguments: &str) -> Result<Vec<u8>> {
    let mut words = vec!["send"];
    words.extend(arguments.split_whitespace());
    Ok(site.cenote().run("zfs", &words)?.success()?.stdout)
}

/// Bytes that differ in each block.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

/// A stream as it is if it was redacted by these snapshots: the first block of a file is left out.
fn redacted(stream: &[u8], by: &[u64]) -> Result<Vec<u8>> {
    let mut reader = Reader::with_checks(stream, Checks::default());
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, ByteOrder::Little);
    let mut is_left_out = false;
    while let Some(item) = reader.next_item()? {
        let mut record = item.header.record.clone();
        let mut payload = item.payload.to_vec();
        match &mut record {
            Record::Begin(begin) => {
                let list = BeginPayload {
                    redact_snapshots: Some(by.to_vec()),
                    redact_from_snapshots: None,
                    resume: None,
                    crypt: None,
                };
                payload = list.to_list().encode_native();
                begin.features = begin.features.with(Feature::Redacted);
                begin.payload_length = u32::try_from(payload.len())?;
            }
            Record::Write(write)
                if write.object_type == u32::from(ObjectType::PLAIN_FILE.0) && !is_left_out =>
            {
                is_left_out = true;
                payload.clear();
                record = Record::Redact(Redact {
                    object: write.object,
                    offset: write.offset,
                    length: write.logical_size,
                    to_guid: write.to_guid,
                });
            }
            _ => {}
        }
        writer.record(&record, &payload)?;
    }
    writer.finish()?;
    ensure!(is_left_out, "the stream has no file");
    Ok(bytes)
}

/// A pool with a file system of two snapshots, and their streams.
struct Sender {
    site: Site,
    full: Vec<u8>,
    increment: Vec<u8>,
    /// The guid of the second snapshot.
    guid: u64,
}

impl Sender {
    fn new() -> Result<Self> {
        let site = Site::create("single", 512, "")?;
        let file = site.path("tank/source").join("file");
        site.ok("zfs create tank/source")?;
        fs::write(&file, numbers(150_000))?;
        site.ok("zfs snapshot tank/source@a")?;
        fs::write(&file, numbers(125_000))?;
        site.ok("zfs snapshot tank/source@b")?;
        let guid = site.ok("zfs get -Hp -o value guid tank/source@b")?;
        Ok(Self {
            full: sent(&site, "tank/source@a")?,
            increment: sent(&site, "-i @a tank/source@b")?,
            guid: guid.trim().parse()?,
            site,
        })
    }

    /// The state of the feature `redacted_datasets`.
    fn feature_is(&self, state: &str) -> Result<()> {
        let command = "zpool get -H -o value feature@redacted_datasets tank";
        let now = self.site.ok(command)?;
        ensure!(now.trim() == state, "{now}");
        Ok(())
    }

    fn property_is(&self, property: &str, dataset: &str, value: &str) -> Result<()> {
        let command = format!("zfs get -Hp -o value {property} {dataset}");
        let now = self.site.ok(&command)?;
        ensure!(now.trim() == value, "{property} of {dataset}: {now}");
        Ok(())
    }

    fn takes(&self, target: &str, stream: &[u8]) -> Result<()> {
        receive(&self.site, target, stream)?.success().map(drop)
    }

    fn refuses(&self, target: &str, stream: &[u8]) -> Result<()> {
        let said = receive(&self.site, target, stream)?;
        let is_refused = said.code == Some(1) && said.stderr.contains("invalid backup stream");
        ensure!(is_refused, "{}", said.report());
        Ok(())
    }

    /// The feature counts datasets, whatever becomes of them. A list that is missing is refused, as
    /// is one that no entry can have.
    fn lists_have_limits(&self) -> Result<()> {
        self.feature_is("enabled")?;
        self.refuses("tank/none", &redacted(&self.full, &[])?)?;
        self.refuses("tank/none", &redacted(&self.full, &[7; 1025])?)?;
        self.takes("tank/long", &redacted(&self.full, &[7; 1024])?)?;
        self.feature_is("active")?;
        self.site.ok("zfs destroy -r tank/long")?;
        self.feature_is("enabled")
    }

    /// The increment to one of its redaction snapshots makes a dataset whole.
    fn increments_fill_in(&self) -> Result<()> {
        let by = format!("{},77", self.guid);
        self.takes("tank/copy", &redacted(&self.full, &[self.guid, 77])?)?;
        self.property_is("redact_snaps", "tank/copy@a", &by)?;
        self.property_is("mounted", "tank/copy", "no")?;
        let said = self.site.fails("zfs mount tank/copy")?.stderr;
        ensure!(said.contains("redacted zfs send stream"), "{said}");
        self.takes("tank/copy", &self.increment)?;
        self.property_is("redact_snaps", "tank/copy@b", "-")?;
        self.property_is("redact_snaps", "tank/copy@a", &by)?;
        self.site.ok("zfs mount tank/copy")?;
        same(
            &self.site.walk("tank/source")?,
            &self.site.walk("tank/copy")?,
        )
    }

    /// Other increments must leave out at least the same.
    fn other_increments_are_refused(&self) -> Result<()> {
        self.takes("tank/other", &redacted(&self.full, &[77, 78])?)?;
        self.refuses("tank/other", &self.increment)?;
        self.refuses("tank/other", &redacted(&self.increment, &[77, 79])?)?;
        self.takes("tank/other", &redacted(&self.increment, &[78])?)?;
        self.property_is("redact_snaps", "tank/other@b", "78")?;
        self.property_is("redact_snaps", "tank/other@a", "77,78")
    }

    /// The rest of a redacted stream must not be sent in full.
    fn tokens_are_refused(&self) -> Result<()> {
        let stream = redacted(&self.full, &[self.guid])?;
        let cut = receive(&self.site, "-s tank/cut", &stream[..stream.len() / 2])?;
        ensure!(cut.code == Some(1), "{}", cut.report());
        let token = "zfs get -H -o value receive_resume_token tank/cut";
        let token = self.site.ok(token)?;
        let said = self.site.fails(&format!("zfs send -t {token}"))?.stderr;
        let reason = "no appropriate redaction bookmark exists";
        ensure!(said.contains(reason), "{said}");
        self.site.ok("zfs receive -A tank/cut").map(drop)
    }
}

/// What a redacted stream leaves out was not noted. The dataset looked complete and was mounted,
/// and took increments that did not bring what was missing.
#[test]
fn redacted_streams_leave_redacted_datasets() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let sender = Sender::new()?;
    sender.lists_have_limits()?;
    sender.increments_fill_in()?;
    sender.other_increments_are_refused()?;
    sender.tokens_are_refused()?;
    sender.feature_is("active")?;
    let site = &sender.site;
    site.ok("zfs destroy -r tank/other")?;
    site.ok("zfs destroy tank/copy@a")?;
    sender.feature_is("enabled")?;
    // What is judged has redacted datasets, too.
    sender.takes("tank/again", &redacted(&sender.full, &[sender.guid])?)?;
    sender.site.finish()
}
