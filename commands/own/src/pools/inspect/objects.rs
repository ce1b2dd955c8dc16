//! Objects, the contents of known types, and their blocks.

use super::arguments::{Arguments, wrong};
use super::node::{Members, Node};
use super::printer::{Printer, failed};
use crate::reading::failure::{Failure, posix_words};
use crate::reading::session::Session;
use crate::reading::spec::Spec;
use cenote_base::{BlockId, ObjectId};
use cenote_dmu::zap::{ZapKey, ZapValue};
use cenote_dmu::{Object, ObjectSet};
use cenote_dsl::DslError;
use cenote_ondisk::block_pointer::Protection;
use cenote_ondisk::nvlist::PACKED_SIZE_MAX;
use cenote_ondisk::object_type::ByteswapClass;
use cenote_ondisk::{BlockPointer, Dnode, NvList, ObjectType, wire};
use cenote_posix::SymlinkPolicy;
use cenote_words::format::number::nicebytes;
use std::sync::Arc;

/// Entries of a ZAP that `inspect object` shows; `inspect zap` shows all.
const ENTRIES_SHOWN: usize = 256;

/// A ZAP's value: a number, numbers, text or bytes.
pub fn zap_value(value: &ZapValue) -> Node {
    if let Some(number) = value.as_u64() {
        return number.into();
    }
    if let Some(words) = value.as_u64s() {
        return words
            .into_iter()
            .map(Node::Number)
            .collect::<Vec<_>>()
            .into();
    }
    match (value.as_bytes(), value.as_u16s()) {
        (Some(bytes), _) => match bytes.strip_suffix(b"\0") {
            Some(text) if !text.iter().any(u8::is_ascii_control) => Node::Name(text.to_vec()),
            _ => Node::Bytes(bytes.to_vec()),
        },
        (None, Some(words)) => {
            let numbers = words.into_iter().map(|word| Node::Number(word.into()));
            numbers.collect::<Vec<_>>().into()
        }
        (None, None) => format!("{value:?}").into(),
    }
}

fn zap_key(key: &ZapKey) -> Node {
    match key {
        ZapKey::Name(name) => Node::Name(name.clone()),
        ZapKey::Words(words) => words
            .iter()
            .map(|word| Node::Number(*word))
            .collect::<Vec<_>>()
            .into(),
    }
}

/// The fields of a dnode.
fn dnode_node(id: ObjectId, dnode: &Dnode) -> Members {
    let mut members = Members::new();
    members.put("object", id.0);
    members.put("type", dnode.object_type.to_string());
    members.put("bonus_type", dnode.bonus_type.to_string());
    members.put("levels", u64::from(dnode.levels));
    members.put("data_block_size", dnode.data_block_size);
    members.put("indirect_block_size", dnode.indirect_block_size());
    members.put("block_id_max", dnode.block_id_max.0);
    members.put("used", dnode.used_bytes());
    members.put("slots", dnode.slots() as u64);
    members.put("checksum", u64::from(dnode.checksum));
    members.put("compression", u64::from(dnode.compression));
    members.put("flags", u64::from(dnode.flags));
    members
}

/// `inspect objects DATASET`.
pub fn objects(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let set = arguments.object_set(&session, &spec)?;
    printer.title("    OBJECT  LVL  BLOCK   INDIR     USED  SLOTS  TYPE (BONUS)")?;
    for item in set.objects(ObjectId(1)) {
        match item {
            Ok((id, dnode)) => {
                let text = format!(
                    "{:>10}  {:>3}  {:>5}  {:>6}  {:>7}  {:>5}  {} ({})",
                    id.0,
                    dnode.levels,
                    nicebytes(dnode.data_block_size),
                    nicebytes(dnode.indirect_block_size()),
                    nicebytes(dnode.used_bytes()),
                    dnode.slots(),
                    dnode.object_type,
                    dnode.bonus_type
                );
                printer.row(dnode_node(id, &dnode), &text)?;
            }
            Err(error) => printer.complain(&format!("{}: {error}", spec.dataset)),
        }
    }
    Ok(())
}

/// The object that the operands name, by number or by a file's path.
fn named(
    arguments: &Arguments,
    session: &Session,
    spec: &Spec,
) -> Result<(Arc<ObjectSet>, Object), Failure> {
    let (set, id) = match (&spec.path, arguments.mos) {
        (Some(path), false) => {
            let open = session.file_system(spec)?;
            let znode = open.resolve(path, SymlinkPolicy::FollowParents)?;
            (Arc::clone(open.files.set()), znode.id())
        }
        _ => {
            let id = arguments.number(1, "an object's number, or DATASET:/path")?;
            (arguments.object_set(session, spec)?, ObjectId(id))
        }
    };
    let object = set.object(id).map_err(failed(spec.dataset.as_str()))?;
    Ok((set, object))
}

/// `inspect object DATASET NUMBER`, `inspect object DATASET:/path`.
pub fn object(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let (set, object) = named(arguments, &session, &spec)?;
    let dnode = object.dnode();
    let mut members = dnode_node(object.id(), dnode);
    let pointers = dnode
        .block_pointers
        .iter()
        .map(|pointer| pointer.to_string().into());
    members.put("block_pointers", pointers.collect::<Vec<_>>());
    members.put_some("spill", dnode.spill.map(|pointer| pointer.to_string()));
    if !dnode.bonus.is_empty() {
        members.put("bonus", Node::Bytes(dnode.bonus.clone()));
    }
    let is_file = matches!(
        dnode.bonus_type,
        ObjectType::ZNODE | ObjectType::SYSTEM_ATTRIBUTES
    );
    if is_file && !arguments.mos {
        put_file(&session, &spec, object.id(), &mut members, printer)?;
    }
    if dnode.object_type.byteswap_class() == Some(ByteswapClass::Zap) {
        put_zap(&set, object.id(), &mut members, printer);
    }
    if dnode.object_type == ObjectType::PACKED_NVLIST {
        match packed_list(&set, object.id()) {
            Ok(list) => _ = members.put("list", Node::from(&list)),
            Err(error) => printer.complain(&error.to_string()),
        }
    }
    printer.node(members)
}

/// Adds the properties of a file.
fn put_file(
    session: &Session,
    spec: &Spec,
    id: ObjectId,
    members: &mut Members,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let open = session.file_system(spec)?;
    match open.files.path_of(id) {
        Ok(path) => _ = members.put("path", Node::Name([b"/", path.as_slice()].concat())),
        Err(error) => printer.complain(&posix_words(&error)),
    }
    match open.files.znode(id) {
        Ok(znode) => {
            let attributes = znode.attributes();
            let mut file = Members::new();
            file.put("mode", format!("{:o}", attributes.mode));
            file.put("size", attributes.size);
            file.put("links", attributes.links);
            file.put("parent", attributes.parent.0);
            file.put("generation", attributes.generation);
            file.put("uid", attributes.uid.0);
            file.put("gid", attributes.gid.0);
            file.put("flags", format!("{:#x}", attributes.flags));
            file.put("project", attributes.project);
            file.put_some("xattr_directory", attributes.xattr_directory.map(|id| id.0));
            file.put_some("target", attributes.symlink.clone().map(Node::Name));
            members.put("file", file);
        }
        Err(error) => printer.complain(&posix_words(&error)),
    }
    Ok(())
}

fn put_zap(set: &Arc<ObjectSet>, id: ObjectId, members: &mut Members, printer: &mut Printer) {
    let zap = match set.zap(id) {
        Ok(zap) => zap,
        Err(error) => return printer.complain(&error.to_string()),
    };
    members.put("zap_entries", zap.count());
    let mut shown = Vec::new();
    for entry in zap.entries().take(ENTRIES_SHOWN) {
        match entry {
            Ok(entry) => {
                let mut pair = Members::new();
                pair.put("key", zap_key(&entry.key));
                pair.put("value", zap_value(&entry.value));
                shown.push(pair.into());
            }
            Err(error) => return printer.complain(&error.to_string()),
        }
    }
    members.put("zap", shown);
}

/// `inspect zap DATASET NUMBER`.
pub fn zap(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let (set, object) = named(arguments, &session, &spec)?;
    let what = format!("{}, object {}", spec.dataset, object.id());
    let zap = set.zap(object.id()).map_err(failed(what.as_str()))?;
    for entry in zap.entries() {
        let entry = entry.map_err(failed(what.as_str()))?;
        let mut pair = Members::new();
        let (key, value) = (zap_key(&entry.key), zap_value(&entry.value));
        let text = format!("{} = {}", key.text().trim_end(), value.text().trim_end());
        pair.put("key", key);
        pair.put("value", value);
        printer.row(pair, &text)?;
    }
    Ok(())
}

/// The fields of a block pointer.
fn pointer_node(level: u8, block: u64, pointer: &BlockPointer) -> Members {
    let mut members = Members::new();
    members.put("level", u64::from(level));
    members.put("block", block);
    members.put("text", pointer.to_string());
    if pointer.is_hole() {
        members.put("hole", true);
        return members;
    }
    let dvas = pointer.dvas().map(|dva| {
        let mut members = Members::new();
        members.put("vdev", dva.vdev().0);
        members.put("offset", dva.offset());
        members.put("allocated", dva.asize());
        members.put("gang", dva.is_gang());
        Node::from(members)
    });
    if !pointer.is_embedded() {
        members.put("copies", dvas.collect::<Vec<_>>());
    }
    members.put("embedded", pointer.is_embedded());
    members.put("type", pointer.object_type().to_string());
    members.put("logical_size", pointer.logical_size());
    members.put("physical_size", pointer.physical_size());
    members.put("compression", u64::from(pointer.compression_number()));
    members.put("checksum_function", u64::from(pointer.checksum_number()));
    members.put("logical_birth", pointer.logical_birth().0);
    members.put("physical_birth", pointer.physical_birth().0);
    members.put("fill", pointer.fill());
    members.put("dedup", pointer.is_dedup());
    members.put(
        "byte_order",
        if pointer.is_little_endian() {
            "little"
        } else {
            "big"
        },
    );
    let protection = match pointer.protection() {
        Protection::None => "none",
        Protection::Encrypted => "encrypted",
        Protection::Authenticated => "authenticated",
        Protection::IndirectMac => "mac of children",
    };
    members.put("protection", protection);
    let checksum = pointer
        .checksum()
        .map(|word| Node::Text(format!("{word:016x}")));
    members.put("checksum", Vec::from(checksum));
    members
}

/// `inspect blocks DATASET NUMBER`: the block tree, parents first.
pub fn blocks(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let (_, object) = named(arguments, &session, &spec)?;
    let what = format!("{}, object {}", spec.dataset, object.id());
    let dnode = object.dnode();
    let fanout = dnode.indirect_fanout_shift();
    // The last printed block of each level.
    let mut last: Vec<Option<u64>> = vec![None; usize::from(dnode.levels)];
    let mut next = BlockId(0);
    while let Some(block) = object
        .next_data_block(next)
        .map_err(failed(what.as_str()))?
    {
        for level in (0..dnode.levels).rev() {
            let number = block.0.checked_shr(fanout * u32::from(level)).unwrap_or(0);
            if last[usize::from(level)] == Some(number) {
                continue;
            }
            last[usize::from(level)] = Some(number);
            let pointer = object.block_pointer(level, BlockId(number));
            let pointer = pointer.map_err(failed(what.as_str()))?;
            let text = format!("L{level} {number:>8}  {pointer}");
            printer.row(pointer_node(level, number, &pointer), &text)?;
        }
        match block.0.checked_add(1) {
            Some(number) => next = BlockId(number),
            None => break,
        }
    }
    if let Some(spill) = &dnode.spill {
        printer.row(
            pointer_node(0, u64::MAX, spill),
            &format!("spill        {spill}"),
        )?;
    }
    Ok(())
}

/// `inspect bp DATASET NUMBER LEVEL BLOCK`: one pointer, and the state of each of its copies.
pub fn block_pointer(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let (_, object) = named(arguments, &session, &spec)?;
    // A path is used instead of the object's number.
    let first = if spec.path.is_some() && !arguments.mos {
        1
    } else {
        2
    };
    let level = u8::try_from(arguments.number(first, "a level")?).unwrap_or(u8::MAX);
    if level >= object.dnode().levels {
        let levels = object.dnode().levels;
        return Err(wrong(format!(
            "the object has {levels} levels, counted from 0"
        )));
    }
    let block = arguments.number(first + 1, "a block's number")?;
    let what = format!("{}, object {}", spec.dataset, object.id());
    let pointer = object
        .block_pointer(level, BlockId(block))
        .map_err(failed(what.as_str()))?;
    let mut members = pointer_node(level, block, &pointer);
    if !pointer.is_hole() && !pointer.is_embedded() && !pointer.is_gang() {
        members.put(
            "health",
            copies(&session, &object, &pointer, (level, block), printer),
        );
    }
    printer.node(members)
}

/// The state of each leaf's part of each copy.
fn copies(
    session: &Session,
    object: &Object,
    pointer: &BlockPointer,
    (level, block): (u8, u64),
    printer: &mut Printer,
) -> Vec<Node> {
    let pipeline = session.pool().cache().pipeline();
    let bookmark = cenote_base::Bookmark {
        objset: object.set().id(),
        object: object.id(),
        level: cenote_base::Level(level),
        block: BlockId(block),
    };
    let verify = |data: &[u8]| pipeline.verify(pointer, data, bookmark).unwrap_or(false);
    let size = usize::try_from(pointer.physical_size()).unwrap_or(0);
    let mut nodes = Vec::new();
    for dva in pointer.dvas() {
        let checked = pipeline.vdevs().check_copies(
            dva,
            size,
            pointer.physical_birth(),
            &verify,
            object.set().io(),
        );
        let report = match checked {
            Ok(report) => report,
            Err(error) => {
                printer.complain(&format!("{dva}: {error}"));
                continue;
            }
        };
        for verdict in &report.verdicts {
            let mut members = Members::new();
            members.put("address", dva.to_string());
            members.put("leaf", leaf_name(session, verdict.leaf));
            members.put("role", format!("{:?}", verdict.role).to_lowercase());
            members.put("health", format!("{:?}", verdict.health).to_lowercase());
            nodes.push(members.into());
        }
    }
    nodes
}

fn leaf_name(session: &Session, guid: cenote_base::Guid) -> String {
    let tree = session.pool().vdev_tree();
    let mut leaves = tree.leaves();
    let path = leaves
        .find(|leaf| leaf.guid == guid)
        .and_then(|leaf| leaf.path.as_ref());
    path.map_or_else(|| guid.to_string(), |path| path.display().to_string())
}

/// The packed list in an object; its length is in the bonus buffer.
pub fn packed_list(set: &Arc<ObjectSet>, id: ObjectId) -> Result<NvList, DslError> {
    let structure = "packed nvlist object";
    let object = set.object(id)?;
    let length = wire::u64_le(&object.dnode().bonus, 0, structure);
    let length = length.map_err(|source| object.malformed(source))?;
    let whole = usize::try_from(length).unwrap_or(usize::MAX);
    if whole > PACKED_SIZE_MAX {
        let source = cenote_ondisk::DecodeError::BadValue {
            structure,
            field: "length",
            value: length,
        };
        return Err(object.malformed(source).into());
    }
    let mut bytes = vec![0; whole];
    object.read(0, &mut bytes)?;
    Ok(NvList::decode(&bytes).map_err(|source| object.malformed(source))?)
}
