//! Files of datasets and snapshots served over HTTP.
//!
//! `http` starts servers. Each has an offer, and asks it for the site of each request. `site` is
//! one site: a file system at a host and path, in one of its states. `offer` has the sites of a
//! server, and `table` finds or starts servers. `page` lists the sites. `act` carries out requests,
//! and `follow` lets sites keep up with what happens to datasets.
//!
//! A site knows its dataset by number, so it follows when that is renamed, and does not serve
//! another one that gets its name. It opens a tree when a client comes, and opens another one when
//! that is taken away (the engine's `open_trees`) or another snapshot becomes the newest. The
//! next request then sees the new state, and files that are being sent go on as they were.

pub(crate) mod act;
pub mod dashboard;
pub(crate) mod follow;
pub(crate) mod http;
pub(crate) mod offer;
mod page;
pub(crate) mod pattern;
mod report;
pub(crate) mod site;
pub(crate) mod table;
