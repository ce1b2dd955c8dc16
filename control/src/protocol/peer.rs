//! The process at the other end of a connection.

use std::os::unix::net::UnixStream;

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The process id.
    pub pid: i32,
}

impl Peer {
    /// The process that connected, as the kernel noted it then.
    pub(super) fn of(stream: &UnixStream) -> Option<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
        Some(Self {
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            pid: credentials.pid.as_raw_nonzero().get(),
        })
    }

    /// Whether it is neither root nor the user that runs the daemon.
    pub fn is_ordinary(&self) -> bool {
        self.uid != 0 && self.uid != rustix::process::geteuid().as_raw()
    }

    /// The groups of the process: the one that it had when it connected, and its supplementary
    /// ones.
    ///
    /// The latter are looked up by the number of the process, which another process may have by
    /// now. Only one that has nothing but the same user's rights counts: that user could have
    /// connected by it.
    pub fn groups(&self) -> Vec<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let mut groups = supplementary(&status.unwrap_or_default(), self.uid);
        groups.insert(0, self.gid);
        groups
    }
}

/// The supplementary groups in a process's status, if all of its user ids are `uid`.
fn supplementary(status: &str, uid: u32) -> Vec<u32> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace()
    };
    let number = |word: &str| word.parse::<u32>().ok();
    let users: Vec<Option<u32>> = field("Uid:").map(number).collect();
    match users == [Some(uid); 4] {
        true => field("Groups:").filter_map(number).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_a_process_of_the_same_user() {
        let status = "Name:\tcenote\nUid:\t7\t7\t7\t7\nGid:\t9\t9\t9\t9\nGroups:\t10 200 \n";
        assert_eq!(supplementary(status, 7), [10, 200]);
        assert!(supplementary(status, 8).is_empty());
        // A program that runs with the rights of another user.
        let other = status.replace("7\t7\t7\t7", "7\t0\t0\t0");
        assert!(supplementary(&other, 7).is_empty());
        assert!(supplementary("", 7).is_empty());
    }
}
