//! Worlds do not meet.

use crate::rt::{self, World, scope};
use crate::settings::{self, Assignment, ZSTD_ABORT_SIZE, set_memory_bytes};
use std::time::Duration;

#[test]
fn settings_belong_to_a_world() {
    let set = |name: &str, text: &str| Assignment::new(name, text).expect("valid").apply();
    let value = |name: &str| settings::get(name).expect("known").value;
    let before = settings::memory_bytes();
    for world in [World::real(), World::simulated(3)] {
        world.run(|| {
            assert_eq!(ZSTD_ABORT_SIZE.get(), ZSTD_ABORT_SIZE.default);
            ZSTD_ABORT_SIZE.set(4096).expect("in range");
            set("zfs_flags", "7");
            set_memory_bytes(5 << 30);
            settings::set_memory_short(true);
            // Threads inherit the world.
            scope(|scope| {
                scope.spawn(|| assert_eq!(ZSTD_ABORT_SIZE.get(), 4096));
            });
            let memory = rt::spawn("asks", settings::memory_bytes)
                .expect("a thread")
                .join();
            assert_eq!(memory.expect("no panic"), 5 << 30);
            World::real().run(|| {
                assert_eq!(ZSTD_ABORT_SIZE.get(), ZSTD_ABORT_SIZE.default);
                assert_eq!(
                    (value("zfs_flags").as_str(), settings::is_memory_short()),
                    ("", false)
                );
            });
            assert_eq!(
                (value("zfs_flags").as_str(), settings::is_memory_short()),
                ("7", true)
            );
            ZSTD_ABORT_SIZE.reset();
            assert_eq!(set("zfs_flags", "default").value, "");
            assert_eq!(ZSTD_ABORT_SIZE.get(), ZSTD_ABORT_SIZE.default);
        });
        assert_eq!(value("zfs_flags"), "");
    }
    assert_eq!(settings::memory_bytes(), before);
}

/// Two simulations in one process, at the same time and one within the other.
#[test]
fn two_simulations_do_not_meet() {
    let run = |seed| {
        World::simulated(seed).run(|| {
            let start = rt::uptime();
            scope(|scope| {
                for hours in 1..4 {
                    scope.spawn(move || rt::sleep(Duration::from_secs(hours * 3600)));
                }
            });
            rt::uptime() - start
        })
    };
    let alone = [run(1), run(2)];
    let together = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(2));
        [run(1), other.join().expect("no panic")]
    });
    assert_eq!(alone, together);
    let within = World::simulated(9).run(|| {
        let outer = rt::uptime();
        let inner = run(1);
        assert!(
            rt::uptime() - outer < Duration::from_secs(1),
            "the outer clock stands still"
        );
        inner
    });
    assert_eq!(within, alone[0]);
    assert!(!rt::is_simulated());
}
