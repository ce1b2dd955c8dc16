//! What a site tells of itself.

use cenote_control::model::HttpSiteStatus;

/// The path of the page that has all of them, without its slash.
pub(crate) const STATUS_PAGE: &[u8] = b"status.json";

/// A site for the page on which mirrors say how old they are.
#[derive(Clone, Debug)]
pub(crate) struct SiteReport {
    /// What it shows.
    pub status: HttpSiteStatus,
    /// Bytes that the state refers to.
    pub bytes: u64,
    /// Where it comes from: the property `cenote:upstream`.
    pub upstream: String,
}
