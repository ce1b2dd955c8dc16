//! What a running daemon measures, in the forms that other programs read.
//!
//! The daemon answers one request with all its measurements ([`figures`]). Everything here is made
//! of that answer: Prometheus' text form ([`exposition`]) with the names of other exporters beside
//! ours ([`others`]), the tree of kstats ([`kstat`]), InfluxDB's lines ([`influx`]), and the tables
//! of `arcstat` and `arc_summary`. So no two forms can disagree about what a number means.
//!
//! [`endpoint`] serves the text form to Prometheus, and the pages of the [`dashboard`] to browsers.
//! [`top`] shows what happens between two answers ([`sample`]) in a terminal.

pub mod arc_summary;
pub mod arcstat;
pub mod command;
pub mod dashboard;
pub mod endpoint;
mod exposition;
pub mod figures;
mod influx;
pub mod kstat;
mod others;
pub mod sample;
pub mod top;
