//! Settings that bind the vdevs hold from the next request on.

use cenote_base::rt::World;
use cenote_base::settings::{self, Setting};
use cenote_device::{Device, DeviceError, DeviceKind, MemoryDevice, Nature};
use cenote_vdev::create::{metaslab_shift, natural_ashift};
use std::path::Path;

/// A disk that says that its smallest transfer has 64 KiB.
#[derive(Debug)]
struct LargeBlocks(MemoryDevice);

impl Device for LargeBlocks {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(offset, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Block,
            logical_block_size: 512,
            rotational: Some(false),
        }
    }

    fn physical_block_size(&self) -> u32 {
        64 << 10
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn with<T>(setting: &Setting, value: u64, work: impl FnOnce() -> T) -> T {
    setting.set(value).expect("in range");
    let result = work();
    setting.reset();
    result
}

#[test]
fn new_vdevs_follow_the_settings() {
    World::real().run(|| {
        let usual = metaslab_shift(1 << 40);
        let fewer = || metaslab_shift(1 << 40);
        assert_eq!(
            with(&settings::METASLAB_COUNT_DEFAULT, 100, fewer),
            usual + 1
        );
        assert_eq!(with(&settings::METASLAB_SHIFT_MAX, 30, fewer), 30);
        // 100 GiB in metaslabs of 512 MiB, the least usual size, or of the next.
        let middling = || metaslab_shift(100 << 30);
        assert_eq!(middling(), 29);
        assert_eq!(with(&settings::METASLAB_SHIFT_DEFAULT, 30, middling), 30);
        // 1 GiB in eight: the next power of two that makes less than 16 of them; or in two.
        let small = || metaslab_shift(1 << 30);
        assert_eq!(small(), 27);
        assert_eq!(with(&settings::METASLAB_COUNT_MIN, 4, small), 29);
        // 4 PiB in less than 131072 of them, or less than half as many.
        let huge = || metaslab_shift(4 << 50);
        assert_eq!(huge(), 36);
        assert_eq!(with(&settings::METASLAB_COUNT_LIMIT, 1 << 16, huge), 37);
        let device = MemoryDevice::new("m", vec![0; 512]);
        let ashift = || natural_ashift([&device as _]);
        assert_eq!(ashift(), 9);
        assert_eq!(with(&settings::AUTO_ASHIFT_MIN, 12, ashift), 12);
        let device = LargeBlocks(MemoryDevice::new("l", vec![0; 512]));
        let ashift = || natural_ashift([&device as _]);
        assert_eq!(ashift(), 14, "64 KiB are not believed");
        assert_eq!(with(&settings::AUTO_ASHIFT_MAX, 12, ashift), 12);
        assert_eq!(with(&settings::AUTO_ASHIFT_MAX, 16, ashift), 16);
    });
}
