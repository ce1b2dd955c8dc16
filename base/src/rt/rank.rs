//! What a rank is.
//!
//! A rank is a type without values. It stands in the type of a lock, so it costs nothing and
//! cannot be forgotten: a field that declares a lock names its rank. The table of all ranks is
//! in `ranks`; here is what the table says about each of them.

/// What the table says about a rank.
#[derive(Debug, PartialEq, Eq)]
pub struct RankInfo {
    /// The name, as in the type of the lock.
    pub name: &'static str,
    /// The crate whose locks have this rank.
    pub owner: &'static str,
    /// What the locks guard.
    pub guards: &'static str,
    /// The place in the table: a thread takes locks in ascending order. `None` is not checked.
    pub order: Option<u16>,
    /// Whether a thread may hold several locks of this rank.
    pub nested: bool,
    /// Whether device I/O is forbidden while such a lock is held.
    pub no_io: bool,
    /// Whether nothing may be taken or waited for while such a lock is held.
    ///
    /// A simulated world takes these locks without a scheduling decision, so they may be shared
    /// by all worlds of the process.
    pub leaf: bool,
}

impl RankInfo {
    /// A rank at that place of the table, without flags.
    pub const fn new(
        name: &'static str,
        owner: &'static str,
        guards: &'static str,
        order: Option<u16>,
    ) -> Self {
        Self {
            name,
            owner,
            guards,
            order,
            nested: false,
            no_io: false,
            leaf: false,
        }
    }
}

/// A type that stands for a rank.
pub trait Rank: 'static {
    /// What the table says about it.
    const INFO: &'static RankInfo;
}
