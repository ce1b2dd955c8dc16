//! Keeps sites up to date with their datasets.

use crate::context::Context;
use cenote_control::model::HttpSite;
use cenote_control::record::RecordedSite;
use cenote_engine::Imported;
use std::time::Duration;

/// How long downloads may take after their server has nothing left to serve.
const GRACE: Duration = Duration::from_secs(1);

impl Context {
    /// Updates what sites show. The engine calls this after each change, and once a second for
    /// changes without a request. Closes trees that no site shows and no client reads any more.
    pub fn follow_sites(&self) {
        let running = self.sites.running();
        for one in &running {
            one.offer.follow();
            if self.sites.end_unused(one, GRACE) {
                log::info!(
                    "HTTP: nothing is left to be served on {}",
                    one.options.listen.join(" ")
                );
            }
        }
        for imported in self.registry.all() {
            let heads = imported.trees.sweep();
            if heads.is_empty() {
                continue;
            }
            if let Err(error) = imported.close_unmounted(&heads) {
                log::warn!("pool '{}': {error}", imported.name());
            }
        }
    }

    /// What commands serve of a pool, for the record.
    pub fn recorded_sites(&self, imported: &Imported) -> Vec<RecordedSite> {
        let mut recorded = Vec::new();
        for running in self.sites.running() {
            let own = running
                .offer
                .commanded()
                .into_iter()
                .filter(|site| site.is_of(imported));
            for site in own {
                if let Some((_, dataset)) = site.find_dataset() {
                    recorded.push(RecordedSite {
                        site: HttpSite {
                            dataset: dataset.name().as_str().to_owned(),
                            ..site.asked.clone()
                        },
                        options: running.options.clone(),
                    });
                }
            }
        }
        recorded
    }
}
