//! The tree of vdevs from its configuration: built, asked, and read from.
//!
//! The input is a word that is mixed into addresses, and a name-value list: a vdev, or a label's
//! configuration with one. Every second leaf has a device, which is large and holds zeros.

#![no_main]

use cenote_vdev::IoContext;
use cenote_base::{Guid, Txg};
use cenote_device::{Device, DeviceError, DeviceKind, Nature};
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::{Dva, VdevConfig, VdevKind};
use cenote_vdev::{BatchRead, OpenOptions, Shape, Vdevs};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a device: more than any pool in the seeds needs.
const DEVICE_SIZE: u64 = 1 << 50;

/// A device full of zeros.
#[derive(Debug)]
struct Zeros;

impl Device for Zeros {
    fn size(&self) -> u64 {
        DEVICE_SIZE
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let length = buffer.len() as u64;
        if offset
            .checked_add(length)
            .is_none_or(|end| end > DEVICE_SIZE)
        {
            return Err(DeviceError::OutOfRange {
                path: self.path().into(),
                offset,
                length,
                size: DEVICE_SIZE,
            });
        }
        buffer.fill(0);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        unreachable!("nothing here writes")
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Memory,
            logical_block_size: 512,
            rotational: None,
        }
    }

    fn path(&self) -> &Path {
        Path::new("zeros")
    }
}

/// The root vdev that `list` describes, or one above the vdev that it describes.
fn root(list: &NvList) -> Option<VdevConfig> {
    let tree = list.get_list("vdev_tree").unwrap_or(list);
    let config = VdevConfig::decode(tree).ok()?;
    if config.kind == VdevKind::Root {
        return Some(config);
    }
    let mut above = NvList::new();
    above.set("type", NvValue::String(b"root".to_vec()));
    above.set_u64("id", 0);
    above.set_u64("guid", 1);
    let mut root = VdevConfig::decode(&above).expect("a root needs no more");
    root.children.push(config);
    Some(root)
}

fn read(vdevs: &Shape, word: u64) {
    for top in 0..vdevs.top_count().min(16) {
        let id = cenote_base::VdevId(top as u64);
        let _ = (
            vdevs.top_state(id),
            vdevs.allocation_min(id),
            vdevs.ashift(id),
        );
        let _ = (vdevs.deflate_ratio(id), vdevs.metaslab(id, word >> 40));
        for (offset, size) in [
            (0, 512),
            (word & 0xffff_fe00, 4096),
            (word >> 1 & !511, 131_072),
            (word >> 20 & !511, (word as usize & 0x1f) * 512 + 512),
        ] {
            let allocated = vdevs.asize(id, size as u64, Txg(1)).unwrap_or(size as u64);
            let dva = Dva::new(id, offset & (u64::MAX >> 1), allocated & 0x01ff_fe00);
            let birth = Txg(1);
            if let Ok(read) = vdevs.read(dva, size, birth, &|_| true, &IoContext::USER) {
                assert_eq!(read.bytes.len(), size);
            }
            // Everything is refused: all ways of reconstruction are gone through.
            assert!(vdevs.read(dva, size, birth, &|_| false, &IoContext::USER).is_err());
            let _ = (
                vdevs.places(dva, size, birth),
                vdevs.leaves_of(dva, size, birth),
            );
            let batch = vdevs.read_batch(&[BatchRead { dva, size, birth }], &IoContext::USER);
            assert_eq!(batch.len(), 1);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((word, packed)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let Some(root) = NvList::decode(packed).ok().and_then(|list| root(&list)) else {
        return;
    };
    let device: Arc<dyn Device> = Arc::new(Zeros);
    let leaves = root.leaves().step_by(2).take(64);
    let opened: HashMap<Guid, Arc<dyn Device>> = leaves
        .map(|leaf| (leaf.guid, Arc::clone(&device)))
        .collect();
    if let Ok(vdevs) = Vdevs::open(&root, &opened, &OpenOptions::default()) {
        let vdevs = vdevs.shape();
        let _ = (vdevs.state(), vdevs.status());
        read(&vdevs, u64::from_le_bytes(*word));
    }
});
