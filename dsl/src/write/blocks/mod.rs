//! Lists of blocks that died, and the space that blocks take.

pub(crate) mod accounting;
pub(crate) mod block_list;
pub(crate) mod dead;
pub(crate) mod livelist;
