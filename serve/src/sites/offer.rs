//! The sites of a server: which of them answers a request.
//!
//! A site that names the client's host comes before one for any host, and a longer path before a
//! shorter one. A recursive site adds a site for each file system below its own.

use super::report::{STATUS_PAGE, SiteReport};
use super::site::{Site, components};
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, RwLock, ranks};
use cenote_control::model::HttpSite;
use cenote_dsl::{Dataset, DatasetType};
use cenote_engine::{Registry, is_within, walk_heads};
use cenote_http::Sites;
use std::collections::HashMap;
use std::sync::Arc;

/// The most file systems that a recursive site adds.
const BELOW_MAX: usize = 4096;

#[derive(Debug, Default)]
struct Lists {
    /// The sites that commands named.
    commanded: Vec<Arc<Site>>,
    /// These and the sites below them, the best match for a request first.
    all: Arc<Vec<Arc<Site>>>,
}

/// The sites of a server.
#[derive(Debug)]
pub(crate) struct Offer {
    registry: Arc<Registry>,
    /// The pools and sites of the last update; see `moment`.
    seen: Mutex<Vec<(u64, u64, bool)>, ranks::SiteFollows>,
    lists: RwLock<Lists, ranks::SiteLists>,
}

/// The order in which sites are tried.
fn in_order(mut sites: Vec<Arc<Site>>) -> Arc<Vec<Arc<Site>>> {
    sites.sort_by_key(|site| {
        (
            site.asked.host.is_none(),
            std::cmp::Reverse(site.path.len()),
        )
    });
    Arc::new(sites)
}

impl Offer {
    pub fn new(registry: &Arc<Registry>) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::clone(registry),
            seen: Mutex::default(),
            lists: RwLock::default(),
        })
    }

    /// The sites that commands named.
    pub fn commanded(&self) -> Vec<Arc<Site>> {
        self.lists.read().commanded.clone()
    }

    /// Whether commands named nothing else.
    pub fn has_only(&self, site: &Arc<Site>) -> bool {
        matches!(self.lists.read().commanded.as_slice(), [only] if Arc::ptr_eq(only, site))
    }

    fn all(&self) -> Arc<Vec<Arc<Site>>> {
        Arc::clone(&self.lists.read().all)
    }

    /// Adds sites, which are served after the next [`Self::follow`].
    pub fn add(&self, new: &[Arc<Site>]) {
        let mut lists = self.lists.write();
        for site in new {
            if lists.commanded.iter().all(|old| !old.is_same(site)) {
                lists.commanded.push(Arc::clone(site));
            }
        }
    }

    /// Removes a site.
    pub fn remove(&self, gone: &Arc<Site>) {
        let mut lists = self.lists.write();
        lists.commanded.retain(|site| !Arc::ptr_eq(site, gone));
        drop(lists);
        self.follow();
    }

    /// The pools with their transaction groups, and the sites. Nothing changes on disk without a
    /// new transaction group, so while these are equal, there is nothing to update.
    fn moment(&self) -> Vec<(u64, u64, bool)> {
        let pools = self.registry.all();
        let pools = pools.iter().map(|imported| {
            let pool = &imported.pool;
            (imported.load_guid, pool.txg().0, pool.suspended().is_some())
        });
        let sites = self.commanded();
        let sites = sites
            .iter()
            .map(|site| (Arc::as_ptr(site) as u64, 0, false));
        pools.chain(sites).collect()
    }

    /// Updates the sites after changes of datasets, and removes those whose dataset is gone.
    pub fn follow(&self) {
        // One thread at a time, so that no older result replaces a newer one.
        let mut seen = self.seen.lock();
        let now = self.moment();
        if *seen == now {
            return;
        }
        *seen = now;
        let mut left = self.commanded();
        left.retain(|site| site.follow());
        let known = self.all();
        let mut all = left.clone();
        for site in left.iter().filter(|site| site.asked.recursive) {
            all.extend(self.below(site, &known));
        }
        for site in &all {
            // If its dataset is gone by now, the next update leaves it out.
            site.follow();
        }
        let is_there =
            |sites: &[Arc<Site>], one: &Arc<Site>| sites.iter().any(|site| Arc::ptr_eq(site, one));
        let mut lists = self.lists.write();
        // Keep sites that were added meanwhile.
        lists
            .commanded
            .retain(|site| is_there(&left, site) || !is_there(&known, site));
        let unseen = lists.commanded.iter().filter(|site| !is_there(&all, site));
        let unseen: Vec<Arc<Site>> = unseen.cloned().collect();
        all.extend(unseen);
        let before = std::mem::replace(&mut lists.all, in_order(all));
        let now = Arc::clone(&lists.all);
        drop(lists);
        if !now.iter().all(|site| site.is_settled()) {
            // Try again at the next call.
            seen.clear();
        }
        for gone in before.iter().filter(|site| !is_there(&now, site)) {
            gone.end();
        }
    }

    /// The sites of the file systems below that of another site. Existing ones are reused.
    fn below(&self, above: &Arc<Site>, known: &[Arc<Site>]) -> Vec<Arc<Site>> {
        let Some((imported, top)) = above.find_dataset() else {
            return Vec::new();
        };
        let top_name = top.name().dataset();
        let short = top
            .name()
            .after_delimiter()
            .map(|short| short.as_bytes().to_vec());
        let mut sites = Vec::new();
        // The walk finds parents before their children.
        let mut met = HashMap::from([(above.path.clone(), Arc::clone(above))]);
        walk_heads(imported.dsl(), |head| {
            let is_below = head.name() != &top_name && is_within(head.name(), &top_name);
            if !is_below || sites.len() >= BELOW_MAX {
                return;
            }
            let state = match (top.is_snapshot(), &short) {
                (false, _) => None,
                (true, Some(short)) => match head.snapshot(short) {
                    Ok(Some(snapshot)) => Some(snapshot),
                    // It has no snapshot with that name.
                    Ok(None) | Err(_) => return,
                },
                (true, None) => return,
            };
            let state: &Dataset = state.as_ref().unwrap_or(head);
            if !head
                .dataset_type()
                .is_ok_and(|kind| kind == DatasetType::Filesystem)
            {
                return;
            }
            let rest = &head.name().as_str()[top_name.as_str().len()..];
            let asked = HttpSite {
                path: format!("{}{rest}", above.asked.path.trim_end_matches('/')),
                dataset: state.name().as_str().to_owned(),
                recursive: false,
                ..above.asked.clone()
            };
            let path = components(&asked.path);
            let mut ways = (0..path.len()).rev().map(|length| &path[..length]);
            let next = ways.find_map(|way| met.get(way)).unwrap_or(above);
            let site = self.kept(known, (asked, next), (&imported, state));
            met.insert(path, Arc::clone(&site));
            sites.push(site);
        });
        sites
    }

    fn kept(
        &self,
        known: &[Arc<Site>],
        (asked, above): (HttpSite, &Arc<Site>),
        of: (&cenote_engine::Imported, &Dataset),
    ) -> Arc<Site> {
        let id: ObjectId = of.1.id();
        let path = components(&asked.path);
        let is_it = |site: &&Arc<Site>| {
            site.id == id
                && site.is_of(of.0)
                && site.is_below(above)
                && site.path == path
                && site.asked.host == asked.host
                && site.asked.state == asked.state
        };
        let found = known.iter().find(is_it).cloned();
        found.unwrap_or_else(|| Arc::new(Site::new(&self.registry, asked, of).below(above)))
    }
}

impl Offer {
    /// All sites and what they show.
    pub fn status(&self) -> Vec<SiteReport> {
        self.all().iter().map(|site| site.report()).collect()
    }
}

impl Sites for Offer {
    fn site(&self, host: &str, path: &[Vec<u8>]) -> Option<cenote_http::Site> {
        if path == [STATUS_PAGE] {
            return None;
        }
        let all = self.all();
        let answers = |site: &&Arc<Site>| {
            site.asked.host.as_deref().is_none_or(|own| own == host) && path.starts_with(&site.path)
        };
        let found = all.iter().find(answers)?;
        Some(cenote_http::Site {
            name: found.name(),
            prefix: found.path.len(),
            tree: Arc::clone(found) as _,
        })
    }
}
