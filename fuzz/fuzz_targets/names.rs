//! Names of datasets and pools, and values of properties, as people write them.

#![no_main]

use cenote_base::parse_size;
use cenote_dsl::property::Kinds;
use cenote_dsl::property::parse::{Purpose, parse_setting};
use cenote_dsl::{DatasetName, check_pool_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = (check_pool_name(text), parse_size(text));
    if let Ok(name) = DatasetName::parse(text) {
        assert_eq!(name.as_str(), text, "a name is kept as it is");
    }
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    for kinds in [Kinds::FILESYSTEM, Kinds::VOLUME] {
        for at_creation in [false, true] {
            let purpose = Purpose { kinds, at_creation };
            if let Ok(setting) = parse_setting(name, value, purpose) {
                assert_eq!(setting.name, name);
            }
        }
    }
});
