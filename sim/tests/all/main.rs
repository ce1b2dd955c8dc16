//! Seeds of the simulated machine: what they lose, and that they can be repeated.

use cenote_base::rt::World;
use cenote_sim::{Options, live};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Runs seeds on both cores; the numbers of those that lost something, with what.
fn losses(seeds: std::ops::Range<u64>, options: Options<'static>) -> Vec<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let losses = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Err(error) = World::simulated(seed).run(|| live(seed, options)) {
                        losses
                            .lock()
                            .expect("sound")
                            .push((seed, format!("{error:#}")));
                    }
                }
            });
        }
    });
    losses.into_inner().expect("sound")
}

#[test]
fn fifty_seeds_lose_nothing() {
    assert_eq!(losses(1..51, Options::default()), []);
}

/// A simulation that finds nothing where something must be lost proves nothing.
#[test]
fn disks_that_lie_about_flushes_are_found_out() {
    let options = Options {
        lose_flushes: true,
        ..Options::default()
    };
    assert!(!losses(1..9, options).is_empty());
}

/// A trace in memory.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<u8>>>);

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("sound").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_seed_repeats_itself_byte_for_byte() {
    let traced = |seed| {
        let trace = Trace::default();
        let world = World::simulated(seed).trace_to(trace.clone());
        world
            .run(|| live(seed, Options::default()))
            .expect("nothing is lost");
        std::mem::take(&mut *trace.0.lock().expect("sound"))
    };
    for seed in [3, 4] {
        let (first, second) = (traced(seed), traced(seed));
        let line = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        let differs = first
            .iter()
            .zip(&second)
            .position(|(one, other)| one != other);
        assert!(line(&first) > 10_000, "the trace is empty");
        assert!(
            first.len() == second.len() && differs.is_none(),
            "seed {seed} took another way from line {} on",
            line(&first[..differs.unwrap_or(0)])
        );
    }
}
