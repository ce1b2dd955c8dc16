//! The commands that `direct` runs, as the overview names them; their help texts are there.

/// Name and what it does, in a few words.
pub const SUMMARIES: [(&str, &str); 12] = [
    ("ls", "List directories"),
    ("tree", "Show a directory and all below it"),
    ("cat", "Write files to standard output"),
    ("cp", "Copy files and trees out of a pool"),
    ("stat", "Show everything about files"),
    ("find", "Find files by name, type, size or time"),
    ("du", "Show how much space files take"),
    ("manifest", "List everything in a dataset as JSON"),
    ("dump", "Copy a volume into a file"),
    ("verify", "Read and check every block of a pool"),
    ("inspect", "Look at the structures of a pool"),
    ("stream", "Look into send streams and check them"),
];
