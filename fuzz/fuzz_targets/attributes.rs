//! System attributes: registry, layouts and a buffer, all from the input.

#![no_main]

use cenote_ondisk::dir_entry::DirEntry;
use cenote_ondisk::system_attributes::{AttributeDefinition, SaTables};
use cenote_ondisk::znode_phys::ZnodePhys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ZnodePhys::decode(bytes);
    let Some((word, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let _ = DirEntry::decode(u64::from_le_bytes(*word));
    let _ = AttributeDefinition::decode(u64::from_le_bytes(*word));
    // One definition for each of the first words, all of them in the layout.
    let mut tables = SaTables::default();
    let count = usize::from(word[0] % 16);
    let definitions = rest.chunks_exact(8).take(count);
    for (index, definition) in definitions.enumerate() {
        let value = u64::from_le_bytes(definition.try_into().expect("chunks of 8"));
        let _ = tables.add_attribute(&format!("A{index}"), value);
    }
    let numbers: Vec<u16> = word[1..].iter().map(|byte| u16::from(*byte)).collect();
    for layout in ["0", "1", "2", "3"] {
        let _ = tables.add_layout(layout, numbers.clone());
    }
    let buffer = rest.get(8 * count..).unwrap_or(&[]);
    if let Ok(values) = tables.values(buffer) {
        for value in values {
            let _ = (value.bytes().len(), value.word(), value.time());
        }
    }
});
