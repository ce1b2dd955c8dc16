//! Opening heads for changes.

use crate::damage::DamageSink;
use crate::open::OpenDataset;
use crate::space::SpacePolicy;
use cenote_base::Env;
use cenote_dmu::{IoContext, TxCost, TxgGate};
use cenote_dsl::write::Head;
use cenote_dsl::{Dataset, Dsl, DslError};
use cenote_io::Writer;
use std::sync::Arc;

/// What opening the datasets of a pool takes.
#[derive(Clone, Debug)]
pub struct Access {
    /// The pool's datasets.
    pub dsl: Arc<Dsl>,
    /// The pool's gate.
    pub gate: Arc<TxgGate>,
    /// The clock.
    pub env: Arc<dyn Env>,
    /// What writes the pool's blocks, for intent logs. Nothing is logged without.
    pub blocks: Option<Arc<Writer>>,
    /// Gets reports of damage found by work that no caller waits for.
    pub damage: Option<Arc<dyn DamageSink>>,
}

impl Access {
    /// Opens a head for changes, by its keys and within its quotas.
    ///
    /// # Errors
    /// If it is no head or kept as it is, it cannot be read, or its key is not loaded.
    pub fn open(&self, dataset: &Dataset) -> Result<OpenDataset, DslError> {
        let head = self.dsl.open_for_writing(dataset, &self.gate)?;
        Ok(self.of_head(head))
    }

    /// Opens a head to be written to as it is stored elsewhere, without its keys. `header` is what
    /// the stream says of the object set ([`cenote_dsl::write::raw_header`]).
    ///
    /// # Errors
    /// If it is open already, is kept as it is, or cannot be read; or the pool takes no changes.
    pub fn open_raw(
        &self,
        dataset: &Dataset,
        header: cenote_dmu::RawHeader,
    ) -> Result<OpenDataset, DslError> {
        let head = self.dsl.open_raw(dataset, &self.gate)?;
        let begun = self.gate.begin(TxCost::default());
        let open = self.of_head(head);
        match begun.and_then(|tx| open.set().begin_raw(&tx, header)) {
            Ok(()) => Ok(open),
            Err(error) => {
                open.release();
                Err(error.into())
            }
        }
    }

    fn of_head(&self, head: Arc<Head>) -> OpenDataset {
        // Writing programs ask it, and they may wait for devices.
        let dsl = self.dsl.for_io(&IoContext::USER);
        let space = SpacePolicy::new(&dsl, &self.gate, &head);
        let (gate, env) = (Arc::clone(&self.gate), Arc::clone(&self.env));
        let head = (Arc::clone(&self.dsl), head);
        OpenDataset::of_head(head, gate, env, self.damage.clone())
            .with_space(space)
            .with_blocks(self.blocks.clone())
    }
}
