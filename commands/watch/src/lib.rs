//! What a running daemon measures, in the forms that other programs read.
//!
//! The daemon answers one request with all its measurements ([`figures`]). Everything here is made
//! of that answer: Prometheus' text form ([`exposition`]) with the names of other exporters beside
//! ours ([`others`]), the tree of kstats ([`kstat`]), InfluxDB's lines ([`influx`]), and the tables
//! of `arcstat` and `arc_summary`. So no two forms can disagree about what a number means.
//!
//! The daemon serves the text form to Prometheus ([`page`]), and the pages of the [`dashboard`] to
//! browsers. [`top`] shows what happens between two answers ([`sample`]) in a terminal, and
//! [`health`] what is wrong with a pool.
//!
//! Deliberately absent: pools, and the daemon's own parts. Everything here asks.

#![forbid(unsafe_code)]

pub mod arc_summary;
pub mod arcstat;
pub mod command;
pub mod dashboard;
pub mod exposition;
pub mod figures;
pub mod health;
mod influx;
pub mod kstat;
pub mod memory;
mod others;
pub mod page;
pub mod sample;
pub mod top;
