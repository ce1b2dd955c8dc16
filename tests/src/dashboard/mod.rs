//! The dashboard in a real browser.
//!
//! A pool with datasets and a scrub is served, and Chromium goes through all pages by clicking:
//! on a telephone's screen and a large one, light and dark. It must not have to scroll sideways,
//! complain (of a script or style that the policy forbids, of a file that is not there), or show
//! text with too little contrast; every link must lead somewhere. Then it logs in and starts a
//! scrub, by the form that a person would use.

mod browser;

use crate::program::free_port;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use browser::Browser;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Width, height, and the word for file names.
const SCREENS: [(u32, u32, &str); 2] = [(390, 844, "small"), (1400, 900, "large")];
/// Pages of which pictures are taken, with their words for file names.
const PICTURED: [(&str, &str); 3] = [
    ("/", "overview"),
    ("/pool/tank", "pool"),
    ("/pool/tank/datasets", "datasets"),
];

/// Texts with less contrast than WCAG's AA asks for: what they say, and the relation.
const CONTRASTS: &str = r#"
const parts = (text) => text.match(/[\d.]+/g).map(Number);
const luminance = ([red, green, blue]) => {
  const part = (value) => {
    value /= 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const bad = [];
for (const element of document.querySelectorAll("body *")) {
  const own = Array.from(element.childNodes).filter((node) => node.nodeType === 3);
  const text = own.map((node) => node.textContent).join("").trim();
  if (!text || element.closest("svg") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const [one, other] = [luminance(parts(style.color)), luminance(behind(element))];
  const relation = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (relation < 4.5) bad.push(text.slice(0, 40) + ": " + relation.toFixed(2));
}
return bad;
"#;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where pictures go; none are taken without it.
    pub pictures: Option<PathBuf>,
}

/// Goes through the dashboard. Whether there was a browser.
///
/// # Errors
/// What is wrong with a page.
pub fn run(options: &Options) -> Result<bool> {
    let port = free_port()?;
    let Some(browser) = Browser::start(free_port()?)? else {
        return Ok(false);
    };
    let site = site(port)?;
    let url = format!("http://localhost:{port}");
    wait_for_figures(&browser, &url)?;
    for (width, height, size) in SCREENS {
        for (is_dark, scheme) in [(false, "light"), (true, "dark")] {
            browser.show((width, height), is_dark)?;
            let count = click_through(&browser, &url, width)?;
            println!("{count} pages at {width} pixels, {scheme}");
            if let Some(directory) = &options.pictures {
                take_pictures(&browser, &url, directory, &format!("{size}-{scheme}"))?;
            }
        }
    }
    by_keyboard(&browser, &url)?;
    by_pointer(&browser, &url)?;
    act(&browser, &url, &site)?;
    site.finish()?;
    Ok(true)
}

/// A pool with a few datasets of different sizes, a log of commands, and a daemon on this port.
fn site(port: u16) -> Result<Site> {
    let site = Site::create("mirror", 512, "-O compression=off")?;
    site.show_dashboard(port, TOKEN)?;
    for (name, mebibytes) in [("home", 90), ("mail", 40), ("www", 24), ("backup", 60)] {
        site.ok(&format!("zfs create tank/{name}"))?;
        let file = site.path(&format!("tank/{name}")).join("data");
        fs::write(&file, vec![7; mebibytes << 20])?;
    }
    site.ok("zfs snapshot tank/mail@monday")?;
    fs::write(site.path("tank/mail").join("data"), vec![8; 30 << 20])?;
    site.ok("zfs create -V 32M tank/disk")?;
    site.ok("zfs set quota=200M tank/home")?;
    site.ok("zpool scrub tank")?;
    site.ok("zpool wait -t scrub tank")?;
    Ok(site)
}

/// The history has its first steps after twenty seconds.
fn wait_for_figures(browser: &Browser, url: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        browser.go(&format!("{url}/pool/tank"))?;
        let count = browser.run("return document.querySelectorAll('path.first').length")?;
        if count.as_u64() >= Some(3) {
            return Ok(());
        }
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "no graph appears"
        );
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Follows every link of every page by clicking it; how many pages there are.
fn click_through(browser: &Browser, url: &str, width: u32) -> Result<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![("/".to_owned(), None::<String>)];
    while let Some((path, from)) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        match from {
            None => browser.go(&format!("{url}{path}"))?,
            Some(from) => {
                browser.go(&format!("{url}{from}"))?;
                click_link(browser, &path)?;
            }
        }
        check_page(browser, &path, width)?;
        let links = browser
            .run("return Array.from(document.querySelectorAll('a[href]'), (link) => link.href)")?;
        for link in links.as_array().context("links")? {
            let link = link.as_str().context("an address")?;
            let place = link.strip_prefix(url);
            let place = place.with_context(|| format!("{path} leads away: {link}"))?;
            let place = place.split('#').next().unwrap_or_default();
            if place != "/metrics" && !seen.contains(place) {
                open.push((place.to_owned(), Some(path.clone())));
            }
        }
    }
    Ok(seen.len())
}

fn click_link(browser: &Browser, path: &str) -> Result<()> {
    let script = format!(
        "const link = Array.from(document.querySelectorAll('a[href]')).find((link) =>
           link.href === location.origin + {path:?});
         link.click(); return true;"
    );
    browser.run(&script)?;
    let arrived = format!(
        "return location.pathname + location.search === {path:?} &&
         document.readyState === 'complete'"
    );
    let start = Instant::now();
    while browser.run(&arrived)? != true {
        ensure!(
            start.elapsed() < Duration::from_secs(30),
            "{path} does not open"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn check_page(browser: &Browser, path: &str, width: u32) -> Result<()> {
    let heading = browser.run("return document.querySelector('h1').textContent")?;
    ensure!(
        heading != "No such page" && heading != "Not allowed",
        "{path}: {heading}"
    );
    let wide = browser.run("return document.documentElement.scrollWidth")?;
    let fits = wide.as_u64().is_some_and(|wide| wide <= u64::from(width));
    ensure!(fits, "{path} is {wide} wide on a screen of {width}");
    let bad = browser.run(CONTRASTS)?;
    ensure!(bad.as_array().is_some_and(Vec::is_empty), "{path}: {bad}");
    let complaints = browser.complaints()?;
    ensure!(complaints.is_empty(), "{path}: {complaints:?}");
    Ok(())
}

fn take_pictures(browser: &Browser, url: &str, directory: &Path, kind: &str) -> Result<()> {
    fs::create_dir_all(directory)?;
    for (path, word) in PICTURED {
        browser.go(&format!("{url}{path}"))?;
        let file = directory.join(format!("dashboard-{word}-{kind}.png"));
        fs::write(&file, browser.picture()?)?;
        println!("{}", file.display());
    }
    Ok(())
}

/// The first thing that a keyboard reaches leads past the navigation.
fn by_keyboard(browser: &Browser, url: &str) -> Result<()> {
    browser.go(url)?;
    browser.press_tab()?;
    let first = browser.run("return document.activeElement.className")?;
    ensure!(first == "skip", "the first element is {first}");
    Ok(())
}

/// The figures under the pointer are shown as text, which disappears when the pointer leaves.
fn by_pointer(browser: &Browser, url: &str) -> Result<()> {
    browser.go(&format!("{url}/pool/tank"))?;
    let said = browser.run(
        "const plot = document.querySelector('.plot');
         const box = plot.querySelector('svg').getBoundingClientRect();
         const move = (target, x) => target.dispatchEvent(new PointerEvent('pointermove',
           { bubbles: true, clientX: x, clientY: box.top + 5 }));
         move(plot, box.right - 2);
         const said = plot.parentElement.querySelector('.readout').textContent;
         move(document.body, 0);
         return [said, plot.parentElement.querySelector('.readout').textContent];",
    )?;
    let text = said[0].as_str().context("a text")?;
    ensure!(text.contains("read ") || text == "no figures", "{said}");
    ensure!(said[1] == "", "{said}");
    Ok(())
}

/// Logs in and starts a scrub.
fn act(browser: &Browser, url: &str, site: &Site) -> Result<()> {
    browser.go(&format!("{url}/login"))?;
    let submit = format!(
        "document.getElementById('token').value = {TOKEN:?};
         document.querySelector('main form button').click(); return true;"
    );
    browser.run(&submit)?;
    wait_until(browser, "return location.pathname === '/'")?;
    browser.go(&format!("{url}/pool/tank"))?;
    browser.run(
        "const button = Array.from(document.querySelectorAll('button')).find((button) =>
           button.textContent === 'Start a scrub');
         button.click(); return true;",
    )?;
    let said = "const notice = document.querySelector('.notice');
                return notice !== null && notice.textContent === 'Done: zpool scrub tank'";
    wait_until(browser, said)?;
    site.ok("zpool wait -t scrub tank")?;
    ensure!(site.ok("zpool history tank")?.contains("zpool scrub tank"));
    let complaints = browser.complaints()?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    Ok(())
}

fn wait_until(browser: &Browser, script: &str) -> Result<()> {
    let start = Instant::now();
    // While a page is exchanged for another, there is none that could answer.
    while !browser.run(script).is_ok_and(|value| value == true) {
        ensure!(start.elapsed() < Duration::from_secs(30), "never: {script}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
