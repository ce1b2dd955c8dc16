//! Settings that bind the vdevs hold from the next request on. They hold for the whole process,
//! so this file has one test.

use cenote_base::settings::{self, Setting};
use cenote_device::MemoryDevice;
use cenote_vdev::create::{metaslab_shift, natural_ashift};

fn with<T>(setting: &Setting, value: u64, work: impl FnOnce() -> T) -> T {
    setting.set(value).expect("in range");
    let result = work();
    setting.reset();
    result
}

#[test]
fn new_vdevs_follow_the_settings() {
    let usual = metaslab_shift(1 << 40);
    let fewer = || metaslab_shift(1 << 40);
    assert_eq!(
        with(&settings::METASLAB_COUNT_DEFAULT, 100, fewer),
        usual + 1
    );
    assert_eq!(with(&settings::METASLAB_SHIFT_MAX, 30, fewer), 30);
    let device = MemoryDevice::new("m", vec![0; 512]);
    let ashift = || natural_ashift([&device as _]);
    assert_eq!(ashift(), 9);
    assert_eq!(with(&settings::AUTO_ASHIFT_MIN, 12, ashift), 12);
}
