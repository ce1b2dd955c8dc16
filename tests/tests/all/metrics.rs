//! The daemon's metrics: Prometheus' check of the text, the endpoint and abusive clients, the
//! commands that show the same figures, the dashboard, and the one for Grafana.

use anyhow::{Context, Result, ensure};
use cenote_tests::program::{Limits, free_port, run};
use cenote_tests::site::Site;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The answer to bytes that are sent to the endpoint; empty if it hangs up.
fn talk(mut stream: impl Read + Write, request: &[u8], close: impl Fn()) -> Result<String> {
    // It may hang up before it has read everything.
    let _ = stream.write_all(request);
    close();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Ok(String::from_utf8(answer)?)
}

fn socket(site: &Site) -> PathBuf {
    let mut path = site.cenote().socket().into_os_string();
    path.push(".metrics");
    path.into()
}

fn unix(site: &Site, request: &str) -> Result<String> {
    let stream = UnixStream::connect(socket(site))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let other = stream.try_clone()?;
    talk(stream, request.as_bytes(), || {
        let _ = other.shutdown(Shutdown::Write);
    })
}

/// What opens the dashboard's actions.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The series of a text: their values by name and labels.
fn series(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

fn sum(series: &BTreeMap<&str, f64>, name: &str, labels: &[&str]) -> f64 {
    let is_wanted = |key: &str| {
        let rest = key.strip_prefix(name);
        let is_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        is_it && labels.iter().all(|label| key.contains(label))
    };
    let found = series.iter().filter(|(key, _)| is_wanted(key));
    found.map(|(_, value)| value).sum()
}

/// A pool with a file that was written and read, and a daemon that listens on this port.
fn site(port: u16) -> Result<Site> {
    let site = Site::create("mirror", 128, "-O compression=off")?;
    site.show_dashboard(port, TOKEN)?;
    let file = site.path("tank").join("file");
    fs::write(&file, vec![7; 3 << 20])?;
    fs::File::open(&file)?.sync_all()?;
    ensure!(fs::read(&file)?.len() == 3 << 20);
    Ok(site)
}

/// Names that dashboards ask for: pdf/zfs_exporter's, node_exporter's, ours.
const ASKED_FOR: &[&str] = &[
    "zfs_pool_allocated_bytes",
    "zfs_pool_free_bytes",
    "zfs_pool_size_bytes",
    "zfs_pool_fragmentation_ratio",
    "zfs_pool_health",
    "zfs_pool_freeing_bytes",
    "zfs_pool_leaked_bytes",
    "zfs_pool_readonly",
    "zfs_pool_deduplication_ratio",
    "zfs_pool_scrub_state",
    "zfs_pool_scrub_errors",
    "zfs_pool_scrub_last_completed_timestamp_seconds",
    "zfs_dataset_used_bytes",
    "zfs_dataset_available_bytes",
    "zfs_dataset_referenced_bytes",
    "zfs_dataset_written_bytes",
    "zfs_dataset_logical_used_bytes",
    "zfs_dataset_quota_bytes",
    "zfs_dataset_used_by_dataset_bytes",
    "node_zfs_arc_hits",
    "node_zfs_arc_misses",
    "node_zfs_arc_size",
    "node_zfs_arc_c",
    "node_zfs_arc_c_max",
    "node_zfs_arc_data_size",
    "node_zfs_arc_metadata_size",
    "node_zfs_arc_demand_data_hits",
    "node_zfs_arc_demand_metadata_misses",
    "node_zfs_arc_prefetch_data_hits",
    "node_zfs_arc_mfu_hits",
    "node_zfs_arc_mru_ghost_hits",
    "node_zfs_arc_l2_hits",
    "node_zfs_zfetch_hits",
    "node_zfs_zil_zil_commit_count",
    "node_zfs_dmu_tx_dmu_tx_assigned",
    "node_zfs_zpool_state",
    "node_zfs_zpool_dataset_reads",
    "node_zfs_zpool_dataset_nread",
    "node_zfs_zpool_dataset_writes",
    "node_zfs_zpool_dataset_nwritten",
    "cenote_vdev_request_seconds_bucket",
    "cenote_mount_request_seconds_count",
    "cenote_dataset_cache_bytes",
    "process_resident_memory_bytes",
];

/// `promtool check metrics` accepts the text of the command.
fn judge_text(site: &Site) -> Result<()> {
    let text = site.ok("cenote metrics")?;
    let found = series(&text);
    for name in ASKED_FOR {
        let is_there = found.keys().any(|key| key.split('{').next() == Some(name));
        ensure!(is_there, "no series of {name}");
    }
    ensure!(sum(&found, "cenote_mount_written_bytes_total", &["tank"]) >= f64::from(3 << 20));
    ensure!(sum(&found, "cenote_mount_request_seconds_count", &["\"write\""]) > 0.0);
    ensure!(sum(&found, "zfs_pool_health", &["tank"]) == 0.0);
    let command = Command::new("promtool");
    let mut command = site.cenote().in_environment(command);
    command.args(["check", "metrics"]);
    match run(command, text.as_bytes(), Limits::default()) {
        Ok(outcome) => {
            outcome.success()?;
        }
        Err(error) => cenote_tests::skip!("promtool: {error}"),
    }
    Ok(())
}

/// Reads of a file that is in memory are hits of the cache, and no reads of devices: graphs of
/// others counted them as such.
fn judge_cache(site: &Site) -> Result<()> {
    let look = || -> Result<[f64; 2]> {
        let text = site.ok("cenote metrics")?;
        let found = series(&text);
        Ok([
            sum(&found, "cenote_pool_blocks_read_total", &["tank"]),
            sum(
                &found,
                "cenote_arc_lookups_total",
                &["\"demand\"", "\"hit\""],
            ),
        ])
    };
    let before = look()?;
    site.ok("zfs unmount tank")?;
    site.ok("zfs mount tank")?;
    ensure!(fs::read(site.path("tank").join("file"))?.len() == 3 << 20);
    let after = look()?;
    ensure!(after[1] > before[1], "hits: {before:?}, {after:?}");
    Ok(())
}

/// The figures of the cache said which pool went without it, and not which dataset. Each has its
/// own: what one reads is not counted for another, and what was destroyed is not shown.
fn judge_datasets(site: &Site) -> Result<()> {
    const LOOKUPS: &str = "cenote_dataset_cache_lookups_total";
    let look = |name: &str, labels: &[&str]| -> Result<f64> {
        let text = site.ok("cenote metrics")?;
        Ok(sum(&series(&text), name, labels))
    };
    let (tank, other) = ("dataset=\"tank\"", "dataset=\"tank/other\"");
    let snapshot = "dataset=\"tank@before\",type=\"snapshot\"";
    let data = ["for=\"demand\"", "kind=\"data\""];
    site.ok("zfs create tank/other")?;
    site.ok("zfs snapshot tank@before")?;
    fs::write(site.path("tank/other").join("file"), vec![8; 1 << 20])?;
    let of_other = look(LOOKUPS, &[other, data[0], data[1]])?;
    let of_tank = look(LOOKUPS, &[tank, data[0], data[1]])?;
    ensure!(look(LOOKUPS, &[snapshot])? == 0.0, "it was not read");
    site.ok("zfs unmount tank/other")?;
    site.ok("zfs unmount tank")?;
    site.ok("zfs mount -a")?;
    ensure!(fs::read(site.path("tank").join("file"))?.len() == 3 << 20);
    let blocks = f64::from((3 << 20) / (128 << 10));
    let grown = look(LOOKUPS, &[tank, data[0], data[1]])? - of_tank;
    ensure!(grown >= blocks, "{grown} lookups of {blocks} blocks");
    ensure!(look(LOOKUPS, &[other, data[0], data[1]])? == of_other);
    let cached = look("cenote_dataset_cache_bytes", &[tank, data[1]])?;
    ensure!(cached >= f64::from(3 << 20), "{cached}");
    let file = site.path("tank").join(".zfs/snapshot/before/file");
    ensure!(fs::read(file)?.len() == 3 << 20);
    ensure!(look(LOOKUPS, &[snapshot, data[0], data[1]])? >= blocks);
    site.ok("zfs destroy tank/other")?;
    ensure!(!site.ok("cenote metrics")?.contains(other), "it is no more");
    Ok(())
}

/// Commands that show the same figures.
fn judge_commands(site: &Site) -> Result<()> {
    let table = site.ok("zpool iostat -lqHp tank")?;
    let cells: Vec<&str> = table.trim_end().split('\t').collect();
    ensure!(cells.len() == 1 + 6 + 11 + 14, "{table}");
    ensure!(cells[9].parse::<u64>()? > 0, "writes took no time: {table}");
    let histogram = site.ok("zpool iostat -w tank")?;
    ensure!(histogram.lines().count() == 2 + 1 + 37 + 1, "{histogram}");
    let sizes = site.ok("zpool iostat -rHp tank")?;
    let rows = sizes.lines().map(|line| line.split('\t').skip(1));
    let requests: u64 = rows
        .flatten()
        .filter_map(|cell| cell.parse::<u64>().ok())
        .sum();
    ensure!(requests > 0, "{sizes}");
    let leaf = site.devices().join("d0.img");
    let leaf = site.ok(&format!("zpool iostat -H tank {}", leaf.display()))?;
    ensure!(
        leaf.lines().count() == 1 && leaf.contains("d0.img\t"),
        "{leaf}"
    );
    site.fails("zpool iostat -lw tank")?;
    site.fails("zpool iostat tank nothing")?;
    let columns = site.ok("cenote arcstat -p -f read,hits,size")?;
    let values: Vec<&str> = columns
        .lines()
        .nth(1)
        .context("a line")?
        .split_whitespace()
        .collect();
    ensure!(
        values.len() == 3 && values[2].parse::<u64>()? > 0,
        "{columns}"
    );
    let report = site.ok("cenote arc-summary -s arc")?;
    ensure!(report.starts_with("ARC size:"), "{report}");
    let influx = site.ok("cenote metrics --influx tank")?;
    ensure!(
        influx.starts_with("zpool_stats,name=tank,state=ONLINE"),
        "{influx}"
    );
    let directory = site.cenote().subdirectory("kstat")?;
    site.ok(&format!("cenote kstat export {}", directory.display()))?;
    let arcstats = fs::read_to_string(directory.join("arcstats"))?;
    ensure!(
        arcstats
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("name ")),
        "{arcstats}"
    );
    ensure!(fs::read_to_string(directory.join("tank/state"))? == "ONLINE\n");
    let txgs = fs::read_to_string(directory.join("tank/txgs"))?;
    ensure!(txgs.lines().count() > 3, "{txgs}");
    Ok(())
}

/// `cenote top` as text and as JSON.
fn judge_top(site: &Site) -> Result<()> {
    let text = site.ok("cenote top -b 1 -i 0.25")?;
    for word in ["POOL", "mirror-0", "d0.img", "tank", "mount"] {
        ensure!(text.contains(word), "no {word}: {text}");
    }
    let lines = site.ok("cenote top -j -b 2 -i 0.25 -s bytes tank")?;
    ensure!(lines.lines().count() == 2, "{lines}");
    for line in lines.lines() {
        let round: serde_json::Value = serde_json::from_str(line)?;
        ensure!(round["pools"][0]["health"] == "ONLINE", "{line}");
        ensure!(round["pools"][0]["reads"].is_u64(), "{line}");
    }
    site.fails("cenote top -b 1 nothing")?;
    // Without a terminal there is nothing to draw on.
    site.fails("cenote top")?;
    Ok(())
}

/// A request to the dashboard by its port, and the answer.
fn browse(port: u16, method: &str, path: &str, cookie: &str, body: &str) -> Result<String> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookie}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    talk(stream, request.as_bytes(), || {})
}

/// The pages, a login, and a scrub that is started by a button.
fn judge_dashboard(site: &Site, port: u16) -> Result<()> {
    let overview = browse(port, "GET", "/", "", "")?;
    ensure!(overview.starts_with("HTTP/1.1 200 OK"), "{overview}");
    ensure!(overview.contains("href=\"/pool/tank\""), "{overview}");
    for path in ["/pool/tank", "/pool/tank/datasets", "/caches", "/clients"] {
        let page = browse(port, "GET", path, "", "")?;
        ensure!(page.starts_with("HTTP/1.1 200 OK"), "{path}: {page}");
        ensure!(!page.contains("<form"), "{path}: {page}");
    }
    let history = browse(port, "GET", "/pool/tank/history", "", "")?;
    ensure!(history.starts_with("HTTP/1.1 403"), "{history}");
    // By the unix socket comes the daemon's own user.
    let history = unix(
        site,
        "GET /pool/tank/history HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )?;
    ensure!(history.contains("zpool create"), "{history}");
    let login = browse(port, "POST", "/login", "", &format!("token={TOKEN}"))?;
    let cookie = login
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next());
    let cookie = cookie.with_context(|| login.clone())?;
    let page = browse(port, "GET", "/pool/tank", cookie, "")?;
    let form = page
        .split_once("name=\"form\" value=\"")
        .context("a form")?;
    let form = form.1.split('"').next().context("its secret")?;
    let refused = browse(port, "POST", "/action", cookie, "pool=tank&action=scrub")?;
    ensure!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let body = format!("form={form}&pool=tank&action=scrub");
    let done = browse(port, "POST", "/action", cookie, &body)?;
    ensure!(done.starts_with("HTTP/1.1 303"), "{done}");
    site.ok("zpool wait -t scrub tank")?;
    ensure!(site.ok("zpool status tank")?.contains("scrub repaired"));
    ensure!(site.ok("zpool history tank")?.contains("zpool scrub tank"));
    Ok(())
}

/// The dashboard's port is closed and opened while the daemon runs.
fn judge_switch(site: &Site, port: u16) -> Result<()> {
    let url = format!("http://127.0.0.1:{port}/");
    let both = site.ok("cenote daemon dashboard")?;
    ensure!(both.contains(".metrics") && both.contains(&url), "{both}");
    let refused = site.fails("cenote daemon dashboard 127.0.0.1:0")?.report();
    ensure!(refused.contains("dashboard off"), "{refused}");
    let socket = site.ok("cenote daemon dashboard off")?;
    ensure!(
        socket.contains(".metrics") && !socket.contains("http:"),
        "{socket}"
    );
    ensure!(browse(port, "GET", "/", "", "").is_err(), "it is closed");
    let again = site.ok(&format!("cenote daemon dashboard 127.0.0.1:{port}"))?;
    ensure!(again.contains(&url), "{again}");
    // The history is that of before.
    let overview = browse(port, "GET", "/", "", "")?;
    ensure!(overview.starts_with("HTTP/1.1 200 OK"), "{overview}");
    Ok(())
}

/// The metrics that a query of Grafana names, each with its labels.
fn named(query: &str) -> Vec<(String, Vec<String>)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..]
            .find(|c| !is_word(c))
            .map_or(rest.len(), |end| start + end);
        let (word, behind) = (&rest[start..end], &rest[end..]);
        rest = behind;
        if !word.starts_with("cenote_") && !word.starts_with("process_") {
            continue;
        }
        let braces = behind
            .strip_prefix('{')
            .and_then(|inner| inner.split('}').next());
        let labels = braces.unwrap_or_default().split(',');
        let labels = labels.filter_map(|pair| pair.split(['=', '!']).next());
        let labels = labels.filter(|label| !label.is_empty()).map(str::to_owned);
        found.push((word.to_owned(), labels.collect()));
    }
    found
}

/// What a query groups by.
fn grouped(query: &str) -> Vec<&str> {
    let groups = query.split("by (").skip(1);
    let labels = groups.filter_map(|group| group.split(')').next());
    labels.flat_map(|labels| labels.split(", ")).collect()
}

/// Every query of the dashboard for Grafana is one, and finds names and labels that there are.
fn judge_grafana(site: &Site) -> Result<()> {
    let file = cenote_tests::golden::workspace_root().join("contrib/grafana/cenote.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .filter_map(|target| target["expr"].as_str());
    let queries: Vec<&str> = queries.collect();
    ensure!(queries.len() > 30, "{queries:?}");
    let text = site.ok("cenote metrics")?;
    let found = series(&text);
    let table = site.ok("cenote metrics --names")?;
    let mut rules = String::from("groups:\n- name: grafana\n  rules:\n");
    for (number, query) in queries.iter().enumerate() {
        let plain = query
            .replace("$__rate_interval", "5m")
            .replace("$pool", ".*");
        rules.push_str(&format!(
            "  - record: query_{number}\n    expr: '{plain}'\n"
        ));
        for (name, mut labels) in named(query) {
            let ends = ["_bucket", "_sum", "_count"];
            let base = ends
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(&name);
            labels.extend(
                grouped(query)
                    .into_iter()
                    .filter(|l| *l != "le")
                    .map(str::to_owned),
            );
            let row = table
                .lines()
                .find(|line| line.starts_with(&format!("| `{base}` |")));
            let row = row.with_context(|| format!("{query}: there is no {name}"))?;
            for label in &labels {
                let mut known = row.split('|').nth(3).context("labels")?.split(',');
                ensure!(
                    known.any(|known| known.trim() == label),
                    "{query}: no label {label}"
                );
            }
            // Of what this pool does not have there is no series.
            let is_absent = ["cenote_store_", "cenote_nbd_", "cenote_http_"]
                .iter()
                .any(|w| name.starts_with(w));
            let is_there = found.keys().any(|key| key.split('{').next() == Some(&name));
            ensure!(is_there || is_absent, "{query}: no series of {name}");
        }
    }
    let file = site.cenote().subdirectory("rules")?.join("grafana.yml");
    fs::write(&file, rules)?;
    let mut command = site.cenote().in_environment(Command::new("promtool"));
    command.args(["check", "rules"]).arg(&file);
    match run(command, &[], Limits::default()) {
        Ok(outcome) => {
            outcome.success()?;
        }
        Err(error) => cenote_tests::skip!("promtool: {error}"),
    }
    Ok(())
}

/// Slow, endless and strange clients are refused, and others are served meanwhile.
fn judge_strangers(site: &Site, port: u16) -> Result<()> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let idle: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(("127.0.0.1", port)))
        .collect::<Result<_, _>>()?;
    // Clients of the socket have the rights of the daemon's user in the dashboard.
    let mode = fs::metadata(socket(site))?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let answer = unix(site, &get("/metrics"))?;
    ensure!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    ensure!(
        answer.contains("cenote_pool_info{pool=\"tank\""),
        "{answer}"
    );
    for (request, status) in [
        (get("/../etc/passwd"), "400"),
        (get("/etc/passwd"), "404"),
        (get("/metrics").replace("GET", "PUT"), "405"),
        (get("/metrics").replace("GET", "POST"), "403"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (
            format!("GET / HTTP/1.1\r\nX: {}\r\n", "y".repeat(64 << 10)),
            "431",
        ),
        (
            "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n".to_owned(),
            "413",
        ),
    ] {
        let answer = unix(site, &request)?;
        // A client that sends more than is read may be hung up on before it sees the answer.
        let is_refused = answer.starts_with(&format!("HTTP/1.1 {status}")) || answer.is_empty();
        ensure!(is_refused, "{status}: {answer}");
    }
    ensure!(unix(site, "GET /metr")?.is_empty(), "half a request");
    drop(idle);
    Ok(())
}

/// A real Prometheus finds the pool.
fn judge_scrape(site: &Site, port: u16) -> Result<()> {
    let directory = site.cenote().subdirectory("prometheus")?;
    let configuration = directory.join("prometheus.yml");
    fs::write(
        &configuration,
        format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\nscrape_configs:\n\
             - {{job_name: cenote, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
        ),
    )?;
    let own = free_port()?;
    let command = Command::new("prometheus");
    let mut command = site.cenote().in_environment(command);
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            directory.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{own}"))
        .arg("--log.level=error");
    let Ok(mut server) = command.spawn() else {
        cenote_tests::skip!("prometheus is not installed");
        return Ok(());
    };
    let end = Instant::now() + Duration::from_secs(60);
    let asked = "GET /api/v1/query?query=zfs_pool_size_bytes HTTP/1.0\r\n\r\n";
    let found = loop {
        let answer = TcpStream::connect(("127.0.0.1", own)).map_err(Into::into);
        let answer = answer.and_then(|stream| talk(stream, asked.as_bytes(), || {}));
        let answer = answer.unwrap_or_default();
        if answer.contains("\"pool\":\"tank\"") || Instant::now() > end {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    server.kill()?;
    server.wait()?;
    ensure!(found.contains("\"pool\":\"tank\""), "{found}");
    Ok(())
}

#[test]
fn figures_are_served_to_prometheus_and_shown_by_commands() -> Result<()> {
    let port = free_port()?;
    let site = site(port)?;
    judge_text(&site)?;
    judge_cache(&site)?;
    judge_datasets(&site)?;
    judge_commands(&site)?;
    judge_top(&site)?;
    judge_switch(&site, port)?;
    judge_dashboard(&site, port)?;
    judge_grafana(&site)?;
    judge_strangers(&site, port)?;
    judge_scrape(&site, port)?;
    site.finish()
}
