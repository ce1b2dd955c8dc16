//! `cenote metrics`: prints the measurements of the daemon once.

use cenote_control::measures::MEASURES;
use cenote_control::model::{Request, Response};

use super::kstat::Sources;
use super::{influx, page};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, mismatch};

/// The command.
pub const COMMAND: Command = Command {
    name: "metrics",
    summary: "Print what the daemon measures, for Prometheus or InfluxDB",
    synopsis: "[--influx [POOL]... | --names]",
    about: "Without options this is the text that Prometheus gets from /metrics: names of ours\n\
            (cenote_*), and the names of zfs_exporter (zfs_pool_*, zfs_dataset_*) and of\n\
            node_exporter (node_zfs_*). The daemon serves it on its socket's path with .metrics\n\
            behind it, and with 'cenote daemon run --metrics-listen ADDRESS:PORT' on TCP.",
    flags: flags! {
        _ "influx" _ "print lines for InfluxDB, as zpool_influxdb does";
        's' "sum-histogram-buckets" _ "--influx: each bucket counts the smaller ones, too";
        _ "no-histogram" _ "--influx: leave histograms out";
        't' "tags" "KEY=VALUE[,…]" "--influx: add these tags to each line";
        _ "names" _ "print a table of our names: kind, labels, meaning";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.has("names") {
        arguments.only(&["names"])?;
        context.print(&table());
        return Ok(0);
    }
    if !arguments.has("influx") {
        arguments.only(&[])?;
    }
    let pools: Vec<String> = arguments
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let sources = Sources::ask(context).or_else(|error| failed(error.to_string()))?;
    if !arguments.has("influx") {
        context.print(&page::all(&sources));
        return Ok(0);
    }
    let known = sources.figures.pools();
    if let Some(unknown) = pools.iter().find(|pool| !known.contains(pool)) {
        return failed(format!(
            "cannot open '{unknown}': no such pool. 'zpool list' shows the imported pools"
        ));
    }
    let form = influx::Form {
        tags: arguments
            .last("tags")
            .map(|tags| tags.to_string_lossy().into_owned()),
        sums_buckets: arguments.has("sum-histogram-buckets"),
        has_histograms: !arguments.has("no-histogram"),
    };
    let request = Request::PoolStatus {
        pools,
        errors: false,
        dedup: false,
    };
    let answer = context
        .ask(request)
        .or_else(|error| failed(error.to_string()))?;
    let Response::Statuses { pools, .. } = answer else {
        return failed(mismatch().to_string());
    };
    for pool in pools {
        context.print(&influx::lines(&sources.figures, &pool, &form));
    }
    Ok(0)
}

/// All measurements as a Markdown table, for `docs/operations/monitoring.md`.
fn table() -> String {
    let mut text = String::from("| name | kind | labels | meaning |\n| --- | --- | --- | --- |\n");
    for measure in MEASURES.iter().chain(&page::MEASURES) {
        let labels = measure.labels.join(", ");
        text.push_str(&format!(
            "| `{}` | {} | {labels} | {} |\n",
            measure.name,
            measure.kind.word(),
            measure.help
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page is generated from the code: `cenote metrics --names` prints its table.
    #[test]
    fn the_documentation_has_the_table_of_the_code() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/operations/monitoring.md"
        );
        let page = std::fs::read_to_string(path).expect("the page");
        assert!(
            page.contains(&table()),
            "replace the table by what 'cenote metrics --names' prints"
        );
    }
}
