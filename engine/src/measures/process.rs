//! Figures of the daemon and its process.

use super::table::{
    DAEMON_INFO, DAEMON_UPTIME, MEMORY_LIMIT, MEMORY_USED, PROCESS_CPU, PROCESS_FILES,
    PROCESS_RESIDENT, PROCESS_START, PROCESS_THREADS, PROCESS_VIRTUAL,
};
use crate::context::Context;
use crate::daemon::status::About;
use crate::registry::imported::Imported;
use cenote_base::metrics::{Sample, Sink};
use std::sync::Arc;

/// Clock ticks in a second, as `/proc` counts: the same on every Linux.
const TICKS: u64 = 100;
/// The unit of sizes in `/proc/self/status`.
const KILO: u64 = 1024;

/// The daemon.
pub(super) fn daemon(
    context: &Context,
    about: &About,
    pools: &[Arc<Imported>],
    sink: &mut dyn Sink,
) {
    sink.number(&DAEMON_INFO, &[&about.version], 1);
    let uptime = context.env.monotonic().saturating_sub(about.started);
    sink.number(&DAEMON_UPTIME, &[], uptime.as_secs());
    sink.number(&MEMORY_LIMIT, &[], context.memory.limit());
    sink.number(&MEMORY_USED, &[], context.memory.used(pools));
}

/// Its process, as far as `/proc` says.
pub(super) fn process(sink: &mut dyn Sink) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    let (stat, status) = (read("self/stat"), read("self/status"));
    let figures = Figures::parse(&stat, &status, &read("stat"));
    if let Some(ticks) = figures.ticks {
        let nanoseconds = ticks.saturating_mul(1_000_000_000 / TICKS);
        sink.put(&PROCESS_CPU, &[], Sample::Billionths(nanoseconds));
    }
    for (measure, number) in [
        (&PROCESS_RESIDENT, figures.resident),
        (&PROCESS_VIRTUAL, figures.virtual_bytes),
        (&PROCESS_THREADS, figures.threads),
        (&PROCESS_START, figures.started),
    ] {
        if let Some(number) = number {
            sink.number(measure, &[], number);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One is that of the directory itself.
        let open = files.count().saturating_sub(1);
        sink.number(&PROCESS_FILES, &[], open as u64);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    ticks: Option<u64>,
    resident: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    started: Option<u64>,
}

impl Figures {
    fn parse(stat: &str, status: &str, machine: &str) -> Self {
        // The name of the program is in parentheses and may have any in it.
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let line = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name: &str| line(status, name)?.checked_mul(KILO);
        let since_boot = field(19).map(|ticks| ticks / TICKS);
        let boot = line(machine, "btime ");
        Self {
            ticks: field(11)
                .zip(field(12))
                .and_then(|(user, system)| user.checked_add(system)),
            resident: bytes("VmRSS:"),
            virtual_bytes: bytes("VmSize:"),
            threads: line(status, "Threads:"),
            started: boot
                .zip(since_boot)
                .and_then(|(boot, since)| boot.checked_add(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_understood() {
        let stat =
            "77 (a) b) S 1 77 77 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 9 0 3000 900000 55 1";
        let status = "Name:\tcenote\nVmSize:\t  2000 kB\nVmRSS:\t   300 kB\nThreads:\t9\n";
        let expected = Figures {
            ticks: Some(200),
            resident: Some(300 << 10),
            virtual_bytes: Some(2000 << 10),
            threads: Some(9),
            started: Some(1_000_030),
        };
        let machine = "cpu  1 2\nbtime 1000000\n";
        assert_eq!(Figures::parse(stat, status, machine), expected);
        assert_eq!(Figures::parse("", "", ""), Figures::default());
    }
}
