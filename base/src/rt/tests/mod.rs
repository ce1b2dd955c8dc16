//! Tests of the runtime: each primitive in every kind of world, and what only a simulated world
//! can show.

mod abandoning;
mod channels;
mod job;
mod locks;
mod order;
mod simulation;
mod threads;
mod watch;
mod worlds;

use super::World;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does the same in the default world, in another real one, and with 40 seeds.
fn everywhere(test: impl Fn()) {
    test();
    World::real().run(&test);
    for seed in 0..40 {
        World::simulated(seed).run(&test);
    }
}

/// What `work` panics with, as text; `None` if it does not.
fn panic_of<T>(work: impl FnOnce() -> T) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(text(&*payload))
}

fn text(payload: &(dyn Any + Send)) -> String {
    let literal = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = literal.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "something else".to_owned())
}
