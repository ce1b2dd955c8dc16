//! Statistics of dedup tables that do not exist any more.
//!
//! A table is removed with its statistics. If these remain, the pool's totals count blocks that do
//! not exist, and OpenZFS cannot create a table of that name again. So opening such a pool for
//! writing removes them.

use cenote_dsl::directory_keys as keys;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, lost_dedup_figures};

/// Takes away all figures without a table.
#[derive(Debug)]
pub(crate) struct ForgetLostFigures;

impl SyncTask for ForgetLostFigures {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = context.dsl.object_directory();
        let Some(figures) = directory.object(keys::DEDUP_STATISTICS)? else {
            return Ok(());
        };
        let figures = context.mos().zap(figures)?;
        for name in lost_dedup_figures(context.dsl)? {
            figures.remove(context.tx, name.as_bytes())?;
        }
        context.dsl.forget_saved_space();
        Ok(())
    }
}
