//! The bits of a mode that give a program the rights of its owner or group.

const SETUID: u64 = 0o4000;
pub(crate) const SETGID: u64 = 0o2000;
const GROUP_EXECUTE: u64 = 0o010;

/// A regular file's mode after an unprivileged user changed its contents or its owner. Setuid is
/// cleared. Setgid stays only where it means mandatory locking, and the user belongs to the file's
/// group. (`inode(7)`, `write(2)`.)
pub fn without_privileges(mode: u64, is_outsider: bool) -> u64 {
    match mode & GROUP_EXECUTE != 0 || is_outsider {
        true => mode & !(SETUID | SETGID),
        false => mode & !SETUID,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setgid_stays_where_it_is_a_lock() {
        for (mode, of_member, of_outsider) in [
            (0o100_644, 0o100_644, 0o100_644),
            (0o106_755, 0o100_755, 0o100_755),
            (0o106_745, 0o102_745, 0o100_745),
            (0o102_644, 0o102_644, 0o100_644),
        ] {
            assert_eq!(without_privileges(mode, false), of_member, "{mode:o}");
            assert_eq!(without_privileges(mode, true), of_outsider, "{mode:o}");
        }
    }
}
