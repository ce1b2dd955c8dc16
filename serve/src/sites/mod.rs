//! Files of datasets and snapshots served over HTTP.
//!
//! `http` starts servers. Each has an offer, and asks it for the site of each request. `site` is
//! one site: a file system at a host and path, either its head or one of its snapshots. `offer` has
//! the sites of a server, and `table` finds or starts servers. `page` lists the sites. `act`
//! carries out requests, and `follow` updates the sites after changes of datasets.
//!
//! A site identifies its dataset by object number. So it follows a rename, and does not serve
//! another dataset that gets the old name. It opens a tree at the first request. It opens another
//! one after the engine closed the tree (`open_trees`) or another snapshot became the newest. The
//! next request then sees the new state, and downloads under way continue from the old one.

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
