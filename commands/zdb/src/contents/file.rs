//! Files: their attributes.

use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_base::ObjectId;
use cenote_ondisk::{NvList, NvValue};
use cenote_posix::{FLAG_PROJECT_ID, FileKind, FileSystem, Znode};

/// Prints the attributes of a file.
pub fn print(
    files: &FileSystem,
    id: ObjectId,
    level: usize,
    printer: &mut Printer,
) -> Result<(), Problem> {
    let what = || format!("object {id}");
    let znode = files.znode(id).map_err(failed(what()))?;
    if level >= 5 {
        let path = match files.path_of(id) {
            Ok(path) => format!("/{}", printer.name(&path)),
            Err(error) => {
                printer.complain(&format!("{}: its path: {error}", what()))?;
                format!("???<object#{id}>")
            }
        };
        printer.line(&format!("\tpath\t{path}"))?;
    }
    if znode.kind() == FileKind::Symlink {
        let target = files.read_link(&znode).map_err(failed(what()))?;
        printer.line(&format!("\ttarget\t{}", printer.name(&target)))?;
    }
    attributes(&znode, printer)?;
    extended(&znode, printer)?;
    let is_node = matches!(znode.kind(), FileKind::CharDevice | FileKind::BlockDevice);
    if is_node {
        let device = znode.attributes().device.to_stored();
        printer.line(&format!("\trdev\t{device:#018x}"))?;
    }
    Ok(())
}

fn attributes(znode: &Znode, printer: &mut Printer) -> Result<(), Problem> {
    let found = znode.attributes();
    let mut text = format!("\tuid     {}\n\tgid     {}\n", found.uid.0, found.gid.0);
    for (name, time) in [
        ("atime", found.accessed),
        ("mtime", found.modified),
        ("ctime", found.changed),
        ("crtime", found.created),
    ] {
        text.push_str(&format!(
            "\t{name}\t{}\n",
            printer.signed_time(time.seconds)
        ));
    }
    text.push_str(&format!(
        "\tgen\t{}\n\tmode\t{:o}\n\tsize\t{}\n\tparent\t{}\n\tlinks\t{}\n\tpflags\t{:x}\n",
        found.generation, found.mode, found.size, found.parent, found.links, found.flags
    ));
    if found.flags & FLAG_PROJECT_ID != 0 {
        text.push_str(&format!("\tprojid\t{}\n", found.project));
    }
    if let Some(directory) = found.xattr_directory {
        text.push_str(&format!("\txattr\t{directory}\n"));
    }
    printer.text(&text)
}

/// The extended attributes that are kept with the others.
fn extended(znode: &Znode, printer: &mut Printer) -> Result<(), Problem> {
    let Some(packed) = &znode.attributes().xattrs else {
        return Ok(());
    };
    let list = NvList::decode(packed).map_err(failed(format!("object {}", znode.id())))?;
    let mut text = format!(
        "\tSA xattrs: {} bytes, {} entries\n\n",
        packed.len(),
        list.len()
    );
    for (name, value) in list.iter() {
        let value = match value {
            NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) => shown(bytes),
            _ => "(not bytes)".to_owned(),
        };
        text.push_str(&format!("\t\t{} = {value}\n", printer.name(name)));
    }
    printer.text(&text)
}

/// A value as text if it is text, else each byte in octal.
fn shown(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => value.iter().map(|byte| format!("\\{byte:03o}")).collect(),
    }
}
