//! Names of devices as people write them: paths, URLs, and lists of both.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The schemes of all devices that are named by URLs.
pub const DEVICE_SCHEMES: [&str; 6] = ["s3", "file", "nbd", "nbds", "nbd+unix", "nbds+unix"];

/// Whether a device is named by a URL rather than by a path.
pub fn is_url(name: &Path) -> bool {
    scheme(name).is_some()
}

/// The scheme of a device's name: `s3` of `s3://bucket/prefix`. `None` for a path.
///
/// A scheme is of letters and digits; `+` joins two of them, as in `nbd+unix`.
pub fn scheme(name: &Path) -> Option<&str> {
    let (scheme, _) = name.to_str()?.split_once("://")?;
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
    let is_word = scheme.starts_with(|first: char| first.is_ascii_alphanumeric());
    (is_word && scheme.bytes().all(is_of_word)).then_some(scheme)
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
            && DEVICE_SCHEMES.iter().any(|known| known.as_bytes() == word);
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
    let is_name = DEVICE_SCHEMES.iter().any(|known| *known == place);
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
