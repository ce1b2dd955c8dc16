//! A browser without a window: Chromium, driven through chromedriver by the WebDriver protocol.
//!
//! The protocol is JSON in HTTP requests, one after the other. Sizes below those of a window, and
//! the user's preference for dark pages, are set by commands of Chromium's own.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long chromedriver may take to listen, and Chromium to answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of an answer: the largest are pictures.
const ANSWER_MAX: u64 = 64 << 20;

/// A browser; it ends with this.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one; `None` if there is no chromedriver on this machine.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(port: u16) -> Result<Option<Self>> {
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let driver = match driver {
            Ok(driver) => driver,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("chromedriver"),
        };
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(start.elapsed() < TIMEOUT, "chromedriver does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-proxy-server",
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.call("POST", "/session", &capabilities)?;
        let id = session["sessionId"].as_str().context("a session")?;
        browser.session = id.to_owned();
        Ok(Some(browser))
    }

    /// A request to the driver; the value that it answers with.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = match method {
            "POST" => body.to_string(),
            _ => String::new(),
        };
        let answer = answer(self.port, method, path, &body)?;
        let mut value: Value = serde_json::from_str(&answer).with_context(|| answer.clone())?;
        let value = value["value"].take();
        if let Some(error) = value["error"].as_str() {
            bail!("{method} {path}: {error}: {}", value["message"]);
        }
        Ok(value)
    }

    fn command(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    /// A command of Chromium's own.
    fn own(&self, name: &str, parameters: &Value) -> Result<Value> {
        self.command(
            "goog/cdp/execute",
            &json!({"cmd": name, "params": parameters}),
        )
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// If there is no page.
    pub fn go(&self, url: &str) -> Result<()> {
        self.command("url", &json!({ "url": url })).map(drop)
    }

    /// Shows pages this large, dark or light.
    ///
    /// # Errors
    /// If the browser cannot.
    pub fn show(&self, (width, height): (u32, u32), is_dark: bool) -> Result<()> {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false
        });
        self.own("Emulation.setDeviceMetricsOverride", &metrics)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.own("Emulation.setEmulatedMedia", &media).map(drop)
    }

    /// Runs the body of a function in the page: what it returns.
    ///
    /// # Errors
    /// If it throws.
    pub fn run(&self, script: &str) -> Result<Value> {
        let body = json!({"script": script, "args": []});
        self.command("execute/sync", &body)
    }

    /// Presses the tabulator.
    ///
    /// # Errors
    /// If the browser cannot.
    pub fn press_tab(&self) -> Result<()> {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({"type": kind, "key": "Tab", "code": "Tab",
                "windowsVirtualKeyCode": 9});
            self.own("Input.dispatchKeyEvent", &key)?;
        }
        Ok(())
    }

    /// What is seen, as PNG.
    ///
    /// # Errors
    /// If there is no screenshot.
    pub fn picture(&self) -> Result<Vec<u8>> {
        let path = format!("/session/{}/screenshot", self.session);
        let value = self.call("GET", &path, &json!({}))?;
        from_base64(value.as_str().context("a picture")?)
    }

    /// The browser's error messages since the last call.
    ///
    /// # Errors
    /// If it does not say.
    pub fn complaints(&self) -> Result<Vec<String>> {
        let entries = self.command("se/log", &json!({"type": "browser"}))?;
        let entries = entries.as_array().context("a list")?;
        // Hints of its developer tools have other levels.
        let is_bad = |entry: &&Value| {
            let level = entry["level"].as_str();
            matches!(level, Some("SEVERE" | "WARNING"))
        };
        let bad = entries.iter().filter(is_bad);
        let texts = bad.map(|entry| entry["message"].to_string());
        Ok(texts.collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            let _ = self.call("DELETE", &path, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The body of the answer to a request, on a connection of its own.
fn answer(port: u16, method: &str, path: &str, body: &str) -> Result<String> {
    let mut line = TcpStream::connect(("127.0.0.1", port))?;
    line.set_read_timeout(Some(TIMEOUT))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    line.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(line.take(ANSWER_MAX));
    let mut length = None;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = Some(value.trim().parse()?);
        }
    }
    let length: u64 = length.context("an answer with a length")?;
    let mut answer = String::new();
    let read = reader.take(length).read_to_string(&mut answer)? as u64;
    ensure!(read == length, "the answer to {path} is cut off");
    Ok(answer)
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => bail!("{other} is no digit of base 64"),
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_read() {
        assert_eq!(from_base64("Q2Vub3Rl").expect("digits"), b"Cenote");
        assert_eq!(from_base64("/+8=").expect("digits"), [0xff, 0xef]);
        assert!(from_base64("a b").is_err());
    }
}
