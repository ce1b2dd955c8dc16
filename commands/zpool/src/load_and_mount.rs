//! `-l` of commands that import: loads keys, then mounts.

use cenote_control::model::{MountOptions, Request, Response};
use cenote_words::context::Context;
use cenote_words::texts::with_context;
use cenote_zfs_commands::zfs;

/// Loads all keys of the pool, then mounts its file systems.
pub fn load_and_mount(pool: &str, context: &mut Context) -> u8 {
    let loaded = zfs::load_keys_below(pool, context);
    let request = Request::MountAll {
        below: Some(pool.to_owned()),
        options: MountOptions::default(),
    };
    match context.ask(request) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{name}'"), error));
            }
            loaded.max(u8::from(!failures.is_empty()))
        }
        Ok(_) => loaded,
        Err(error) => {
            context.complain(&with_context(&format!("cannot mount '{pool}'"), &error));
            1
        }
    }
}
