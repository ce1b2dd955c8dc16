//! Human-readable sizes, counts, ratios and durations.
//!
//! OpenZFS rounds sizes to at most five characters, and tools parse its output. So we follow its
//! rule to the digit. Whole multiples of a unit print as integers, everything else with as many
//! decimals (two at most) as fit.

pub use cenote_advisor::numbers::{counted, duration, nicebytes, nicenum};

/// A ratio stored in hundredths: `1.07`.
pub fn ratio(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A share of `total` in per cent with `zpool list -v`'s decimals: `0.26%`, `12.5%`, `100%`.
pub fn share(part: u64, total: u64) -> String {
    if total == 0 {
        return "0.00%".to_owned();
    }
    let percent = part as f64 * 100.0 / total as f64;
    if percent < 10.0 {
        format!("{percent:.2}%")
    } else if percent < 100.0 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

/// `part * 100 / total`, rounded down.
pub fn percent(part: u64, total: u64) -> u64 {
    let scaled = u128::from(part) * 100;
    let percent = scaled.checked_div(u128::from(total)).unwrap_or(0);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_five_characters() {
        let expected = [
            (0, "0"),
            (512, "512"),
            (1024, "1K"),
            (1536, "1.50K"),
            (10239, "10.0K"),
            (102_401, "100K"),
            (1_047_552, "1023K"),
            (1_000_000_000_000, "931G"),
            (40_800_000_000_000, "37.1T"),
            (1023 << 20, "1023M"),
            (u64::MAX, "16.0E"),
        ];
        for (number, text) in expected {
            assert_eq!(nicenum(number), text, "{number}");
        }
        assert_eq!(nicebytes(24), "24B");
        assert_eq!(nicebytes(0), "0B");
        assert_eq!(nicebytes(1536), "1.50K");
    }

    #[test]
    fn shares_and_ratios_have_their_decimals() {
        assert_eq!(share(307_200, 117_440_512), "0.26%");
        assert_eq!(share(125, 1000), "12.5%");
        assert_eq!(share(7, 7), "100%");
        assert_eq!(percent(307_200, 117_440_512), 0);
        assert_eq!(percent(1, 0), 0);
        assert_eq!(ratio(107), "1.07");
        assert_eq!(duration(61), "00:01:01");
        assert_eq!(duration(86_400 * 2 + 3599), "2 days 00:59:59");
    }

    /// Compares with OpenZFS's library where it is installed.
    #[test]
    fn agrees_with_libzfs() {
        let script = r#"
import ctypes, sys
try:
    lib = ctypes.CDLL("libzfs.so.6")
except OSError:
    sys.exit(77)
buffer = ctypes.create_string_buffer(32)
for line in sys.stdin:
    number = ctypes.c_uint64(int(line))
    words = []
    for name in ("zfs_nicenum", "zfs_nicebytes"):
        getattr(lib, name)(number, buffer, ctypes.c_size_t(32))
        words.append(buffer.value.decode())
    print(*words)
"#;
        let numbers = sample_numbers();
        let Some(answers) = ask_python(script, &numbers) else {
            cenote_tests::missing!("python3 or libzfs is not here");
            return;
        };
        assert_eq!(answers.lines().count(), numbers.len());
        for (number, line) in numbers.iter().zip(answers.lines()) {
            let ours = format!("{} {}", nicenum(*number), nicebytes(*number));
            assert_eq!(ours, line, "{number}");
        }
    }

    /// 20,000 numbers of every magnitude, many next to powers and halves.
    fn sample_numbers() -> Vec<u64> {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut numbers = Vec::new();
        while numbers.len() < 20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let number = state >> (numbers.len() % 64);
            let edge = (number & 0x3ff) << (numbers.len() % 54);
            numbers.extend([number, edge, edge.saturating_sub(1), edge.saturating_add(1)]);
        }
        numbers
    }

    fn ask_python(script: &str, numbers: &[u64]) -> Option<String> {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = child.stdin.take()?;
        let text: String = numbers.iter().map(|n| format!("{n}\n")).collect();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().ok()?;
        // A broken pipe here means that the script gave up; its status says so.
        let _ = writer.join();
        (output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
