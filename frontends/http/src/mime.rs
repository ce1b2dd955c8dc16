//! What a file is called in `Content-Type`, by how its name ends.
//!
//! A table of the common types on mirrors and sites. It is short so that it can be reviewed. Other
//! files are `application/octet-stream`, which a client saves. With more guesses, browsers would
//! show, or run, files that are meant to be downloaded.

/// The type of what no line of the table is about.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Endings in lower case, sorted.
const TYPES: [(&str, &str); 90] = [
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apk", "application/vnd.android.package-archive"),
    ("asc", "text/plain"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/plain"),
    ("changes", "text/plain"),
    ("conf", "text/plain"),
    ("cpp", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/plain"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("dsc", "text/plain"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("h", "text/plain"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("iso", "application/x-iso9660-image"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("log", "text/plain"),
    ("lz", "application/x-lzip"),
    ("lz4", "application/x-lz4"),
    ("lzma", "application/x-lzma"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/plain"),
    ("md5", "text/plain"),
    ("mjs", "text/javascript"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("patch", "text/plain"),
    ("pdf", "application/pdf"),
    ("pem", "application/x-pem-file"),
    ("png", "image/png"),
    ("py", "text/plain"),
    ("rar", "application/vnd.rar"),
    ("rpm", "application/x-rpm"),
    ("rs", "text/plain"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "text/plain"),
    ("sha1", "text/plain"),
    ("sha256", "text/plain"),
    ("sha512", "text/plain"),
    ("sig", "application/pgp-signature"),
    ("sql", "text/plain"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "text/plain"),
    ("torrent", "application/x-bittorrent"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "text/xml"),
    ("xz", "application/x-xz"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The type of a file with that name.
pub(crate) fn of(name: &[u8]) -> &'static str {
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else {
        return UNKNOWN;
    };
    let Ok(ending) = std::str::from_utf8(&name[dot + 1..]) else {
        return UNKNOWN;
    };
    let find = |ending: &str| TYPES.binary_search_by(|(known, _)| (*known).cmp(ending));
    let lower;
    let ending = match ending.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => {
            lower = ending.to_ascii_lowercase();
            &lower
        }
        false => ending,
    };
    find(ending).map_or(UNKNOWN, |at| TYPES[at].1)
}

/// Whether it pays to have a compressed file beside one of that type.
pub(crate) fn is_compressible(kind: &str) -> bool {
    const OTHERS: [&str; 7] = [
        "application/dash+xml",
        "application/json",
        "application/rtf",
        "application/wasm",
        "application/x-tar",
        "font/otf",
        "font/ttf",
    ];
    kind.starts_with("text/") || kind.ends_with("+xml") || OTHERS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_lower_case() {
        assert!(TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let is_lower = |(ending, _): &(&str, &str)| ending.to_ascii_lowercase() == *ending;
        assert!(TYPES.iter().all(is_lower));
    }

    #[test]
    fn the_last_ending_decides() {
        for (name, expected) in [
            (&b"a.tar.gz"[..], "application/gzip"),
            (b"A.HTML", "text/html"),
            (b".html", "text/html"),
            (b"html", UNKNOWN),
            (b"a.", UNKNOWN),
            (b"a.\xff", UNKNOWN),
            (b"a.html.exe", UNKNOWN),
        ] {
            assert_eq!(of(name), expected, "{name:?}");
        }
        assert!(is_compressible("image/svg+xml") && !is_compressible("application/gzip"));
    }
}
