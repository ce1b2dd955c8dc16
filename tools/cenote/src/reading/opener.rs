//! The devices of commands that read a pool themselves: paths, stores for reading, and exports of
//! NBD servers.

use cenote_cloud::location::{SCHEMES, known_schemes};
use cenote_cloud::{OffsetOpener, Schemes, StoreOpener, scheme};
use cenote_device::Opener;
use cenote_nbd_client::NbdOpener;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens files and disks from `offset` on, and devices in stores as of their newest commits, which
/// hinders nobody who writes there.
pub fn opener(offset: u64) -> Arc<dyn Opener> {
    let stores: Arc<dyn Opener> = Arc::new(StoreOpener::new(false));
    let exports: Arc<dyn Opener> = Arc::new(NbdOpener::default());
    let schemes = Schemes::new(Arc::new(OffsetOpener::new(offset)));
    Arc::new(schemes.with(&SCHEMES, &stores).with_nbd(&exports))
}

/// The places in a list that is separated by colons, as in a variable of the environment.
///
/// A URL has colons of its own: behind its beginning, another place begins where a colon is
/// followed by `/` (but not by `//`), by `.`, or by a URL.
pub fn listed(list: &OsStr) -> Vec<PathBuf> {
    let mut places: Vec<OsString> = Vec::new();
    let mut words = list.as_bytes().split(|byte| *byte == b':').peekable();
    while let Some(word) = words.next() {
        let begins_url = words.peek().is_some_and(|next| next.starts_with(b"//"))
            && known_schemes().any(|known| known.as_bytes() == word);
        let is_new = begins_url || word.starts_with(b".") || is_rooted(word);
        match places.last_mut() {
            Some(before) if !is_new && is_url_begun(before) => {
                let mut whole = std::mem::take(before).into_vec();
                whole.push(b':');
                whole.extend_from_slice(word);
                *before = OsString::from_vec(whole);
            }
            _ => places.push(OsStr::from_bytes(word).to_owned()),
        }
    }
    let places = places.into_iter().filter(|place| !place.is_empty());
    places.map(PathBuf::from).collect()
}

fn is_rooted(word: &[u8]) -> bool {
    word.starts_with(b"/") && !word.starts_with(b"//")
}

/// Whether a place is a URL, or what stands before the `:` of one.
fn is_url_begun(place: &OsStr) -> bool {
    let is_name = known_schemes().any(|known| known == place);
    is_name || scheme(Path::new(place)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list was taken apart at each colon: `s3://bucket` became a file `s3` and a directory.
    #[test]
    fn urls_in_a_list_stay_whole() {
        let of = |list: &str| listed(OsStr::new(list));
        let paths = |places: &[&str]| places.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(of("/a:b:/c"), paths(&["/a", "b", "/c"]));
        assert_eq!(of(":/a::"), paths(&["/a"]));
        assert_eq!(of("s3://b/p"), paths(&["s3://b/p"]));
        assert_eq!(
            of("/a:file:///srv/s:./b"),
            paths(&["/a", "file:///srv/s", "./b"])
        );
        let url = "s3://b?endpoint=https://host:9000&region=x";
        assert_eq!(of(&format!("{url}:/a:{url}")), paths(&[url, "/a", url]));
        let urls = [
            "nbd://[::1]:10809/a",
            "nbds://h/b?timeout=5",
            "nbd+unix:///e?socket=/run/s",
        ];
        assert_eq!(of(&urls.join(":")), paths(&urls));
        assert_eq!(of("s3:/a"), paths(&["s3", "/a"]), "a file of that name");
    }
}
