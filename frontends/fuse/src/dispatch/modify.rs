//! The changing operations.

use super::{Answer, Outcome, Worker};
use crate::filesystem::Context;
use crate::protocol::modification::{Modification, WriteHead};
use crate::protocol::reply::Body;
use crate::protocol::request::RequestHeader;
use crate::protocol::wire::Fields;
use crate::values::{Errno, FilePlace, NewMode, NodeId, XattrChange};
use cenote_device::BlockBuffer;

/// `FUSE_WRITE_KILL_SUIDGID`: the writer may not keep setuid and setgid bits.
const WRITE_KILL_SUID_GID: u32 = 1 << 2;

impl Worker<'_> {
    pub(super) fn modify(
        &self,
        context: &Context<'_>,
        header: &RequestHeader,
        arguments: &[u8],
    ) -> Outcome {
        let decoded = Modification::decode(
            header.opcode,
            arguments,
            self.session.negotiated.capabilities,
        );
        let modification = decoded.map_err(|_| {
            self.session.metrics.malformed.add(1);
            Errno::IO
        })?;
        let modification = modification.ok_or(Errno::NOSYS)?;
        let node = NodeId(header.node);
        let file_system = &*self.session.file_system;
        let (changed, is_synchronous) = match modification {
            Modification::Write { is_synchronous, .. } => (node, is_synchronous),
            Modification::Allocate { handle, .. } => (node, file_system.is_synchronous(handle)),
            Modification::CopyRange { to, to_handle, .. } => {
                (to, file_system.is_synchronous(to_handle))
            }
            _ => (node, false),
        };
        let answer = match modification {
            Modification::Write { .. }
            | Modification::Allocate { .. }
            | Modification::CopyRange { .. } => self.modify_contents(context, node, modification),
            Modification::SetAttr { .. }
            | Modification::SetXattr { .. }
            | Modification::RemoveXattr { .. } => {
                self.modify_attributes(context, node, modification)
            }
            _ => self.modify_names(context, node, modification),
        }?;
        file_system.sync_if_due(changed, is_synchronous)?;
        Ok(answer)
    }

    /// A WRITE whose data is in `blocks`; returns the size of the file's blocks with the answer.
    pub(super) fn write_blocks(
        &self,
        header: &RequestHeader,
        arguments: &[u8],
        blocks: &mut [BlockBuffer],
        received: usize,
    ) -> Result<(Answer, Option<usize>), Errno> {
        let file_system = &*self.session.file_system;
        if !file_system.features().writable {
            return Err(Errno::ROFS);
        }
        let head = WriteHead::decode(Fields::new(arguments));
        let head = head.ok().filter(|head| head.size <= received);
        let head = head.ok_or_else(|| {
            self.session.metrics.malformed.add(1);
            Errno::IO
        })?;
        let place = FilePlace {
            node: NodeId(header.node),
            handle: head.handle,
            offset: head.offset,
        };
        let kill = head.flags & WRITE_KILL_SUID_GID != 0;
        let context = self.context(header);
        let block_size = file_system.write_blocks(&context, place, (blocks, head.size), kill)?;
        file_system.sync_if_due(place.node, head.is_synchronous)?;
        self.session.metrics.bytes_written.add(head.size as u64);
        Ok((Answer::Fixed(Body::written(head.size)), block_size))
    }

    fn modify_contents(
        &self,
        context: &Context<'_>,
        node: NodeId,
        modification: Modification<'_>,
    ) -> Outcome {
        let file_system = &*self.session.file_system;
        match modification {
            Modification::Write {
                handle,
                offset,
                flags,
                data,
                is_synchronous: _,
            } => {
                let place = FilePlace {
                    node,
                    handle,
                    offset,
                };
                let kill = flags & WRITE_KILL_SUID_GID != 0;
                file_system.write(context, place, data, kill)?;
                self.session.metrics.bytes_written.add(data.len() as u64);
                Ok(Answer::Fixed(Body::written(data.len())))
            }
            Modification::Allocate {
                handle,
                offset,
                length,
                mode,
            } => {
                let place = FilePlace {
                    node,
                    handle,
                    offset,
                };
                file_system.allocate(context, place, length, mode)?;
                Ok(Answer::Fixed(Body::EMPTY))
            }
            Modification::CopyRange {
                from,
                from_offset,
                to,
                to_handle,
                to_offset,
                length,
            } => {
                let from = FilePlace {
                    node,
                    handle: from,
                    offset: from_offset,
                };
                let to = FilePlace {
                    node: to,
                    handle: to_handle,
                    offset: to_offset,
                };
                // The answer has 32 bits; the caller asks again for the rest.
                let length = length.min(1 << 30);
                let copied = file_system.copy_range(context, from, to, length)?;
                let copied = usize::try_from(copied).expect("at most 2^30");
                Ok(Answer::Fixed(Body::written(copied)))
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn modify_attributes(
        &self,
        context: &Context<'_>,
        node: NodeId,
        modification: Modification<'_>,
    ) -> Outcome {
        let file_system = &*self.session.file_system;
        match modification {
            Modification::SetAttr { handle, changes } => {
                let (attr, lifetime) = file_system.setattr(context, node, handle, &changes)?;
                return Ok(Answer::Fixed(Body::attr(&attr, lifetime)));
            }
            Modification::SetXattr {
                flags,
                clears_setgid,
                name,
                value,
            } => {
                let how = XattrChange {
                    flags,
                    clears_setgid,
                };
                file_system.setxattr(context, node, name, value, how)?;
            }
            Modification::RemoveXattr { name } => file_system.removexattr(context, node, name)?,
            _ => return Err(Errno::NOSYS),
        }
        Ok(Answer::Fixed(Body::EMPTY))
    }

    fn modify_names(
        &self,
        context: &Context<'_>,
        node: NodeId,
        modification: Modification<'_>,
    ) -> Outcome {
        let file_system = &*self.session.file_system;
        let entry = match modification {
            Modification::MkNod {
                mode,
                device,
                umask,
                name,
            } => file_system.mknod(context, node, name, NewMode { mode, umask }, device)?,
            Modification::MkDir { mode, umask, name } => {
                file_system.mkdir(context, node, name, NewMode { mode, umask })?
            }
            Modification::SymLink { name, target } => {
                file_system.symlink(context, node, name, target)?
            }
            // The header names the directory of the new name.
            Modification::Link { node: file, name } => {
                file_system.link(context, file, node, name)?
            }
            Modification::Create {
                flags,
                mode,
                umask,
                name,
            } => {
                let mode = NewMode { mode, umask };
                let (entry, opened) = file_system.create(context, node, name, mode, flags)?;
                let answer = self.open_flags(&opened, flags);
                return Ok(Answer::Fixed(Body::created(
                    &entry,
                    opened.handle.0,
                    answer,
                )));
            }
            Modification::TmpFile { flags, mode, umask } => {
                let mode = NewMode { mode, umask };
                let (entry, opened) = file_system.tmpfile(context, node, mode, flags)?;
                let answer = self.open_flags(&opened, flags);
                return Ok(Answer::Fixed(Body::created(
                    &entry,
                    opened.handle.0,
                    answer,
                )));
            }
            Modification::Unlink { name } => {
                file_system.unlink(context, node, name)?;
                return Ok(Answer::Fixed(Body::EMPTY));
            }
            Modification::RmDir { name } => {
                file_system.rmdir(context, node, name)?;
                return Ok(Answer::Fixed(Body::EMPTY));
            }
            Modification::Rename {
                to,
                flags,
                name,
                new_name,
            } => {
                file_system.rename(context, (node, name), (to, new_name), flags)?;
                return Ok(Answer::Fixed(Body::EMPTY));
            }
            _ => return Err(Errno::NOSYS),
        };
        Ok(Answer::Fixed(Body::entry(&entry)))
    }
}
