//! What is in an object, by the types of its bonus buffer and of its data.

mod bonus;
mod file;
mod zap;

use crate::list;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_dmu::{Object, ObjectSet};
use cenote_dsl::Dataset;
use cenote_ondisk::ObjectType;
use cenote_ondisk::object_type::ByteswapClass;
use cenote_own_commands::pools::inspect::packed_list;
use cenote_posix::FileSystem;
use std::sync::Arc;

/// Prints the objects of a set by their types.
pub struct Contents {
    set: Arc<ObjectSet>,
    /// The files, or why there are none.
    files: Option<Result<FileSystem, String>>,
    /// Whether the set is encrypted and its key is not loaded.
    is_locked: bool,
    level: usize,
}

impl Contents {
    /// Of a dataset, or of the pool's own objects.
    pub fn new(set: &Arc<ObjectSet>, dataset: Option<&Dataset>, level: usize) -> Self {
        let is_locked = set.keys().is_none() && set.root().uses_crypt();
        let has_files = dataset.is_some() && level >= 4 && !is_locked;
        let files =
            has_files.then(|| FileSystem::open(Arc::clone(set)).map_err(|error| error.to_string()));
        Self {
            set: Arc::clone(set),
            files,
            is_locked,
            level,
        }
    }

    /// Prints what is in an object.
    pub fn print(&self, object: &Object, printer: &mut Printer) -> Result<(), Problem> {
        let dnode = object.dnode();
        let is_hidden = |kind: ObjectType| self.is_locked && kind.is_encrypted();
        if is_hidden(dnode.bonus_type) {
            printer.line("\t\t(bonus encrypted)")?;
        } else {
            let printed = self.bonus(object, printer);
            printer.survive(printed)?;
        }
        // Blocks of dnodes are printed as the objects that are in them.
        if is_hidden(dnode.object_type) && dnode.object_type != ObjectType::DNODE {
            return printer.line("\t\t(object encrypted)");
        }
        let kind = dnode.object_type;
        if kind.byteswap_class() == Some(ByteswapClass::Zap) {
            return zap::print(object, printer);
        }
        if kind == ObjectType::PACKED_NVLIST {
            let list = packed_list(&self.set, object.id());
            let list = list.map_err(failed(format!("object {}", object.id())))?;
            printer.text(&list::text(&list, 8))?;
        }
        Ok(())
    }

    fn bonus(&self, object: &Object, printer: &mut Printer) -> Result<(), Problem> {
        match object.dnode().bonus_type {
            ObjectType::ZNODE | ObjectType::SYSTEM_ATTRIBUTES => match &self.files {
                Some(Ok(files)) => file::print(files, object.id(), self.level, printer),
                Some(Err(error)) => Err(Problem::Failed(error.clone())),
                None => Ok(()),
            },
            _ => bonus::print(object, printer),
        }
    }
}
