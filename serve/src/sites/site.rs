//! One site: a file system at a host and path, either its head or one of its snapshots.

use super::pattern::matches;
use super::report::SiteReport;
use crate::trees::tree::{Counts, FileTree, TreeParts};
use cenote_base::rt::{RwLock, ranks};
use cenote_base::{ObjectId, Txg};
use cenote_control::model::{ControlError, HttpRefusal, HttpSite, HttpSiteStatus, HttpState};
use cenote_dmu::DmuError;
use cenote_dsl::{Dataset, DatasetType, DslError, KeyStatus};
use cenote_engine::errors::{of_dsl, parse_name};
use cenote_engine::properties::UPSTREAM;
use cenote_engine::{Imported, Registry};
use cenote_http::{Entry, Resolved, Tree, TreeError};
use std::fmt;
use std::sync::{Arc, Weak};

/// What a site shows at the moment.
#[derive(Debug, Default)]
struct Shown {
    /// The head or snapshot, if it is known.
    id: Option<ObjectId>,
    /// Its name, for logs.
    name: Option<Arc<str>>,
    tree: Weak<FileTree>,
    /// Why there is nothing to show.
    problem: Option<String>,
}

/// A site.
pub(crate) struct Site {
    registry: Arc<Registry>,
    /// What was asked for.
    pub(crate) asked: HttpSite,
    /// Its path's components.
    pub(crate) path: Vec<Vec<u8>>,
    /// Names the import of the pool.
    import: u64,
    /// The dataset or snapshot that was named.
    pub(crate) id: ObjectId,
    /// When that was created. Its object number may be reused for another dataset later.
    created: Txg,
    name: Arc<str>,
    /// The next site above it, if it is part of a recursive site.
    above: Option<Arc<Site>>,
    shown: RwLock<Shown, ranks::SiteStates>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

/// Refuses a dataset without files, without its key, or with incomplete contents.
pub(crate) fn check(dataset: &Dataset) -> Result<(), ControlError> {
    let name = || dataset.name().as_str().to_owned();
    let status = dataset.dsl().key_status(dataset.directory());
    if status.map_err(of_dsl)? == KeyStatus::Unavailable {
        return Err(ControlError::KeyNotLoaded { dataset: name() });
    }
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
        return Err(HttpRefusal::NotFiles { dataset: name() }.into());
    }
    if dataset.is_redacted().map_err(of_dsl)? {
        return Err(HttpRefusal::Redacted { dataset: name() }.into());
    }
    match dataset.is_inconsistent() {
        true => Err(ControlError::PartlyReceived { dataset: name() }),
        false => Ok(()),
    }
}

/// Whether an error means that the dataset no longer exists.
fn is_gone(error: &DslError) -> bool {
    matches!(
        error,
        DslError::Dmu(DmuError::NoSuchObject { .. })
            | DslError::NotADataset { .. }
            | DslError::BadStructure { .. }
    )
}

/// A path's components.
pub(crate) fn components(path: &str) -> Vec<Vec<u8>> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(|part| part.as_bytes().to_vec()).collect()
}

fn unavailable(error: &ControlError) -> TreeError {
    TreeError::Unavailable(error.to_string())
}

impl Site {
    /// The site that a command names, if it can be served.
    pub(crate) fn commanded(
        registry: &Arc<Registry>,
        asked: &HttpSite,
    ) -> Result<Self, ControlError> {
        let (imported, dataset) = registry.dataset(&parse_name(&asked.dataset)?)?;
        if dataset.is_snapshot() && asked.state != HttpState::Named {
            let dataset = asked.dataset.clone();
            return Err(HttpRefusal::SnapshotOfSnapshot { dataset }.into());
        }
        check(&dataset)?;
        Ok(Self::new(registry, asked.clone(), (&imported, &dataset)))
    }

    /// A site that shows a dataset.
    pub(crate) fn new(
        registry: &Arc<Registry>,
        asked: HttpSite,
        (imported, dataset): (&Imported, &Dataset),
    ) -> Self {
        Self {
            registry: Arc::clone(registry),
            path: components(&asked.path),
            import: imported.load_guid,
            id: dataset.id(),
            created: dataset.phys().creation_txg,
            name: asked.dataset.as_str().into(),
            asked,
            above: None,
            shown: RwLock::default(),
            counts: Arc::default(),
        }
    }

    /// The same as a site below another one.
    pub(crate) fn below(self, above: &Arc<Self>) -> Self {
        Self {
            above: Some(Arc::clone(above)),
            ..self
        }
    }

    /// Whether it is below that one.
    pub(crate) fn is_below(&self, above: &Arc<Self>) -> bool {
        let own = self.above.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, above))
    }

    /// Refuses if others may not enter a directory on the way to it in the file systems above. They
    /// could not enter it through mounts either. A site above that shows nothing refuses nothing.
    fn check_way(&self) -> Result<(), TreeError> {
        let Some(above) = &self.above else {
            return Ok(());
        };
        let below = self.path.get(above.path.len()..).unwrap_or_default();
        match above.find(below).found {
            Err(TreeError::Forbidden) => Err(TreeError::Forbidden),
            _ => Ok(()),
        }
    }

    /// The same from the cache; `None` if it has no valid answer.
    fn check_way_at_hand(&self) -> Option<Result<(), TreeError>> {
        let above = match &self.above {
            Some(above) if above.shown.read().problem.is_none() => above,
            _ => return Some(Ok(())),
        };
        let below = self.path.get(above.path.len()..).unwrap_or_default();
        match above.find_cached(below)?.found {
            Err(TreeError::Forbidden) => Some(Err(TreeError::Forbidden)),
            _ => Some(Ok(())),
        }
    }

    /// Whether it is of this pool.
    pub(crate) fn is_of(&self, imported: &Imported) -> bool {
        self.import == imported.load_guid
    }

    /// Whether another one is at the same place.
    pub(crate) fn is_at_place_of(&self, other: &Self) -> bool {
        (&self.asked.host, &self.path) == (&other.asked.host, &other.path)
    }

    /// Whether it is the same site.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (
            self.import,
            self.id,
            &self.asked.state,
            self.asked.recursive,
        ) == (
            other.import,
            other.id,
            &other.asked.state,
            other.asked.recursive,
        ) && self.is_at_place_of(other)
    }

    /// Its pool, if that is still there.
    fn pool(&self) -> Option<Arc<Imported>> {
        let pools = self.registry.all();
        pools.into_iter().find(|pool| self.is_of(pool))
    }

    /// The dataset that was named, if it is still there.
    pub(crate) fn find_dataset(&self) -> Option<(Arc<Imported>, Dataset)> {
        let imported = self.pool()?;
        let dataset = imported.dsl().dataset_of(self.id).ok()?;
        self.is_it(&dataset).then_some((imported, dataset))
    }

    /// Whether a dataset is the one that was named, and not another that got its number.
    fn is_it(&self, dataset: &Dataset) -> bool {
        dataset.phys().creation_txg == self.created
    }

    /// What it should show now: the dataset, or the newest of its snapshots that match.
    fn wanted(&self, named: Dataset) -> Result<Option<Dataset>, ControlError> {
        let HttpState::Latest { pattern } = &self.asked.state else {
            return Ok(Some(named));
        };
        let snapshots = named.listed_snapshots().map_err(of_dsl)?;
        let newest = snapshots
            .iter()
            .rev()
            .find(|one| matches(pattern, &one.name));
        newest
            .map(|entry| named.open_snapshot(entry).map_err(of_dsl))
            .transpose()
    }

    /// Updates what it shows after changes of its dataset. Returns false if the dataset is gone.
    pub(crate) fn follow(&self) -> bool {
        let Some(imported) = self.pool() else {
            return false;
        };
        // Nothing changes in a suspended pool, and reading from it would block.
        if imported.pool.suspended().is_some() {
            return true;
        }
        let named = match imported.dsl().dataset_of(self.id) {
            Ok(named) if self.is_it(&named) => named,
            Ok(_) => return false,
            Err(error) if is_gone(&error) => return false,
            Err(error) => {
                log::warn!("{}: it cannot be read: {error}", self.asked.dataset);
                return true;
            }
        };
        let wanted = self.wanted(named);
        let mut shown = self.shown.write();
        let (id, name, problem) = match wanted {
            Ok(Some(state)) => {
                let name: Arc<str> = state.name().as_str().into();
                (Some(state.id()), Some(name), None)
            }
            Ok(None) => (None, None, Some("no snapshot matches".to_owned())),
            // The old state stays until the new one is known.
            Err(error) => {
                log::warn!(
                    "{}: its snapshots cannot be read: {error}",
                    self.asked.dataset
                );
                return true;
            }
        };
        let before = match shown.id == id {
            true => None,
            false => Some(std::mem::take(&mut shown.tree)),
        };
        if shown.id != id && shown.id.is_some() {
            let shown = name.as_deref().unwrap_or("nothing");
            log::info!("HTTP: {} shows {shown}", self.place());
        }
        (shown.id, shown.name, shown.problem) = (id, name, problem);
        drop(shown);
        if let Some(before) = before {
            imported.trees.retire(&before);
        }
        true
    }

    /// Whether it is known what it shows, or why it shows nothing.
    pub(crate) fn is_settled(&self) -> bool {
        let shown = self.shown.read();
        shown.id.is_some() || shown.problem.is_some()
    }

    /// Stops showing its dataset.
    pub(crate) fn end(&self) {
        let tree = std::mem::take(&mut self.shown.write().tree);
        if let Some(imported) = self.pool() {
            imported.trees.retire(&tree);
        }
    }

    /// Its host and path, for people.
    pub(crate) fn place(&self) -> String {
        let host = self.asked.host.as_deref().unwrap_or_default();
        format!("{host}{}", self.asked.path)
    }

    /// The tree that it shows, if it is open.
    fn tree_at_hand(&self) -> Option<Arc<FileTree>> {
        self.shown.read().tree.upgrade()
    }

    /// The tree that it shows. Opens it if needed.
    fn tree(&self) -> Result<Arc<FileTree>, TreeError> {
        // The engine may close a tree again as soon as it is open.
        for _ in 0..3 {
            if let Some(tree) = self.tree_at_hand() {
                return Ok(tree);
            }
            self.open()?;
        }
        Err(TreeError::Unavailable("it is being changed".to_owned()))
    }

    fn open(&self) -> Result<(), TreeError> {
        let gone = || TreeError::Unavailable("its dataset is gone".to_owned());
        let id = {
            let shown = self.shown.read();
            let problem = shown.problem.clone();
            let problem = problem.unwrap_or_else(|| "it is not known yet".to_owned());
            shown.id.ok_or(TreeError::Unavailable(problem))?
        };
        let (imported, named) = self.find_dataset().ok_or_else(gone)?;
        let open = || open_tree(&imported, &named, (id, &self.counts));
        let opened = imported
            .trees
            .open(open)
            .map_err(|error| unavailable(&error));
        let opened = opened?.ok_or(TreeError::Unavailable("it is being changed".to_owned()))?;
        let mut shown = self.shown.write();
        // Another request may have been quicker, or the site may show another snapshot by now.
        let is_wanted = shown.id == Some(id) && shown.tree.strong_count() == 0;
        if is_wanted {
            shown.tree = opened;
            return Ok(());
        }
        drop(shown);
        imported.trees.retire(&opened);
        Ok(())
    }

    /// The name of the head or snapshot that it shows, for logs.
    pub(crate) fn name(&self) -> Arc<str> {
        let shown = self.shown.read();
        shown.name.clone().unwrap_or_else(|| Arc::clone(&self.name))
    }

    /// The source of a dataset, from its property. A value from a stream is left out unless it was
    /// approved.
    fn upstream(&self, imported: &Imported, dataset: &Dataset) -> String {
        let pool = self.registry.approved_in(imported);
        pool.value(dataset, UPSTREAM)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// A report of what it shows.
    pub(crate) fn report(&self) -> SiteReport {
        let mut site = self.asked.clone();
        let named = self.find_dataset();
        if let Some((_, dataset)) = &named {
            site.dataset = dataset.name().as_str().to_owned();
        }
        let shown = self.shown.read();
        let (id, mut problem) = (shown.id, shown.problem.clone());
        drop(shown);
        let state = id
            .zip(named.as_ref())
            .map(|(id, (imported, _))| imported.dsl().dataset_of(id));
        let state = match state.transpose().map_err(of_dsl) {
            Ok(state) => state,
            Err(error) => {
                problem = Some(error.to_string());
                None
            }
        };
        if let Some(Err(error)) = state.as_ref().map(check) {
            problem = Some(error.to_string());
        }
        let files = |(imported, _): &(Arc<Imported>, Dataset)| {
            id.map_or(0, |id| imported.trees.files_of(id))
        };
        SiteReport {
            bytes: state
                .as_ref()
                .map_or(0, |state| state.phys().referenced_bytes),
            upstream: named
                .as_ref()
                .map_or_else(String::new, |(imported, named)| {
                    self.upstream(imported, named)
                }),
            status: HttpSiteStatus {
                site,
                shown: state.as_ref().map(|state| state.name().as_str().to_owned()),
                made: state
                    .filter(Dataset::is_snapshot)
                    .map(|state| state.phys().creation_time),
                open_files: named.as_ref().map_or(0, files),
                reads: self.counts.reads.get(),
                sent_bytes: self.counts.sent.get(),
                read_bytes: self.counts.from_devices.get(),
                problem,
            },
        }
    }
}

impl Tree for Site {
    fn find_cached(&self, path: &[Vec<u8>]) -> Option<Resolved> {
        match self.check_way_at_hand()? {
            Ok(()) => self.tree_at_hand()?.find_cached(path),
            Err(fault) => Some(Resolved::directly(Err(fault))),
        }
    }

    fn find(&self, path: &[Vec<u8>]) -> Resolved {
        match self.check_way().and_then(|()| self.tree()) {
            Ok(tree) => tree.find(path),
            Err(fault) => Resolved::directly(Err(fault)),
        }
    }

    fn list(&self, path: &[Vec<u8>], each: &mut dyn FnMut(Entry) -> bool) -> Result<(), TreeError> {
        self.check_way()?;
        self.tree()?.list(path, each)
    }
}

/// Opens a head or a snapshot of the dataset that was named.
fn open_tree(
    imported: &Arc<Imported>,
    named: &Dataset,
    (id, counts): (ObjectId, &Arc<Counts>),
) -> Result<FileTree, ControlError> {
    let dataset = imported.dsl().dataset_of(id).map_err(of_dsl)?;
    if dataset.name().dataset() != named.name().dataset() {
        // The snapshot was destroyed, and another dataset got its number.
        let dataset = named.name().as_str().to_owned();
        return Err(ControlError::NoSuchDataset { dataset });
    }
    check(&dataset)?;
    let mut salt = [0; 8];
    let filled = imported.pool.env().fill_random(&mut salt);
    filled.map_err(|error| ControlError::Io {
        place: format!("the system's random numbers: {error}"),
    })?;
    let pool = Arc::downgrade(&imported.pool);
    Ok(FileTree::new(TreeParts {
        dataset: id,
        name: dataset.name().as_str().to_owned(),
        files: imported.files(&dataset)?,
        salt: u64::from_le_bytes(salt),
        counts: Arc::clone(counts),
        damage: Arc::clone(&imported.damage),
        is_suspended: Box::new(move || {
            pool.upgrade().is_none_or(|pool| pool.suspended().is_some())
        }),
    }))
}
