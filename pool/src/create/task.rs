//! What the first transaction group of a pool puts into it, beside the space maps.

use super::{CreateError, CreateRequest, NewLeaf, distributed_spares, leaf};
use crate::devices::auxiliary_label::{is_wholly_spare, label_of, waiting_spare};
use crate::mos::packed_list;
use crate::sync::{Actor, log_command, store_packed};
use cenote_base::{Env, Guid, ObjectId, Txg};
use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{NewObject, Zap};
use cenote_dsl::write::{Encryption, Format, Setting, SyncContext, SyncTask};
use cenote_dsl::{DslError, Stored, directory_keys as keys};
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::features;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::uberblock::TXG_INITIAL;
use cenote_ondisk::vdev_zap;
use cenote_ondisk::{NvList, NvValue, ObjectType, VdevConfig, VdevKind};
use cenote_vdev::create::natural_ashift;
use cenote_vdev::{AllocationClass, DeviceLabels, format_labels};

/// Gives vdevs their ZAPs (format/1c.8).
pub(crate) struct VdevZaps<'a> {
    context: &'a SyncContext<'a>,
    map: Zap,
}

impl<'a> VdevZaps<'a> {
    /// Finds the table of all vdev ZAPs, or makes it.
    pub fn open(context: &'a SyncContext<'a>) -> Result<Self, DslError> {
        let found = context.dsl.object_directory().object(keys::VDEV_ZAP_MAP)?;
        let map = match found {
            Some(map) => context.mos().zap(map)?,
            None => {
                let map = empty_zap(context, ObjectType::ZAP_METADATA)?;
                context.set_directory_number(keys::VDEV_ZAP_MAP, map.object().id().0)?;
                map
            }
        };
        Ok(Self { context, map })
    }

    fn create(&self) -> Result<Zap, DslError> {
        let zap = empty_zap(self.context, ObjectType::ZAP_METADATA)?;
        let id = zap.object().id().0;
        let key = format!("{id:x}");
        self.map.update_u64(self.context.tx, &key, id)?;
        Ok(zap)
    }

    /// Gives the root vdev its ZAP, if the pool has such.
    pub fn root(&self, root: &mut VdevConfig) -> Result<(), DslError> {
        let features = self.context.dsl.features();
        if root.root_zap.is_none() && features.get(features::VDEV_ZAPS_V2).is_some() {
            root.root_zap = Some(self.create()?.object().id());
            self.context.feature_changed(features::VDEV_ZAPS_V2, 1)?;
        }
        Ok(())
    }

    /// Gives a leaf its ZAP, unless it has one.
    pub fn leaf(&self, leaf: &mut VdevConfig) -> Result<(), DslError> {
        if leaf.leaf_zap.is_none() {
            leaf.leaf_zap = Some(self.create()?.object().id());
        }
        Ok(())
    }

    /// Frees the ZAP of a vdev that is no more.
    pub fn remove(&self, zap: ObjectId) -> Result<(), DslError> {
        let key = format!("{:x}", zap.0);
        self.map.remove(self.context.tx, key.as_str())?;
        Ok(self.context.mos().free(self.context.tx, zap)?)
    }

    /// Gives a top-level vdev and its leaves their ZAPs and notes its class.
    pub fn top(&self, top: &mut VdevConfig, class: AllocationClass) -> Result<(), DslError> {
        let mut stack = vec![&mut *top];
        while let Some(vdev) = stack.pop() {
            if vdev.children.is_empty() && vdev.leaf_zap.is_none() {
                vdev.leaf_zap = Some(self.create()?.object().id());
            }
            stack.extend(vdev.children.iter_mut().rev());
        }
        let zap = self.create()?;
        top.top_zap = Some(zap.object().id());
        let bias = match class {
            AllocationClass::Normal => None,
            AllocationClass::Log => Some("log"),
            AllocationClass::Special => Some("special"),
            AllocationClass::Dedup => Some("dedup"),
        };
        if let Some(bias) = bias {
            zap.update(
                self.context.tx,
                vdev_zap::top::ALLOCATION_BIAS,
                &ZapValue::from_text(bias),
            )?;
        }
        if matches!(class, AllocationClass::Special | AllocationClass::Dedup) {
            self.context
                .feature_changed(features::ALLOCATION_CLASSES, 1)?;
        }
        if top.kind == VdevKind::Draid {
            self.context.feature_changed(features::DRAID, 1)?;
        }
        Ok(())
    }
}

fn empty_zap(context: &SyncContext<'_>, kind: ObjectType) -> Result<Zap, DslError> {
    let object = context
        .mos()
        .allocate(context.tx, NewObject::new(kind, 512))?;
    Ok(Zap::initialize(&object, context.tx, NewZap::default())?)
}

/// Sets stored properties of the pool.
pub(crate) fn set_pool_properties(
    context: &SyncContext<'_>,
    properties: &[(String, Stored)],
) -> Result<(), DslError> {
    if properties.is_empty() {
        return Ok(());
    }
    let found = context
        .dsl
        .object_directory()
        .object(keys::POOL_PROPERTIES)?;
    let table = match found {
        Some(table) => context.mos().zap(table)?,
        None => {
            let table = empty_zap(context, ObjectType::POOL_PROPERTIES)?;
            context.set_directory_number(keys::POOL_PROPERTIES, table.object().id().0)?;
            table
        }
    };
    for (name, value) in properties {
        let value = match value {
            Stored::Number(number) => ZapValue::from_u64(*number),
            Stored::Text(text) => ZapValue::from_text(text),
        };
        table.update(context.tx, name, &value)?;
    }
    Ok(())
}

/// The configuration of a spare or cache device, whose labels are written: they belong to no txg
/// (format/1a.4). A device that is a spare stays the one that it is, since other pools may list it
/// by its guid. `listed` are the guids that the pool has: one with such a guid is a copy.
pub(crate) fn auxiliary(
    new: &NewLeaf,
    (state, version): (PoolState, u64),
    env: &dyn Env,
    listed: &mut Vec<Guid>,
) -> Result<VdevConfig, CreateError> {
    let mut config = leaf(new, env, Txg(0))?;
    config.is_spare = state == PoolState::Spare;
    config.ashift = Some(natural_ashift([new.device.as_ref()]));
    let labels = DeviceLabels::read(new.device.as_ref());
    let shared = waiting_spare(&labels).filter(|guid| !listed.contains(guid));
    config.guid = shared.filter(|_| config.is_spare).unwrap_or(config.guid);
    listed.push(config.guid);
    if config.is_spare && is_wholly_spare(&labels, config.guid) {
        return Ok(config);
    }
    let list = label_of(&config, state, version);
    format_labels(new.device.as_ref(), Some(&list))?;
    Ok(config)
}

/// Appends to the pool's list of spares or cache devices.
pub(crate) fn add_auxiliary(
    context: &SyncContext<'_>,
    key: &'static str,
    vdevs: &[VdevConfig],
) -> Result<(), DslError> {
    let new = vdevs.iter().map(|vdev| vdev.encode(Place::Mos));
    match vdevs.is_empty() {
        true => Ok(()),
        false => change_auxiliaries(context, key, |lists| lists.extend(new)),
    }
}

/// Takes a vdev from the pool's list of spares or cache devices.
pub(crate) fn remove_auxiliary(
    context: &SyncContext<'_>,
    key: &'static str,
    vdev: Guid,
) -> Result<(), DslError> {
    change_auxiliaries(context, key, |lists| {
        lists.retain(|list| list.get_u64("guid") != Some(vdev.0));
    })
}

/// Changes the pool's list of spares or cache devices. One without entries is not created.
pub(crate) fn change_auxiliaries(
    context: &SyncContext<'_>,
    key: &'static str,
    change: impl FnOnce(&mut Vec<NvList>),
) -> Result<(), DslError> {
    let found = context.dsl.object_directory().object(key)?;
    let mut lists: Vec<NvList> = Vec::new();
    if let Some(object) = found {
        let list = packed_list(context.mos(), object)?;
        lists.extend_from_slice(list.get_list_array(key).unwrap_or_default());
    }
    change(&mut lists);
    if found.is_none() && lists.is_empty() {
        return Ok(());
    }
    let mut list = NvList::new();
    list.set(key, NvValue::ListArray(lists));
    let object = store_packed(context, found, &list)?;
    context.set_directory_number(key, object.0)
}

/// Makes the root dataset and everything else of a new pool that is not hidden.
pub(super) struct Populate {
    root_properties: Vec<Setting>,
    encryption: Encryption,
    format: Option<Format>,
    properties: Vec<(String, Stored)>,
    pub spares: Vec<VdevConfig>,
    pub cache_devices: Vec<VdevConfig>,
    command: Option<String>,
    actor: Actor,
}

impl Populate {
    pub fn new(
        request: CreateRequest,
        tops: &[VdevConfig],
        env: &dyn Env,
    ) -> Result<Self, CreateError> {
        let version = request.version;
        let mut listed = Vec::new();
        let mut auxiliaries = |new: &[NewLeaf], state| {
            let new = new.iter();
            let configs = new.map(|new| auxiliary(new, (state, version), env, &mut listed));
            configs.collect::<Result<Vec<_>, _>>()
        };
        let mut spares = auxiliaries(&request.spares, PoolState::Spare)?;
        let cache_devices = auxiliaries(&request.cache_devices, PoolState::CacheDevice)?;
        for top in tops {
            spares.extend(distributed_spares(top, env, TXG_INITIAL)?);
        }
        Ok(Self {
            root_properties: request.root_properties,
            encryption: request.encryption,
            format: request.format,
            properties: request.properties,
            spares,
            cache_devices,
            command: request.command,
            actor: request.actor,
        })
    }
}

impl SyncTask for Populate {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let name = context.dsl.pool_name();
        context.plan_encryption(name, None, &self.encryption)?;
        let room = context.dsl.root()?.available()?;
        context.check_root_settings(name, &self.root_properties, room)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let root: ObjectId = context.dsl.root()?.id();
        let head = context.create_head(root, context.dsl.origin_snapshot())?;
        let dataset = context.dsl.dataset_of(head)?;
        for setting in &self.root_properties {
            context.account_setting(&dataset, setting)?;
        }
        context.apply_settings(root, &self.root_properties)?;
        let name = context.dsl.pool_name();
        let plan = context.plan_encryption(name, None, &self.encryption)?;
        let keys = plan.map(|plan| context.create_keys(root, head, &plan));
        let format = self.format.take();
        context.format_head(head, ObjsetKind::Zfs, keys.transpose()?, format)?;
        set_pool_properties(context, &self.properties)?;
        add_auxiliary(context, keys::SPARES, &self.spares)?;
        add_auxiliary(context, keys::CACHE_DEVICES, &self.cache_devices)?;
        if let Some(command) = &self.command {
            log_command(context, &self.actor, command)?;
        }
        Ok(())
    }
}
