//! What `cenote help COMMAND` and `cenote COMMAND --help` print for the commands here.

/// The help of a command; `None` if it is not one of these.
pub fn text(command: &str) -> Option<String> {
    let (_, own) = TEXTS.iter().find(|(name, _)| *name == command)?;
    let pool_options = match command {
        "stream" => "",
        _ => POOL_OPTIONS,
    };
    Some(format!("{own}\n{pool_options}{EXIT_CODES}"))
}

const POOL_OPTIONS: &str = "\
Finding and opening the pool (it is only ever read):
  -d, --device PATH     look here: a device, a file, or a directory of these; may be
                        repeated. Without -d: the devices of the pool as the daemon has
                        it, the list in $CENOTE_DEVICES (separated by ':'), or
                        /dev/disk/by-id, /dev and the current directory.
      --offset BYTES    the pool's part begins so far into each device, as in an image of
                        something larger; partitions are found without
      --key [ROOT=]FROM key of the encryption root ROOT, or of whichever is needed; FROM is
                        a file, 'prompt', or '-' for standard input; may be repeated
      --replay          show files as after the replay of the intent log, which is done in
                        memory (also: -o cenote:replay=memory)
  -m, --missing-log     open the pool although a log device is missing
  -T, --txg N           open the state of txg N, or the newest one before it
  -F, --rewind          if the newest state cannot be read, try the ones just before it
  -X, --extreme-rewind  ... and then any older one
      --checkpoint      open the pool as of its checkpoint (--rewind-to-checkpoint)
      --memory SIZE     limit for caches and buffers; default 128M
A pool is given by its name or its guid, a place in it as POOL/DATASET[@SNAPSHOT]:/PATH.

";

const EXIT_CODES: &str = "\
Exit codes:
  0  everything was done and nothing is wrong
  1  something could not be done, or damage was found; standard error says what
  2  the command line is wrong; nothing was done
  3  a signal stopped the command; run again, it goes on
";

const TEXTS: &[(&str, &str)] = &[
    ("ls", LS),
    ("tree", TREE),
    ("cat", CAT),
    ("cp", CP),
    ("stat", STAT),
    ("find", FIND),
    ("du", DU),
    ("dump", DUMP),
    ("manifest", MANIFEST),
    ("verify", VERIFY),
    ("inspect", INSPECT),
    ("stream", STREAM),
];

const LS: &str = "\
usage: cenote ls [OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...

Lists directories, in order of names. Owners are shown as numbers, since the names of the
system that wrote the pool are not known here.

  -l, --long       mode (+: has an access control list), links, owner, group, size, time
  -a, --all        names that begin with a dot, too
  -R, --recursive  and all directories below
  -j, --json       a JSON object a line: path, type, mode, times in nanoseconds, ...

Example:
  cenote ls -l -d /mnt/images tank/home@monday:/alice
";

const TREE: &str = "\
usage: cenote tree [OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...

Draws a directory and all below it.

  -a, --all          names that begin with a dot, too
  -L, --depth N      go down N levels only
      --directories  directories only
";

const CAT: &str = "\
usage: cenote cat [OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...

Writes the contents of files to standard output. What cannot be read with a right checksum
is never written: the output ends there, and the exit code is 1.
";

const CP: &str = "\
usage: cenote cp [OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH... TARGET

Copies files out of a pool. Into a directory TARGET a source goes under its own name; the
root of a dataset has none, and its entries go into TARGET itself. Symbolic links in the
target are never followed. Files appear under their names when they are complete.

  -a, --archive     directories with all below, and everything that the target can hold:
                    owner (as root), mode, times to the nanosecond, holes, hard links,
                    symbolic links, devices, pipes, sockets, extended attributes, POSIX ACLs
  -r, --recursive   directories with all below, without owners, times and attributes
  -k, --keep-going  copy damaged files too: blocks that cannot be read become zeros, and each
                    is named on standard error; without -k damaged files are left out
  -q, --quiet       no progress bar
  -j, --json        progress as JSON on standard error, a summary as JSON at the end

A copy that was interrupted (also by loss of power) goes on when the same command is run
again: '.cenote-copy' in the target says what is done and safely on disk.

Example:
  cenote cp -a -d /dev/sdb tank/home@monday:/ /srv/rescued
";

const STAT: &str = "\
usage: cenote stat [OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...

Shows everything that is stored about files: also object number, generation, flags, project,
extended attributes, NFSv4 access control list.

  -L, --dereference  follow a symbolic link
  -j, --json         as JSON, values of extended attributes in base64
";

const FIND: &str = "\
usage: cenote find [OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]... [CONDITION]...

Finds files. Conditions are those of find(1); all must hold, '!' or -not turns the next one
round.

  -name PATTERN, -iname PATTERN   the name matches (-iname: in any case of letters)
  -path PATTERN                   the whole path matches
  -type LETTERS                   f file, d directory, l link, b c devices, p pipe, s socket
  -size [+-]N[ckMGT]              so many units of 512 bytes (c: 1, k: 1024, ...), rounded up
  -mtime [+-]N, -mmin [+-]N       modified N days or minutes ago
  -newer FILE|TIME                modified after FILE (here, or POOL/DATASET:/PATH) or TIME
  -empty                          an empty file or directory
  -links, -inum, -uid, -gid [+-]N
  -mindepth N, -maxdepth N

  -print0                         paths end with NUL instead of a new line
  -json                           a JSON object a line

Example:
  cenote find tank/home:/ -name '*.jpg' -size +1M ! -newer 2026-01-01T00:00:00Z
";

const DU: &str = "\
usage: cenote du [OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...

Adds up the space that is allocated for files, in KiB, for each directory. A file with
several names counts once.

  -h, --human-readable  sizes with units
  -s, --summarize       only the sum of each argument
      --depth N         show directories down to N levels only (--max-depth)
  -a, --all             files too
  -b, --apparent-size   sizes of files in bytes, not what is allocated
  -j, --json            a JSON object a line
";

const DUMP: &str = "\
usage: cenote dump [OPTION]... POOL/VOLUME[@SNAPSHOT] FILE|-

Copies a volume into a file, where its holes stay holes, onto a device, or to standard
output. Until a new file is complete its name ends in '.partial'.

  -f, --force       write over a file that is there, or onto a device
  -k, --keep-going  go on after damage; blocks that cannot be read become zeros, and each
                    is named on standard error
  -q, --quiet       no progress bar
  -j, --json        progress as JSON on standard error

Example:
  cenote dump -d /mnt/images tank/vm1@monday - | zstd > vm1.img.zst
";

const MANIFEST: &str = "\
usage: cenote manifest [OPTION]... POOL/DATASET[@SNAPSHOT]

Describes everything in a dataset as JSON: for each path of a file system type, mode, owner,
mtime in nanoseconds, inode number, links, size, target, device number and extended
attributes; of a volume its size.

      --sha256     read everything, and add its hash; files above 1 GiB have 'data' in its
                   place, [offset, length, sha256] of each stretch that is stored
  -r, --recursive  the dataset, its snapshots and bookmarks, and all datasets below

Paths that are not UTF-8 are the text {\"b64\":\"...\"}.
";

const VERIFY: &str = "\
usage: cenote verify [OPTION]... POOL

Reads every block of every dataset and snapshot once, in the order of the disks, and checks
it: its checksum, that it decompresses and, where the key is given, that it is authentic.
Then the space maps are compared with the blocks found (leaks, double allocations), and the
accounting of datasets and features with what it should be.

  -A, --all-copies  judge every copy and all parity, not only what a reader needs
      --state FILE  save the state in FILE once a minute and when interrupted, and go on
                    from there if it is of the same pool and txg
  -j, --json        the report as JSON, and progress as JSON on standard error
  -q, --quiet       no progress bar

Damaged files are named by their paths, devices that lack what was written while they were
away as stale. The exit code is 0 only when nothing is damaged and no device is stale.

Example:
  cenote verify --all-copies --state /tmp/tank.state -d /dev/disk/by-id tank
";

const INSPECT: &str = "\
usage: cenote inspect WHAT [OPTION]... ARGUMENT...

Shows what is stored, for people who study or rescue pools.

Without opening a pool, also of damaged ones (or give a pool's name and -d):
  labels DEVICE...             the four labels: health, configuration
  uberblocks DEVICE...         all uberblocks, the best first, and where they stand

Of a pool:
  config POOL                  the uberblock in use and the pool's configuration
  mos POOL                     the object directory
  features POOL                enabled features and how many things use them
  history POOL                 the log of commands and internal events
  dedup POOL                   deduplication tables and cloned blocks
  spacemaps POOL               metaslabs and their space maps; -e: every entry
  read POOL VDEV:OFFSET:SIZE   bytes by address, in hex as block pointers show it; --raw
  datasets POOL[/DATASET]      datasets, snapshots and bookmarks with their numbers
  intent-log POOL[/DATASET]    records that were not replayed; -e: every record

Of a dataset; with --mos and a pool's name, of the pool's own objects. NUMBER may be left
out when a path is given, as in POOL/DATASET:/PATH:
  objects DATASET              all objects
  object DATASET NUMBER        one: dnode, attributes, contents as far as they are known
  zap DATASET NUMBER           all entries of a ZAP
  blocks DATASET NUMBER        the tree of block pointers
  bp DATASET NUMBER LEVEL BLOCK
                               one block pointer, and the health of each of its copies

  -j, --json     JSON: one value, or one a line where there may be many
  -e, --entries  every entry
      --raw      bytes instead of hex

Example:
  cenote inspect bp -d /mnt/images tank/home:/alice/photo.jpg 0 3
";

const STREAM: &str = "\
usage: cenote stream inspect|verify [OPTION]... FILE...

Reads send streams to their ends and checks everything that is in them: each record's
checksum, and that receivers take it. A stream comes from a file, or as - from standard input.

  inspect  say what it is: snapshots, features, properties of a package, records, and
           whether it is whole or where it breaks off
  verify   say only whether it is whole; of one that is not, how to ask for the rest

  -j, --json  as JSON
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_explains_itself() {
        for (name, _) in super::super::COMMANDS {
            let text = text(name).expect("each command has a text");
            assert!(
                text.starts_with(&format!("usage: cenote {name} ")),
                "{name}"
            );
            assert!(
                text.lines().all(|line| line.chars().count() <= 94),
                "{name}"
            );
        }
        assert_eq!(text("nosuch"), None);
    }
}
