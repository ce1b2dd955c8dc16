//! The bits of a mode that give a program the rights of its owner or group.

const SETUID: u64 = 0o4000;
pub(crate) const SETGID: u64 = 0o2000;
const GROUP_EXECUTE: u64 = 0o010;

/// Who changes a file's contents or owner, as far as its setuid and setgid bits depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changer {
    /// Has `CAP_FSETID`.
    #[default]
    Privileged,
    /// Belongs to the file's group.
    Member,
    /// Does not belong to it.
    Outsider,
}

impl Changer {
    /// What is left of a regular file's mode: no setuid; and setgid only if the group may not
    /// execute the file, and only if a member changes it. (`inode(7)`, `write(2)`.)
    pub fn leaves(self, mode: u64) -> u64 {
        match self {
            Changer::Privileged => mode,
            Changer::Member if mode & GROUP_EXECUTE == 0 => mode & !SETUID,
            Changer::Member | Changer::Outsider => mode & !(SETUID | SETGID),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setgid_stays_where_it_gives_no_rights() {
        for (mode, of_member, of_outsider) in [
            (0o100_644, 0o100_644, 0o100_644),
            (0o106_755, 0o100_755, 0o100_755),
            (0o106_745, 0o102_745, 0o100_745),
            (0o102_644, 0o102_644, 0o100_644),
        ] {
            assert_eq!(Changer::Privileged.leaves(mode), mode, "{mode:o}");
            assert_eq!(Changer::Member.leaves(mode), of_member, "{mode:o}");
            assert_eq!(Changer::Outsider.leaves(mode), of_outsider, "{mode:o}");
        }
    }
}
