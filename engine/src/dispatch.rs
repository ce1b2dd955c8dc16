//! Which function carries out which request.
//!
//! One function has an arm for each request and no wildcard: a new request does not compile until
//! it has an arm.

use crate::clouds::act::act_on_stores;
use crate::command::By;
use crate::daemon::settings::{settings_list, settings_set};
use crate::daemon::status::daemon_status;
use crate::datasets::accounts::user_space;
use crate::datasets::delete_queue::delete_queue;
use crate::datasets::list::dataset_list;
use crate::delegation::grants;
use crate::devices::properties::vdev_get;
use crate::devices::tree::leaf_named;
use crate::engine::Engine;
use crate::keys::load::{load_key, unload_key};
use crate::measures::answer::metrics;
use crate::measures::groups::pool_groups;
use crate::mounts::make::{mount, mount_all, mount_list};
use crate::pools::candidates::import_search;
use crate::pools::events::{clear, events};
use crate::pools::history::history;
use crate::pools::import::import;
use crate::pools::opened::pool_opened;
use crate::pools::properties::pool_list;
use crate::pools::status::{object_place, pool_status};
use crate::publishing::PublishAct;
use crate::registry::rights::Rights;
use crate::scans::verify::verify;
use crate::snapshots::diff::diff;
use crate::snapshots::holds::holds;
use crate::snapshots::redact::redact_snapshot;
use crate::snapshots::space::{reclaimed_by, snapshot_space};
use crate::streams::receive::receive;
use crate::streams::send::send;
use cenote_channel::run_program;
use cenote_control::model::{ControlError, Request, Response};
use cenote_control::protocol::{Ending, Peer, Reply, Service};
use cenote_drills::Drill;

impl Engine {
    // tidy: allow(long-function, one arm for each request, so that none is forgotten)
    pub(crate) fn carry_out(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let (context, mounts) = (&self.context, &self.mounts);
        let (registry, env) = (&context.registry, context.env.as_ref());
        match request {
            Request::ImportSearch { search } => import_search(context, &search),
            Request::Import {
                search,
                pick,
                options,
            } => {
                let imported = import(context, mounts, &search, &pick, &options);
                if let Err(error) = &imported {
                    self.recorder.note_failure(context, &pick, error);
                }
                self.look_at_new(imported)
            }
            Request::Export { pool, how } => self.export(&pool, how, (None, Some(reply))),
            Request::PoolList {
                pools,
                properties,
                vdevs,
            } => pool_list(registry, &pools, &properties, vdevs),
            Request::VdevGet {
                pool,
                vdevs,
                properties,
            } => vdev_get(registry, &pool, &vdevs, &properties),
            Request::PoolOpened { pool } => pool_opened(registry, &pool),
            Request::PoolStatus {
                pools,
                errors,
                dedup,
            } => pool_status(context, mounts, &pools, errors, dedup),
            Request::History { pool } => history(registry, &pool, reply),
            Request::DatasetList {
                roots,
                depth,
                kinds,
                properties,
            } => dataset_list(context, mounts, &roots, depth, kinds, properties, reply),
            Request::Grants { dataset } => grants(registry, &dataset),
            Request::LoadKey {
                dataset,
                key,
                dry_run,
            } => load_key(registry, &dataset, &key, dry_run),
            Request::UnloadKey { dataset } => unload_key(registry, mounts, env, &dataset),
            Request::UserSpace { dataset, kind } => user_space(registry, &dataset, kind, reply),
            Request::ObjectPlace {
                pool,
                objset,
                object,
                in_dataset,
            } => object_place(registry, mounts, &pool, (objset, object), in_dataset),
            Request::DeleteQueue { dataset } => delete_queue(registry, &dataset),
            Request::Verify { pool, options } => verify(registry, &pool, &options, reply),
            Request::Program { program, command } => {
                let by = By::new(peer, &command);
                run_program(registry, mounts, &program, (&by.actor, by.command), reply)
            }
            Request::Redact { redact, command } => {
                redact_snapshot(registry, &redact, &By::new(peer, &command), reply)
            }
            Request::Change { change, command } => self.change(change, &By::new(peer, &command)),
            Request::Receive {
                receive: asked,
                command,
            } => receive(context, mounts, &asked, &By::new(peer, &command), reply),
            Request::Send { send: asked } => {
                send(registry, &asked, Rights::of(peer).as_ref(), reply)
            }
            Request::Noted { asked, command } => self.noted(*asked, &command, peer, reply),
            Request::Holds {
                snapshot,
                recursive,
            } => holds(registry, &snapshot, recursive),
            Request::SnapshotSpace { dataset, recursive } => {
                snapshot_space(registry, &dataset, recursive, reply)
            }
            Request::ReclaimedBy { snapshots } => reclaimed_by(registry, &snapshots, reply),
            Request::Diff { from, to } => diff(registry, &from, to.as_deref(), reply),
            Request::Mount {
                dataset,
                at,
                options,
            } => {
                let at = (at.as_deref(), peer.pid);
                mount(registry, mounts, &dataset, at, &options)
            }
            Request::MountAll { below, options } => {
                mount_all(registry, mounts, below.as_deref(), &options)
            }
            Request::Unmount {
                target,
                force,
                unload_key,
            } => self.unmount(&target, force, unload_key),
            Request::UnmountAll { force, unload_keys } => Ok(self.unmount_all(force, unload_keys)),
            Request::MountList => Ok(mount_list(mounts)),
            Request::Events { pool, follow } => {
                // What happened since the last look is among them.
                self.look_at_pools(&registry.all());
                events(context, pool.as_deref(), follow, reply)
            }
            Request::Alarms { act } => self.alarms.act(act, env),
            Request::ErrorHistory { pool } => {
                let imported = registry.pool(&pool)?;
                Ok(self.alarms.history(&imported))
            }
            Request::EventsClear => Ok(clear(context)),
            Request::SettingsList { names } => {
                let settings = settings_list(&names)?;
                Ok(Response::Settings { settings })
            }
            Request::SettingsSet { values } => settings_set(context, &values),
            Request::Stores { pool, act } => act_on_stores(context, &pool, act, reply),
            Request::Inject { act } => {
                let (injections, events) = (&context.injections, &context.events);
                let drill = Drill::new((injections, events), registry, &leaf_named);
                drill.carry_out(&act, peer)
            }
            Request::Nbd { act } => context.publisher.act(PublishAct::Nbd(act)),
            Request::Ublk { act } => context.publisher.act(PublishAct::Ublk(act)),
            Request::Http { act } => context.publisher.act(PublishAct::Http(act)),
            Request::Dashboard { act } => context.publisher.act(PublishAct::Dashboard(act)),
            Request::Metrics { names } => {
                let missing = self.recorder.missing(context);
                metrics(context, mounts, (&self.about, &missing), &names, reply)
            }
            Request::PoolGroups { pool } => pool_groups(registry, &pool),
            Request::DaemonStatus => Ok(Response::Status {
                status: daemon_status(context, mounts, &self.about, &self.recorder),
            }),
            Request::DaemonForget => {
                self.recorder.forget();
                Ok(Response::Done)
            }
            Request::DaemonForgetPools { pools } => {
                self.recorder.forget_pools(context, &pools)?;
                Ok(Response::Done)
            }
            Request::DaemonStop { force, is_restart } => {
                self.shutdown(Ending::asked(force, is_restart))?;
                Ok(Response::Done)
            }
        }
    }
}
