//! Sources of key material: the terminal, standard input, a file or a web server.

use std::io::{BufRead, IsTerminal, Read};
use std::path::Path;

use cenote_control::model::Secret;
use zeroize::Zeroizing;

use super::key_server;
use super::select::reason;
use cenote_words::{key_file, secrecy};

/// The longest passphrase, as in OpenZFS.
const PASSPHRASE_MAX: usize = 512;
/// The length of a raw key.
const RAW_KEY_SIZE: usize = 32;

/// Reads the key of `dataset` from `location`.
///
/// Formats: `passphrase` and `hex` are one line, `raw` 32 bytes. Errors are whole sentences.
pub fn read(dataset: &str, format: &str, location: &str) -> Result<Secret, String> {
    if let Some(path) = location.strip_prefix("file://") {
        return read_file(path, format);
    }
    secrecy::keep_out_of_dumps();
    if key_server::is_address(location) {
        let trust = key_server::trust();
        let key = key_server::fetch(location, &trust, PASSPHRASE_MAX + 2)?;
        return check(without_newline(key, format), format);
    }
    if location != "prompt" {
        return Err(format!("'{location}' is no location of a key."));
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return prompt(dataset, format);
    }
    if format == "raw" {
        let mut key = Zeroizing::new(Vec::with_capacity(RAW_KEY_SIZE));
        let limit = u64::try_from(RAW_KEY_SIZE).expect("32 fits");
        let read = stdin.lock().take(limit).read_to_end(&mut key);
        read.map_err(|error| format!("Failed to read key: {}", reason(&error)))?;
        return check(key, format);
    }
    let mut line = Zeroizing::new(Vec::with_capacity(PASSPHRASE_MAX + 2));
    let limit = u64::try_from(PASSPHRASE_MAX + 2).expect("fits");
    let read = stdin.lock().take(limit).read_until(b'\n', &mut line);
    read.map_err(|error| format!("Failed to read key: {}", reason(&error)))?;
    check(without_newline(line, format), format)
}

/// Reads a new key: on the terminal, the user types it twice.
pub fn read_new(dataset: &str, format: &str, location: &str) -> Result<Secret, String> {
    if !can_ask_again(location) {
        return read(dataset, format, location);
    }
    let what = if format == "hex" {
        "hex key"
    } else {
        "passphrase"
    };
    let first = ask(&format!("Enter new {what} for '{dataset}': "), format)?;
    let second = ask(&format!("Re-enter new {what} for '{dataset}': "), format)?;
    match first == second {
        true => Ok(first),
        false => Err("Provided keys do not match.".to_owned()),
    }
}

/// Whether to ask again after a wrong key.
pub fn can_ask_again(location: &str) -> bool {
    location == "prompt" && std::io::stdin().is_terminal()
}

fn read_file(path: &str, format: &str) -> Result<Secret, String> {
    secrecy::keep_out_of_dumps();
    let failed = |error| format!("Failed to open key material file: {}", reason(&error));
    let bytes = key_file::read(Path::new(path), PASSPHRASE_MAX + 2).map_err(failed)?;
    check(without_newline(bytes, format), format)
}

/// Passphrases and hex digits are one line; raw keys are any bytes.
fn without_newline(mut bytes: Zeroizing<Vec<u8>>, format: &str) -> Zeroizing<Vec<u8>> {
    if format != "raw"
        && let Some(end) = bytes.iter().position(|byte| *byte == b'\n')
    {
        bytes.truncate(end);
    }
    bytes
}

/// Refuses keys of an invalid format before the daemon spends a second deriving one.
fn check(bytes: Zeroizing<Vec<u8>>, format: &str) -> Result<Secret, String> {
    let length = bytes.len();
    let fault = match format {
        "raw" if length < RAW_KEY_SIZE => Some("Raw key too short (expected 32)."),
        "raw" if length > RAW_KEY_SIZE => Some("Raw key too long (expected 32)."),
        "hex" if length < 2 * RAW_KEY_SIZE => Some("Hex key too short (expected 64)."),
        "hex" if length > 2 * RAW_KEY_SIZE => Some("Hex key too long (expected 64)."),
        "hex" if !bytes.iter().all(u8::is_ascii_hexdigit) => {
            Some("Invalid hex character detected.")
        }
        "passphrase" if length > PASSPHRASE_MAX => Some("Passphrase too long (max 512)."),
        "passphrase" if length < 8 => Some("Passphrase too short (min 8)."),
        _ => None,
    };
    match fault {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(Secret::new(bytes.to_vec())),
    }
}

/// Asks on the terminal without echo.
fn prompt(dataset: &str, format: &str) -> Result<Secret, String> {
    let what = match format {
        "hex" => "hex key",
        "raw" => "raw key",
        _ => "passphrase",
    };
    ask(&format!("Enter {what} for '{dataset}': "), format)
}

fn ask(question: &str, format: &str) -> Result<Secret, String> {
    let line = cenote_words::prompt::ask(question, PASSPHRASE_MAX + 2);
    let line = line.map_err(|error| format!("Failed to read key: {}", reason(&error)))?;
    check(line, format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn from_file(content: &[u8], format: &str) -> Result<Secret, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(content).expect("a write");
        let location = format!("file://{}", file.path().display());
        read("tank", format, &location)
    }

    #[test]
    fn keys_in_files_lose_their_newline() {
        let secret = from_file(b"correct horse\n", "passphrase").expect("a key");
        assert_eq!(secret.expose(), b"correct horse");
        let raw = [b'\n'; 32];
        assert_eq!(from_file(&raw, "raw").expect("a key").expose(), raw);
    }

    #[test]
    fn impossible_keys_are_refused() {
        let text = |content: &[u8], format| from_file(content, format).expect_err("refused");
        assert_eq!(
            text(b"short\n", "passphrase"),
            "Passphrase too short (min 8)."
        );
        assert_eq!(text(b"abc", "raw"), "Raw key too short (expected 32).");
        assert_eq!(text(&[b'g'; 64], "hex"), "Invalid hex character detected.");
        assert_eq!(text(&[b'a'; 65], "hex"), "Hex key too long (expected 64).");
        let missing = read("tank", "raw", "file:///no/such/key").expect_err("refused");
        assert_eq!(
            missing,
            "Failed to open key material file: No such file or directory"
        );
    }
}
