//! `zpool status -D`: the deduplication tables and the reference counts of their blocks.

use cenote_control::model::{DedupBucket, DedupSum, DedupSummary};

use super::numbers::Numbers;
use cenote_words::format::json::Object;
use cenote_words::format::number::{nicebytes, nicenum};

/// The heading of the table, including trailing spaces.
const HEADING: &str = concat!(
    "bucket              allocated                       referenced          \n",
    "______   ______________________________   ______________________________\n",
    "refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE\n",
    "------   ------   -----   -----   -----   ------   -----   -----   -----\n",
);

/// The summary as text and table.
pub fn text(dedup: &DedupSummary, exact: bool) -> String {
    if dedup.entries == 0 {
        return "\n dedup: no DDT entries\n".to_owned();
    }
    let size = |bytes: u64| match exact {
        true => bytes.to_string(),
        false => nicebytes(bytes),
    };
    let mut text = format!(
        "\n dedup: DDT entries {}, size {} on disk, {} in core\n\n{HEADING}",
        dedup.entries,
        size(dedup.on_disk),
        size(dedup.in_core)
    );
    for bucket in &dedup.histogram {
        let references = 1_u64.checked_shl(bucket.power).unwrap_or(u64::MAX);
        text.push_str(&row(&nicenum(references), bucket));
    }
    text.push_str(&row("Total", &total(dedup)));
    text.push('\n');
    text
}

fn row(name: &str, bucket: &DedupBucket) -> String {
    let sum = |sum: &DedupSum| {
        format!(
            "   {:>6}   {:>5}   {:>5}   {:>5}",
            nicenum(sum.blocks),
            nicebytes(sum.logical),
            nicebytes(sum.physical),
            nicebytes(sum.allocated)
        )
    };
    let (stored, referenced) = (sum(&bucket.stored), sum(&bucket.referenced));
    format!("{name:>6}{stored}{referenced}\n")
}

fn total(dedup: &DedupSummary) -> DedupBucket {
    let mut total = DedupBucket::default();
    for bucket in &dedup.histogram {
        add(&mut total.stored, &bucket.stored);
        add(&mut total.referenced, &bucket.referenced);
    }
    total
}

fn add(sum: &mut DedupSum, other: &DedupSum) {
    sum.blocks = sum.blocks.saturating_add(other.blocks);
    sum.logical = sum.logical.saturating_add(other.logical);
    sum.physical = sum.physical.saturating_add(other.physical);
    sum.allocated = sum.allocated.saturating_add(other.allocated);
}

/// The summary as `dedup_stats` of JSON output.
pub fn json(dedup: &DedupSummary, numbers: &Numbers<'_>) -> Object {
    let mut stats = Object::new();
    stats.put("obj_count", numbers.count(dedup.entries));
    if dedup.entries == 0 {
        stats.put("ddt_object_stats", Object::new());
        return stats;
    }
    stats.put("dspace", numbers.bytes(dedup.on_disk));
    stats.put("mspace", numbers.bytes(dedup.in_core));
    let mut histogram = Object::new();
    for bucket in &dedup.histogram {
        histogram.put(&bucket.power.to_string(), json_bucket(bucket, numbers));
    }
    let mut tables = Object::new();
    tables.put("total", json_bucket(&total(dedup), numbers));
    tables.put("histogram", histogram);
    stats.put("ddt_stats", tables);
    stats
}

fn json_bucket(bucket: &DedupBucket, numbers: &Numbers<'_>) -> Object {
    let mut object = Object::new();
    let (stored, referenced) = (&bucket.stored, &bucket.referenced);
    object.put("blocks", numbers.count(stored.blocks));
    object.put("logical_size", numbers.bytes(stored.logical));
    object.put("physical_size", numbers.bytes(stored.physical));
    object.put("deflated_size", numbers.bytes(stored.allocated));
    object.put("ref_blocks", numbers.count(referenced.blocks));
    object.put("ref_lsize", numbers.bytes(referenced.logical));
    object.put("ref_psize", numbers.bytes(referenced.physical));
    object.put("ref_dsize", numbers.bytes(referenced.allocated));
    object
}
