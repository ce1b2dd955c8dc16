//! What a site reports about itself.

use cenote_control::model::HttpSiteStatus;

/// The path of the page with all reports, without its slash.
pub(crate) const STATUS_PAGE: &[u8] = b"status.json";

/// A site's report for the status page.
#[derive(Clone, Debug)]
pub(crate) struct SiteReport {
    /// What it shows.
    pub status: HttpSiteStatus,
    /// Referenced bytes of the head or snapshot that it shows.
    pub bytes: u64,
    /// The source of the files: the property `cenote:upstream`.
    pub upstream: String,
}
