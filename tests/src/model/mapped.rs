//! Writing through shared mappings of files.

use super::mapper::Mapper;
use super::session::Session;
use super::tree::Kind;
use anyhow::{Result, ensure};

impl Session {
    /// Ends all mappings. What is written back with them gives files other times.
    pub fn unmap(&mut self) {
        self.mapper = None;
    }

    /// Overwrites part of a file through a mapping.
    pub(super) fn map(&mut self) -> Result<()> {
        let Some((id, path)) = self.any_file() else {
            return Ok(());
        };
        let size = self.size(id);
        if size == 0 {
            return Ok(());
        }
        if self.mapper.is_none() {
            self.mapper = Mapper::start()?;
        }
        let offset = self.offset(size).min(size - 1);
        let length = (self.length() as u64).min(size - offset);
        let data = self.data(length as usize);
        let how = self.random.below(3);
        let Some(mapper) = &mut self.mapper else {
            return Ok(());
        };
        self.model.touch(id);
        let old = mapper.write(&path, offset, &data, how)?;
        if let Kind::File(bytes) = &self.model.node(id).kind {
            let wanted = &bytes[offset as usize..][..length as usize];
            ensure!(
                old == wanted,
                "a mapping of {} shows other bytes",
                path.display()
            );
        }
        self.put(id, offset, &data);
        Ok(())
    }
}
