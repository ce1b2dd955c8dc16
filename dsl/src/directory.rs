//! DSL directories: the tree in which datasets hang, with their limits and space accounting.

use crate::crypto_key::CryptoKey;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::{DatasetName, NESTING_MAX, is_hidden_component};
use crate::once::get_or_try;
use crate::property::stored::StoredProperties;
use cenote_base::ObjectId;
use cenote_dmu::{IoContext, Object, Zap};
use cenote_ondisk::dsl_dir::{DslDir, FLAG_USED_BREAKDOWN, UsedBreakdown, fields};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// A child's name and object, as the child map has them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildEntry {
    /// The last component of its name.
    pub component: Vec<u8>,
    /// The child directory.
    pub object: ObjectId,
}

/// An open directory, with its ancestors.
#[derive(Debug)]
pub struct Directory {
    dsl: Arc<Dsl>,
    object: Object,
    name: DatasetName,
    parent: Option<Arc<Directory>>,
    phys: DslDir,
    extension: Option<Zap>,
    properties: OnceLock<StoredProperties>,
    crypto_key: OnceLock<Option<Arc<CryptoKey>>>,
}

impl Directory {
    /// The same directory, read for something else.
    pub(crate) fn for_io(&self, io: &IoContext) -> Arc<Self> {
        Arc::new(Self {
            dsl: self.dsl.for_io(io),
            object: self.object.for_io(io),
            name: self.name.clone(),
            parent: self.parent.as_ref().map(|parent| parent.for_io(io)),
            phys: self.phys.clone(),
            extension: self.extension.as_ref().map(|zap| zap.for_io(io)),
            properties: self.properties.clone(),
            crypto_key: self.crypto_key.clone(),
        })
    }

    /// Opens the directory `id`, which is found under `name` in `parent`.
    pub(crate) fn open(
        dsl: &Arc<Dsl>,
        id: ObjectId,
        name: DatasetName,
        parent: Option<Arc<Directory>>,
    ) -> Result<Arc<Self>, DslError> {
        let (object, phys) = dsl.read_directory(id)?;
        if phys.parent != parent.as_ref().map(|parent| parent.id()) {
            return Err(DslError::structure(
                id,
                "it stands in the child map of another directory",
            ));
        }
        let extension = Dsl::extension(&object)?;
        Ok(Arc::new(Self {
            dsl: Arc::clone(dsl),
            object,
            name,
            parent,
            phys,
            extension,
            properties: OnceLock::new(),
            crypto_key: OnceLock::new(),
        }))
    }

    /// The layer it belongs to.
    pub fn dsl(&self) -> &Arc<Dsl> {
        &self.dsl
    }

    /// Its object number.
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Its object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The name of its head dataset.
    pub fn name(&self) -> &DatasetName {
        &self.name
    }

    /// The directory above, `None` for the root.
    pub fn parent(&self) -> Option<&Arc<Directory>> {
        self.parent.as_ref()
    }

    /// The stored fields.
    pub fn phys(&self) -> &DslDir {
        &self.phys
    }

    /// Itself and all directories above, from the inside out.
    pub fn ancestry(&self) -> impl Iterator<Item = &Directory> {
        std::iter::successors(Some(self), |directory| directory.parent.as_deref())
    }

    /// What its space consists of, if the pool keeps that (version 13 and later).
    pub fn breakdown(&self) -> Option<&UsedBreakdown> {
        let kept = self.phys.flags & FLAG_USED_BREAKDOWN != 0;
        kept.then_some(&self.phys.breakdown)
    }

    /// An extension field that is one number.
    pub fn extension_number(&self, key: &str) -> Result<Option<u64>, DslError> {
        match &self.extension {
            Some(zap) => Ok(zap.lookup_u64(key)?),
            None => Ok(None),
        }
    }

    /// An extension field that is several numbers.
    pub fn extension_words(&self, key: &str) -> Result<Option<Vec<u64>>, DslError> {
        let Some(zap) = &self.extension else {
            return Ok(None);
        };
        Ok(zap
            .lookup(key.as_bytes())?
            .and_then(|value| value.as_u64s()))
    }

    /// Whether the directory has been extended by a ZAP of further fields.
    pub fn is_extended(&self) -> bool {
        self.extension.is_some()
    }

    /// Seconds and nanoseconds of the last change of the list of snapshots, where it is noted.
    pub fn snapshots_changed(&self) -> Result<Option<(u64, u64)>, DslError> {
        let words = self.extension_words(fields::SNAPSHOTS_CHANGED)?;
        Ok(words.and_then(|words| match words[..] {
            [seconds, nanoseconds] => Some((seconds, nanoseconds)),
            _ => None,
        }))
    }

    /// The wrapped keys of the dataset's clone family; `None` for an unencrypted dataset.
    pub fn crypto_key(&self) -> Result<Option<&Arc<CryptoKey>>, DslError> {
        let key = get_or_try(&self.crypto_key, || {
            let object = self
                .extension_number(fields::CRYPTO_KEY)?
                .filter(|id| *id != 0);
            let object = object.map(ObjectId);
            let key = object.map(|object| CryptoKey::load(&self.dsl, object));
            Ok::<_, DslError>(key.transpose()?.map(Arc::new))
        })?;
        Ok(key.as_ref())
    }

    /// The list of blocks that this clone wrote, if it keeps one.
    pub fn livelist(&self) -> Result<Option<ObjectId>, DslError> {
        let object = self.extension_number(fields::LIVELIST)?;
        Ok(object.filter(|id| *id != 0).map(ObjectId))
    }

    /// The snapshot that this dataset was cloned from, if it is a clone.
    pub fn origin(&self) -> Option<ObjectId> {
        let origin = self.phys.origin;
        origin.filter(|origin| Some(*origin) != self.dsl.origin_snapshot())
    }

    /// What is set on the dataset.
    pub fn properties(&self) -> Result<&StoredProperties, DslError> {
        get_or_try(&self.properties, || match self.phys.properties.0 {
            0 => Ok(StoredProperties::default()),
            _ => StoredProperties::load(&self.dsl.mos().zap(self.phys.properties)?),
        })
    }

    /// The children in order of their names, hidden ones included; each once.
    pub fn children(&self) -> Result<Vec<ChildEntry>, DslError> {
        self.dsl.of_one_moment(|| self.children_now())
    }

    fn children_now(&self) -> Result<Vec<ChildEntry>, DslError> {
        let zap = self.dsl.mos().zap(self.phys.child_map)?;
        let mut children = Vec::new();
        for entry in zap.entries() {
            let entry = entry?;
            let (Some(component), Some(object)) = (entry.key.as_name(), entry.value.as_u64())
            else {
                return Err(DslError::structure(
                    zap.object().id(),
                    "an entry is no child",
                ));
            };
            let component = component.to_vec();
            let object = ObjectId(object);
            children.push(ChildEntry { component, object });
        }
        children.sort();
        // A child under two names would be walked twice, its children four times, and so on.
        let mut seen = HashSet::new();
        children.retain(|child| seen.insert(child.object));
        Ok(children)
    }

    /// The number of entries in the child map.
    pub fn child_count(&self) -> Result<u64, DslError> {
        Ok(self.dsl.mos().zap(self.phys.child_map)?.count())
    }

    /// The children that lists show.
    pub fn listed_children(&self) -> Result<Vec<ChildEntry>, DslError> {
        let mut children = self.children()?;
        children.retain(|child| !is_hidden_component(&child.component));
        Ok(children)
    }

    /// Opens a child that [`Self::children`] named.
    pub fn open_child(self: &Arc<Self>, child: &ChildEntry) -> Result<Arc<Directory>, DslError> {
        let named = self.name.child(&child.component);
        let name = named.map_err(|source| DslError::BadName {
            text: format!(
                "{}/{}",
                self.name,
                String::from_utf8_lossy(&child.component)
            ),
            source,
        })?;
        Directory::open(&self.dsl, child.object, name, Some(Arc::clone(self)))
    }

    /// Opens the child with this last component.
    pub fn child(self: &Arc<Self>, component: &[u8]) -> Result<Option<Arc<Directory>>, DslError> {
        let zap = self.dsl.mos().zap(self.phys.child_map)?;
        let Some(object) = zap.lookup(component)?.and_then(|value| value.as_u64()) else {
            return Ok(None);
        };
        let component = component.to_vec();
        let object = ObjectId(object);
        self.open_child(&ChildEntry { component, object }).map(Some)
    }
}

impl Dsl {
    /// The root dataset's directory.
    pub fn root(self: &Arc<Self>) -> Result<Arc<Directory>, DslError> {
        Directory::open(self, self.root_directory, self.pool_name().clone(), None)
    }

    /// Opens the directory of a dataset by name; the part behind `@` or `#` does not matter.
    pub fn directory(
        self: &Arc<Self>,
        name: &DatasetName,
    ) -> Result<Option<Arc<Directory>>, DslError> {
        if name.pool() != self.pool_name().as_str() {
            return Ok(None);
        }
        self.unless_changing(|| self.directory_now(name))
    }

    fn directory_now(
        self: &Arc<Self>,
        name: &DatasetName,
    ) -> Result<Option<Arc<Directory>>, DslError> {
        let mut directory = self.root()?;
        for component in name.components() {
            match directory.child(component.as_bytes())? {
                Some(child) => directory = child,
                None => return Ok(None),
            }
        }
        Ok(Some(directory))
    }

    /// Opens a directory by its number: names are found by looking through the child maps above.
    pub fn directory_of(self: &Arc<Self>, id: ObjectId) -> Result<Arc<Directory>, DslError> {
        self.unless_changing(|| self.directory_of_now(id))
    }

    fn directory_of_now(self: &Arc<Self>, id: ObjectId) -> Result<Arc<Directory>, DslError> {
        if let Some(name) = self.remembered_name(id)
            && let Some(directory) = self.directory(&name)?
            && directory.id() == id
        {
            return Ok(directory);
        }
        let mut path = Vec::new();
        let mut at = id;
        loop {
            let (_, phys) = self.read_directory(at)?;
            let Some(parent) = phys.parent else {
                break;
            };
            if path.len() > NESTING_MAX {
                return Err(DslError::structure(id, "its ancestors are nested too deep"));
            }
            path.push(at);
            at = parent;
        }
        let mut directory = self.root()?;
        if directory.id() != at {
            return Err(DslError::structure(
                id,
                "it does not hang in the pool's tree",
            ));
        }
        for object in path.into_iter().rev() {
            let children = directory.children()?;
            let found = children.iter().find(|child| child.object == object);
            let problem = "its parent does not know it";
            let child = found.ok_or(DslError::structure(object, problem))?;
            directory = directory.open_child(child)?;
        }
        self.remember_name(id, directory.name());
        Ok(directory)
    }
}
