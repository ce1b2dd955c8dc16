//! The project of a file: a number by which space is accounted for, and whether files that are made
//! in a directory get the directory's number.
//!
//! `chattr` sets both by an `ioctl` that exchanges a structure (`fsxattr` of `linux/fs.h`). The
//! kernel checks the permissions.

#![allow(
    unsafe_code,
    reason = "the ioctls have no safe wrapper in rustix or libc"
)]

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `FS_XFLAG_PROJINHERIT`.
const INHERIT: u32 = 0x200;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Extended {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<Extended>() == 28);

const GET: Opcode = opcode::read::<Extended>(b'X', 31);
const SET: Opcode = opcode::write::<Extended>(b'X', 32);

/// The project of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its number; 0 is the default.
    pub number: u32,
    /// Files that are made in this directory get the number, too.
    pub is_inherited: bool,
}

fn extended(file: impl AsFd) -> Result<Extended, Errno> {
    // SAFETY: the command reads into a structure of exactly this layout, which has no invalid
    // values.
    unsafe { ioctl(file, Getter::<GET, Extended>::new()) }
}

/// The project of an open file.
///
/// # Errors
/// If the file system has no projects.
pub fn project(file: impl AsFd) -> Result<Project, Errno> {
    let found = extended(file)?;
    Ok(Project {
        number: found.project,
        is_inherited: found.flags & INHERIT != 0,
    })
}

/// Changes the project of an open file, and nothing else about it.
///
/// # Errors
/// If the file system has no projects, or the caller may not change this one.
pub fn set_project(file: impl AsFd, project: Project) -> Result<(), Errno> {
    let now = extended(file.as_fd())?;
    let flags = match project.is_inherited {
        true => now.flags | INHERIT,
        false => now.flags & !INHERIT,
    };
    let wanted = Extended {
        flags,
        project: project.number,
        ..now
    };
    // SAFETY: the command reads a structure of exactly this layout.
    unsafe { ioctl(file, Setter::<SET, Extended>::new(wanted)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the kernel and our mounts know the commands by.
    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        assert_eq!((GET, SET), (0x801C_581F, 0x401C_5820));
    }
}
