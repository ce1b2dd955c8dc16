//! A new, empty file system in a new object set (format/3b 1).

use super::access_list::trivial;
use super::create::new_flags;
use super::legacy::new_bonus;
use super::store::{Changes, add_layout, new_values, register_missing};
use crate::error::PosixError;
use crate::master::{
    CaseSensitivity, MASTER_NODE, NameRules, VERSION_MAX, VERSION_SYSTEM_ATTRIBUTES,
};
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::zap::normalize::FLAG_TOUPPER;
use cenote_dmu::{NewObject, ObjectSet, Transaction, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::master_node::{attribute_keys, keys};
use cenote_ondisk::system_attributes::{Attribute, SaTables};
use std::sync::Arc;

/// What a new file system is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatParams {
    /// How names are compared.
    pub names: NameRules,
    /// The root directory's permissions.
    pub mode: u64,
    /// Its owner.
    pub uid: u64,
    /// Its group.
    pub gid: u64,
    /// The time of its making.
    pub now: Timestamp,
    /// Whether files have project ids: the feature `project_quota` is enabled.
    pub projects: bool,
    /// `dnodesize` of the root directory in slots of 512 bytes.
    pub dnode_slots: usize,
    /// The version, 1 to [`VERSION_MAX`].
    pub version: u64,
}

impl Default for FormatParams {
    fn default() -> Self {
        Self {
            names: NameRules::default(),
            mode: 0o755,
            uid: 0,
            gid: 0,
            now: Timestamp::default(),
            projects: true,
            dnode_slots: 1,
            version: VERSION_MAX,
        }
    }
}

/// Objects of a new file system, whose numbers are those that OpenZFS takes.
#[derive(Clone, Copy)]
struct Numbers {
    delete_queue: ObjectId,
    root: ObjectId,
    attributes: Option<AttributeNumbers>,
}

/// The objects about system attributes.
#[derive(Clone, Copy)]
struct AttributeNumbers {
    master: ObjectId,
    registry: ObjectId,
    layouts: ObjectId,
}

impl Numbers {
    fn of(version: u64) -> Self {
        match version < VERSION_SYSTEM_ATTRIBUTES {
            true => Self {
                delete_queue: ObjectId(32),
                root: ObjectId(33),
                attributes: None,
            },
            false => Self {
                delete_queue: ObjectId(33),
                root: ObjectId(34),
                attributes: Some(AttributeNumbers {
                    master: ObjectId(32),
                    registry: ObjectId(35),
                    layouts: ObjectId(36),
                }),
            },
        }
    }
}

/// The flags by which directories of such a file system compare names.
pub(super) fn directory_normflags(names: NameRules) -> u64 {
    match names.case {
        CaseSensitivity::Sensitive => names.normalization,
        CaseSensitivity::Insensitive | CaseSensitivity::Mixed => names.normalization | FLAG_TOUPPER,
    }
}

fn new_zap(
    set: &Arc<ObjectSet>,
    tx: &Transaction,
    id: ObjectId,
    object_type: ObjectType,
) -> Result<Zap, PosixError> {
    let object = set.allocate_at(tx, id, NewObject::new(object_type, 512))?;
    Ok(Zap::initialize(&object, tx, NewZap::default())?)
}

/// Makes an empty file system in `set`, which has no object yet; returns the root directory.
pub fn format_new(
    set: &Arc<ObjectSet>,
    tx: &Transaction,
    params: &FormatParams,
) -> Result<ObjectId, PosixError> {
    // From the first sync on, the root directory counts.
    set.set_owner_hook(Arc::new(super::PosixOwnerHook));
    let master = new_zap(set, tx, MASTER_NODE, ObjectType::MASTER_NODE)?;
    let names = params.names;
    let case = match names.case {
        CaseSensitivity::Sensitive => 0,
        CaseSensitivity::Insensitive => 1,
        CaseSensitivity::Mixed => 2,
    };
    master.insert_u64(tx, keys::NORMALIZATION, names.normalization)?;
    master.insert_u64(tx, keys::UTF8_ONLY, u64::from(names.utf8_only))?;
    master.insert_u64(tx, keys::CASE_SENSITIVITY, case)?;
    master.insert_u64(tx, keys::VERSION, params.version)?;
    let numbers = Numbers::of(params.version);
    let mut sa_master = None;
    if let Some(numbers) = numbers.attributes {
        let made = new_zap(set, tx, numbers.master, ObjectType::SA_MASTER_NODE)?;
        master.insert_u64(tx, keys::SA_MASTER_NODE, numbers.master.0)?;
        sa_master = Some((made, numbers));
    }
    new_zap(set, tx, numbers.delete_queue, ObjectType::DELETE_QUEUE)?;
    master.insert_u64(tx, keys::DELETE_QUEUE, numbers.delete_queue.0)?;
    let attributes = root_attributes(tx, params, numbers.root);
    let (bonus_type, bonus) = match sa_master {
        Some((sa_master, numbers)) => {
            let (tables, layouts) = new_tables(set, tx, &sa_master, numbers)?;
            let bonus = first_layout(tx, tables, &layouts, &attributes)?;
            (ObjectType::SYSTEM_ATTRIBUTES, bonus)
        }
        // A list that only repeats the mode has at most six entries, for which there is room.
        None => (ObjectType::ZNODE, new_bonus(&attributes, params.version)?.0),
    };
    let mut new = NewObject::new(ObjectType::DIRECTORY, 512).with_bonus(bonus_type, bonus);
    new.slots = params.dnode_slots;
    let root = set.allocate_at(tx, numbers.root, new)?;
    let new = NewZap {
        normflags: directory_normflags(names),
        ..NewZap::default()
    };
    Zap::initialize(&root, tx, new)?;
    master.insert_u64(tx, keys::ROOT, numbers.root.0)?;
    Ok(numbers.root)
}

/// The two tables of attributes.
fn new_tables(
    set: &Arc<ObjectSet>,
    tx: &Transaction,
    sa_master: &Zap,
    numbers: AttributeNumbers,
) -> Result<(SaTables, Zap), PosixError> {
    let mut tables = SaTables::default();
    let registry = new_zap(set, tx, numbers.registry, ObjectType::SA_REGISTRY)?;
    register_missing(tx, &registry, &mut tables)?;
    sa_master.insert_u64(tx, attribute_keys::REGISTRY, numbers.registry.0)?;
    let layouts = new_zap(set, tx, numbers.layouts, ObjectType::SA_LAYOUTS)?;
    sa_master.insert_u64(tx, attribute_keys::LAYOUTS, numbers.layouts.0)?;
    Ok((tables, layouts))
}

/// The root directory's bonus buffer, whose layout is the first.
fn first_layout(
    tx: &Transaction,
    mut tables: SaTables,
    layouts: &Zap,
    attributes: &Changes,
) -> Result<Vec<u8>, PosixError> {
    let values = new_values(&tables, attributes);
    let numbers: Vec<u16> = values.numbers().collect();
    let layout = add_layout(tx, layouts, &mut tables, &numbers)?;
    let bonus = values.encode(&tables, layout, 0..numbers.len());
    Ok(bonus.expect("a root directory's attributes are few"))
}

fn root_attributes(tx: &Transaction, params: &FormatParams, root: ObjectId) -> Changes {
    let mode = 0o040_000 | params.mode & 0o7777;
    let projects = params.projects && params.version >= VERSION_SYSTEM_ATTRIBUTES;
    let flags = new_flags(mode, true, projects);
    let mut attributes = Changes::new()
        .word(Attribute::Mode, mode)
        .word(Attribute::Size, 2)
        .word(Attribute::Gen, tx.txg().0)
        .word(Attribute::Uid, params.uid)
        .word(Attribute::Gid, params.gid)
        .word(Attribute::Parent, root.0)
        .word(Attribute::Flags, flags);
    for time in [
        Attribute::Atime,
        Attribute::Mtime,
        Attribute::Ctime,
        Attribute::Crtime,
    ] {
        attributes = attributes.time(time, params.now);
    }
    attributes = attributes.word(Attribute::Links, 2);
    if projects {
        attributes = attributes.word(Attribute::ProjectId, 0);
    }
    attributes.access_list(&trivial(mode, true))
}
