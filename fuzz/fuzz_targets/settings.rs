//! Files of settings.

#![no_main]

use cenote_base::settings::{self, Assignment, parse_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let found = parse_file(text);
    assert!(found.len() <= text.len() + 1);
    for parsed in found {
        match parsed {
            Ok(assignment) => {
                let state = assignment.apply();
                let again = settings::get(state.name).expect("it was just set");
                assert_eq!(again, state);
                if let (Some([least, most]), Ok(value)) = (state.range, state.value.parse::<u64>())
                {
                    assert!((least..=most).contains(&value));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let (name, value) = text.split_once('=').unwrap_or((text, "default"));
    let _ = Assignment::new(name, value);
});
