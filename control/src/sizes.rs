//! Sizes as users write them: `128K`, `1.5GiB`.

/// The number of bytes.
///
/// # Errors
/// The reason, in OpenZFS's words.
pub fn parse(text: &str) -> Result<u64, String> {
    cenote_dsl::property::parse::parse_size(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(super::parse("64M"), Ok(64 << 20));
        let error = super::parse("x").expect_err("no number");
        assert_eq!(error, "bad numeric value 'x'");
    }
}
