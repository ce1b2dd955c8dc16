//! The daemon's measurements, in formats for people and other programs.
//!
//! The daemon answers one request with all its measurements ([`figures`]). All formats are
//! generated from that answer, so they cannot disagree about a number:
//!
//! - Prometheus' text format ([`exposition`]), also with the names of other exporters ([`others`]);
//! - the tree of kstats ([`kstat`]);
//! - InfluxDB's lines ([`influx`]);
//! - the tables of `arcstat`, `arc_summary` and `zilstat`.
//!
//! The daemon serves the text format to Prometheus ([`page`]), and the [`dashboard`] to browsers.
//! In a terminal, [`top`] shows the activity between two answers ([`sample`]), and [`health`] shows
//! what is wrong with a pool.
//!
//! Deliberately absent: pools, and parts of the daemon. Everything here sends requests.

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
pub mod zilstat;
