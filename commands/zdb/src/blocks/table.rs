//! Tables of block statistics.

use super::figures::{DEFERRED, Figures, LEVELS, OTHER, ROWS, SIZES, Sum};
use crate::print::{Printer, histogram};
use cenote_ondisk::ObjectType;

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The sums over all blocks.
pub fn summary(figures: &Figures, classes: &[(&str, u64, u64)], level: usize) -> String {
    let total = figures.total();
    let average = |bytes: u64| bytes / total.count.max(1);
    let mut text = format!(
        "\n\t{:<16} {:14}\n\t{:<16} {:14}\n",
        "bp count:", total.count, "ganged count:", figures.ganged
    );
    text.push_str(&format!(
        "\t{:<16} {:14}      avg: {:6}\n",
        "bp logical:",
        total.logical,
        average(total.logical)
    ));
    for (name, bytes) in [
        ("bp physical:", total.physical),
        ("bp allocated:", total.allocated),
    ] {
        text.push_str(&format!(
            "\t{name:<16} {bytes:14}      avg: {:6}     compression: {:6.2}\n",
            average(bytes),
            ratio(total.logical, bytes.max(1))
        ));
    }
    let (deduplicated, cloned) = (figures.deduplicated, figures.cloned);
    text.push_str(&format!(
        "\t{:<16} {:14}    ref>1: {:6}   deduplication: {:6.2}\n\t{:<16} {:14}    count: {:6}\n",
        "bp deduped:",
        deduplicated.allocated,
        deduplicated.count,
        ratio(deduplicated.allocated, total.allocated.max(1)) + 1.0,
        "bp cloned:",
        cloned.allocated,
        cloned.count
    ));
    for (name, allocated, size) in classes {
        let share = 100.0 * ratio(*allocated, *size);
        text.push_str(&format!(
            "\t{name:<16} {allocated:14}     used: {share:5.2}%\n"
        ));
    }
    let embedded: u64 = figures.embedded.iter().sum();
    if embedded > 0 {
        text.push_str(&format!(
            "\n\tadditional, non-pointer bps of type 0: {embedded:10}\n"
        ));
        if level >= 3 {
            text.push_str("\t number of (compressed) bytes:  number of bps\n");
            text.push_str(&histogram(&figures.embedded, 0));
        }
    }
    if figures.same_vdev > 0 {
        text.push_str(&format!(
            "\tDittoed blocks on same vdev: {}\n",
            figures.same_vdev
        ));
    }
    text.push('\n');
    text
}

/// A row of the table by types.
fn row(sum: &Sum, total: u64, name: &str, printer: &Printer) -> String {
    if sum.allocated == 0 {
        return format!("     -\t    -\t    -\t    -\t    -\t    -\t     -\t{name}\n");
    }
    let number = |number| printer.number(number);
    format!(
        "{:>6}\t{:>5}\t{:>5}\t{:>5}\t{:>5}\t{:5.2}\t{:6.2}\t{name}\n",
        number(sum.count),
        number(sum.logical),
        number(sum.physical),
        number(sum.allocated),
        number(sum.allocated / sum.count),
        ratio(sum.logical, sum.physical.max(1)),
        100.0 * ratio(sum.allocated, total.max(1)),
    )
}

fn row_name(row: usize) -> String {
    match row {
        DEFERRED => "deferred free".to_owned(),
        OTHER => "other".to_owned(),
        row => u8::try_from(row).map_or_else(|_| String::new(), |row| ObjectType(row).to_string()),
    }
}

/// One row for each type; with `-bbb` one for each level of it, too.
pub fn by_type(figures: &Figures, level: usize, printer: &Printer) -> String {
    let mut text = "Blocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType\n".to_owned();
    let total = figures.total();
    let mut group = |name: &str, whole: Sum, at: &dyn Fn(usize) -> Sum| {
        let levels = (0..LEVELS).rev().map(|level| (level, at(level)));
        // Of one level only, the row of the type says it all.
        let several = levels.filter(|(_, sum)| sum.count > 0 && sum.count < whole.count);
        for (number, sum) in several.filter(|_| level >= 3) {
            let name = format!("    L{number} {name}");
            text.push_str(&row(&sum, total.allocated, &name, printer));
        }
        text.push_str(&row(&whole, total.allocated, name, printer));
    };
    for number in 0..ROWS {
        let levels = &figures.by_type[number];
        group(&row_name(number), figures.row(number), &|level| {
            levels[level]
        });
        if number == DEFERRED {
            // A kind of block that OpenZFS counts and no pool has any more.
            group("dedup ditto", Sum::default(), &|_| Sum::default());
        }
    }
    group("Total", total, &|level| figures.level(level));
    text.push_str(&row(
        &figures.metadata(),
        total.allocated,
        "Metadata Total",
        printer,
    ));
    text
}

/// The same with tabs, for programs.
fn by_exact_size(figures: &Figures) -> String {
    let head = "block\tpsize\t\t\tlsize\t\t\t  asize\nsize\tCount\tSize\tCum.\tCount\tSize\tCum.\t\
                Count\tSize\tCum.\t\n";
    let mut text = format!("\nBlock Size Histogram\n\n{head}");
    let mut below = [0_u64; 3];
    for index in 0..SIZES {
        let mut row = vec![512_u64 << index];
        for (rows, below) in figures.by_size.iter().zip(&mut below) {
            let (count, bytes) = rows[index];
            *below += bytes;
            row.extend([count, bytes, *below]);
        }
        let row: Vec<String> = row.iter().map(u64::to_string).collect();
        text.push_str(&format!("{}\n", row.join("\t")));
    }
    text.push('\n');
    text
}

/// How many blocks there are of each size, and how many bytes they and all smaller ones have.
pub fn by_size(figures: &Figures, printer: &Printer) -> String {
    if printer.exact {
        return by_exact_size(figures);
    }
    let sizes = format!("  block   {:<21}{:<21}asize", "psize", "lsize");
    let columns = "  Count   Size   Cum.".repeat(3);
    let mut text = format!("\nBlock Size Histogram\n\n{sizes}\n   size {columns}\n");
    let mut below = [0_u64; 3];
    for index in 0..SIZES {
        text.push_str(&format!("{:>7}:", printer.number(512 << index)));
        for (rows, below) in figures.by_size.iter().zip(&mut below) {
            let (count, bytes) = rows[index];
            *below += bytes;
            for number in [count, bytes, *below] {
                text.push_str(&format!("{:>7}", printer.number(number)));
            }
        }
        text.push('\n');
    }
    text.push('\n');
    text
}
