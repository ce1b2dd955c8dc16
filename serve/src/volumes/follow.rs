//! Starts and ends the daemon's own server, and disconnects clients that it may no longer serve.
//!
//! The server reads the property when a client asks for an export. Two things must happen before
//! that. The server must run once the property is on anywhere. Only an import, a receive and
//! commands that name the property can turn it on. And clients of volumes that the property no
//! longer serves must be disconnected.

use super::offer::{has_property, is_by_property};
use super::table::Running;
use crate::context::Context;
use crate::servers::Listening;
use cenote_base::ObjectId;
use cenote_control::model::NbdListen;
use cenote_control::record::RecordedExport;
use cenote_engine::properties::SERVED;
use cenote_engine::{Imported, walk_heads};
use std::time::Duration;

impl Context {
    /// Starts the daemon's own server if the property is on anywhere, and ends it otherwise.
    /// Disconnects clients of volumes that the property no longer serves.
    pub fn follow_exports(&self) {
        for imported in self.registry.all() {
            let gone: Vec<ObjectId> = imported
                .served
                .datasets()
                .into_iter()
                .filter(|(_, by_property)| *by_property)
                .map(|(id, _)| id)
                .filter(|id| {
                    !imported.dsl().dataset_of(*id).is_ok_and(|it| {
                        is_by_property(self.registry.approved_in(&imported), &it, SERVED)
                    })
                })
                .collect();
            let is_gone = |id: ObjectId, by_property: bool| by_property && gone.contains(&id);
            if !gone.is_empty() && !imported.served.hang_up(is_gone) {
                log::warn!(
                    "pool '{}': clients of volumes are not disconnected yet",
                    imported.name()
                );
            }
        }
        if self.is_wanted() {
            let own = NbdListen::default();
            if let Err(error) = self.volumes.serve(&self.registry, &own, &[]) {
                log::error!("volumes with {SERVED}=on are not served: {error}");
                self.volumes.set_failure(Some(error.to_string()));
            }
        } else {
            self.volumes.set_failure(None);
        }
        self.end_unneeded_servers(true);
    }

    /// What commands serve of a pool, for the record.
    pub fn recorded_exports(&self, imported: &Imported) -> Vec<RecordedExport> {
        let mut exports = Vec::new();
        for running in self.volumes.running() {
            let commanded = running.offer.commanded().into_iter();
            for one in commanded.filter(|one| one.is_of(imported)) {
                if let Some((_, dataset)) = one.find(&self.registry) {
                    exports.push(RecordedExport {
                        dataset: dataset.name().as_str().to_owned(),
                        read_only: one.is_read_only,
                        listen: running.asked.clone(),
                    });
                }
            }
        }
        exports
    }

    /// Whether the property is on anywhere.
    fn is_wanted(&self) -> bool {
        self.registry.all().iter().any(|imported| {
            let mut is_on = false;
            let pool = self.registry.approved_in(imported);
            walk_heads(imported.dsl(), |head| {
                is_on |= has_property(pool, head, SERVED);
            });
            is_on
        })
    }

    /// Ends servers that have nothing left to serve. The daemon's own server ends only with
    /// `looks_at_property`, because checking the property takes a walk over all datasets.
    pub fn end_unneeded_servers(&self, looks_at_property: bool) {
        let running = self.volumes.running();
        if running.is_empty() {
            return;
        }
        for one in running {
            one.offer.prune();
            // Another thread may find the property on meanwhile, and count on this server.
            let asked = one.offer.asked();
            let has_commanded = !one.offer.commanded().is_empty();
            let is_wanted = || match one.is_default {
                true => !looks_at_property || self.is_wanted(),
                false => false,
            };
            if !has_commanded && !is_wanted() {
                let may_end = |one: &Running| one.has_nothing() && one.offer.asked() == asked;
                self.volumes.servers.end_if(&one, Duration::ZERO, may_end);
            }
        }
    }
}
