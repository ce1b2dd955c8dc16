//! Images whose contents are partly in other files.
//!
//! An image may name a backing file, a data file or extents. `qemu-img` reads these files with its
//! user's rights. So an image from elsewhere could copy any file of this machine into a volume that
//! its sender can read. Such images are refused, based on their headers, before `qemu-img` opens
//! them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a header to examine.
const HEADER: usize = 80;
/// Bytes of a vmdk's description to examine.
const DESCRIPTION: usize = 64 << 10;
/// The default offset of a vmdk's description.
const DESCRIPTION_AT: u64 = 512;

/// Reads up to `length` bytes at `offset`; zeros after the end of the file.
fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut done) = (vec![0; length], 0);
    while done < length {
        match file.read_at(&mut bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn number<const BYTES: usize>(header: &[u8], at: usize) -> [u8; BYTES] {
    header[at..at + BYTES]
        .try_into()
        .expect("it lies in the header")
}

/// Which part of an image of this format is in other files, if any.
pub fn other_files(file: &File, format: &str) -> io::Result<Option<&'static str>> {
    let header = read(file, 0, HEADER)?;
    let big = |at: usize| u64::from_be_bytes(number(&header, at));
    let little = |at: usize| u64::from_le_bytes(number(&header, at));
    match &header[..4] {
        b"QFI\xfb" => {
            let version = u32::from_be_bytes(number(&header, 4));
            Ok(match (big(8), version) {
                (0, 3..) if big(72) & 4 != 0 => Some("its data"),
                (0, _) => None,
                _ => Some("a backing file"),
            })
        }
        b"QED\0" => Ok((little(16) & 1 != 0).then_some("a backing file")),
        b"KDMV" if little(12) == 0 => Ok(Some("its extents")),
        b"KDMV" | b"COWD" => {
            let named = little(28).saturating_mul(512);
            for place in [DESCRIPTION_AT, named] {
                let text = read(file, place, DESCRIPTION)?;
                let hint = b"parentFileNameHint";
                if text.windows(hint.len()).any(|window| window == hint) {
                    return Ok(Some("a parent"));
                }
            }
            Ok(None)
        }
        // Only a description, without data.
        _ if format == "vmdk" => Ok(Some("its extents")),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], format: &str) -> Option<&'static str> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        let file = File::open(file.path()).expect("opened");
        other_files(&file, format).expect("read")
    }

    fn with(magic: &[u8], parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        bytes[..magic.len()].copy_from_slice(magic);
        for (at, part) in parts {
            bytes[*at..*at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    /// Previously, an image could name a file of the host and so import its contents.
    #[test]
    fn images_that_name_other_files_are_recognized() {
        let (two, three) = (&[0, 0, 0, 2][..], &[0, 0, 0, 3][..]);
        let qcow2 = |parts: &[(usize, &[u8])]| found(&with(b"QFI\xfb", parts), "qcow2");
        assert_eq!(qcow2(&[(4, two)]), None);
        assert_eq!(qcow2(&[(4, three)]), None);
        assert_eq!(qcow2(&[(4, three), (15, &[104])]), Some("a backing file"));
        assert_eq!(qcow2(&[(4, two), (8, &[1])]), Some("a backing file"));
        assert_eq!(qcow2(&[(4, three), (79, &[4])]), Some("its data"));
        assert_eq!(qcow2(&[(4, two), (79, &[4])]), None, "it has no such field");
        assert_eq!(found(&with(b"QED\0", &[]), "qed"), None);
        let qed = found(&with(b"QED\0", &[(16, &[1])]), "qed");
        assert_eq!(qed, Some("a backing file"));
        let vmdk = |parts: &[(usize, &[u8])]| found(&with(b"KDMV", parts), "vmdk");
        let hint = b"parentFileNameHint=\"/etc/shadow\"";
        assert_eq!(vmdk(&[(12, &[8])]), None);
        assert_eq!(vmdk(&[]), Some("its extents"), "no capacity of its own");
        assert_eq!(vmdk(&[(12, &[8]), (600, hint)]), Some("a parent"));
        let moved = vmdk(&[(12, &[8]), (28, &[3]), (1600, hint)]);
        assert_eq!(moved, Some("a parent"));
        let text = b"# Disk DescriptorFile\nRW 2048 FLAT \"/etc/shadow\" 0\n";
        assert_eq!(found(text, "vmdk"), Some("its extents"));
        assert_eq!(found(b"", "raw"), None);
    }
}
