//! Memory figures of the system and the control group.

use std::fs::read_to_string;
use std::path::PathBuf;
use std::time::Duration;

use cenote_base::settings;
use cenote_engine::MemoryGauge;
use cenote_watch::memory::meminfo;

/// Memory is short if less than one part in this many is available.
const SHORT_PART: u64 = 32;

/// Pressure stall information of the process's control group, otherwise of the system.
pub struct SystemMemory {
    pressure: Option<PathBuf>,
}

impl SystemMemory {
    /// The gauge of this process.
    pub fn new() -> Self {
        let group = groups()
            .into_iter()
            .map(|group| group.join("memory.pressure"));
        let system = PathBuf::from("/proc/pressure/memory");
        let pressure = group
            .chain([system])
            .find(|path| read_to_string(path).is_ok());
        Self { pressure }
    }
}

impl MemoryGauge for SystemMemory {
    fn stalled(&self) -> Duration {
        let text = self
            .pressure
            .as_ref()
            .and_then(|path| read_to_string(path).ok());
        text.and_then(|text| stalled_in(&text)).unwrap_or_default()
    }

    fn is_short(&self) -> bool {
        let Ok(text) = read_to_string("/proc/meminfo") else {
            return false;
        };
        let total = meminfo(&text, "MemTotal:");
        let available = meminfo(&text, "MemAvailable:");
        let by_default = || total.map(|total| total / SHORT_PART);
        let wanted = settings::free_bytes_min().or_else(by_default);
        let short = wanted.zip(available);
        short.is_some_and(|(wanted, left)| left < wanted)
    }

    fn available_percent(&self) -> Option<u64> {
        let text = read_to_string("/proc/meminfo").ok()?;
        let total = meminfo(&text, "MemTotal:")?;
        let available = meminfo(&text, "MemAvailable:")?;
        available.saturating_mul(100).checked_div(total)
    }
}

/// The memory that the process may use: the machine's, or less in a control group.
pub fn memory_total() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| meminfo(&text, "MemTotal:"));
    let limits = groups().into_iter().flat_map(|group| {
        // The last name belongs to cgroup v1.
        ["memory.max", "memory.high", "memory.limit_in_bytes"].map(|name| group.join(name))
    });
    let limits = limits.filter_map(|path| read_to_string(path).ok()?.trim().parse().ok());
    machine.into_iter().chain(limits).min()
}

/// The directories of the process's control groups, the innermost first.
fn groups() -> Vec<PathBuf> {
    let text = read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_in(&text)
}

fn groups_in(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
            _ => continue,
        };
        let full = PathBuf::from(root).join(path.trim_start_matches('/'));
        let within = |group: &&std::path::Path| group.starts_with(root);
        found.extend(full.ancestors().take_while(within).map(PathBuf::from));
    }
    found
}

/// The time in which at least one task waited for memory.
fn stalled_in(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = line.split_whitespace();
    let total = fields.find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_understood() {
        let pressure = "some avg10=0.00 avg60=1.25 avg300=0.00 total=1234567\nfull avg10=0.00 \
                        avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled_in(pressure), Some(Duration::from_micros(1_234_567)));
        let memory = "MemTotal:       24605924 kB\nMemAvailable:   24051160 kB\n";
        assert_eq!(meminfo(memory, "MemAvailable:"), Some(24_051_160 << 10));
        assert_eq!(meminfo(memory, "Nothing:"), None);
    }

    #[test]
    fn limits_of_outer_groups_count_too() {
        let paths = groups_in("0::/user.slice/app\n");
        let expected = [
            "/sys/fs/cgroup/user.slice/app",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
        let old = groups_in("5:cpu:/x\n4:memory,hugetlb:/docker/1\n");
        assert_eq!(old[0], PathBuf::from("/sys/fs/cgroup/memory/docker/1"));
        assert_eq!(old.len(), 3);
        assert!(groups_in("").is_empty());
    }
}
