//! File user ids: POSIX ids, or ids within a domain of Windows accounts (format/3b 9).
//!
//! The upper half of a FUID is an index into the dataset's table of domains; 0 stands for plain
//! POSIX ids. Linux only creates plain ones; ids of domains come from illumos, or from SMB servers
//! there.

use crate::error::PosixError;
use cenote_base::ObjectId;
use cenote_dmu::ObjectSet;
use cenote_ondisk::{DecodeError, NvList};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A packed table larger than this is refused; a domain takes about 200 bytes.
const TABLE_SIZE_MAX: u64 = 4 << 20;

/// A user or group as stored in attributes and access control lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fuid(pub u64);

impl Fuid {
    /// The domain's index in the table; 0 for plain POSIX ids.
    pub fn domain_index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The POSIX id, or the relative id within the domain.
    pub fn relative_id(self) -> u32 {
        self.0 as u32
    }

    /// The id to show to POSIX callers: ids of domains have none and appear as nobody.
    pub fn posix_id(self) -> u32 {
        match self.domain_index() {
            0 => self.relative_id(),
            _ => POSIX_NOBODY,
        }
    }
}

/// What an id that has no POSIX form appears as (`UID_NOBODY` of Linux).
const POSIX_NOBODY: u32 = 65_534;

/// A user or group in a form to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A POSIX id, or a project's.
    Id(u64),
    /// An account of a domain: a security identifier in two parts.
    Account {
        /// `S-1-5-…`.
        domain: String,
        /// The account's number in it.
        relative_id: u32,
    },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Account {
                domain,
                relative_id,
            } => write!(f, "{domain}-{relative_id}"),
        }
    }
}

/// The domains of a dataset.
#[derive(Clone, Debug, Default)]
pub struct FuidTable {
    domains: HashMap<u32, String>,
}

impl FuidTable {
    /// Reads the table in object `id`: its bonus buffer is the packed list's size.
    pub fn read(set: &Arc<ObjectSet>, id: ObjectId) -> Result<Self, PosixError> {
        let object = set.object(id)?;
        let malformed = |source| PosixError::Malformed { object: id, source };
        let size = cenote_ondisk::wire::u64_le(&object.dnode().bonus, 0, STRUCTURE);
        let size = size.map_err(malformed)?;
        if size == 0 {
            return Ok(Self::default());
        }
        if size > TABLE_SIZE_MAX {
            let (structure, field) = (STRUCTURE, "packed size");
            return Err(malformed(DecodeError::BadValue {
                structure,
                field,
                value: size,
            }));
        }
        let mut packed = vec![0; usize::try_from(size).expect("at most 4 MiB")];
        object.read(0, &mut packed)?;
        Ok(Self::decode(&NvList::decode(&packed).map_err(malformed)?))
    }

    fn decode(list: &NvList) -> Self {
        let mut domains = HashMap::new();
        for entry in list.get_list_array("fuid_nvlist").unwrap_or_default() {
            let index = entry
                .get_u64("fuid_idx")
                .and_then(|index| u32::try_from(index).ok());
            if let (Some(index), Some(domain)) = (index, entry.get_str("fuid_domain")) {
                domains.insert(index, domain.to_owned());
            }
        }
        Self { domains }
    }

    /// Adds a domain, as records of the intent log do.
    pub(crate) fn insert(&mut self, index: u32, domain: String) {
        self.domains.entry(index).or_insert(domain);
    }

    /// Whether the table has a domain of this index.
    pub fn has(&self, index: u32) -> bool {
        self.domains.contains_key(&index)
    }

    /// The form to show of `fuid`. An unknown domain shows as its index.
    pub fn owner(&self, fuid: Fuid) -> Owner {
        let relative_id = fuid.relative_id();
        match fuid.domain_index() {
            0 => Owner::Id(u64::from(relative_id)),
            index => {
                let domain = self.domains.get(&index);
                let domain = domain.cloned().unwrap_or_else(|| format!("domain{index}"));
                Owner::Account {
                    domain,
                    relative_id,
                }
            }
        }
    }
}

const STRUCTURE: &str = "FUID table";

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::NvValue;

    #[test]
    fn domains_are_found_by_index() {
        let mut entry = NvList::new();
        entry.set("fuid_idx", NvValue::Uint64(1));
        entry.set("fuid_offset", NvValue::Uint64(0));
        entry.set("fuid_domain", NvValue::String(b"S-1-5-21-1-2-3".to_vec()));
        let mut list = NvList::new();
        list.set("fuid_nvlist", NvValue::ListArray(vec![entry]));
        let packed = NvList::decode(&list.encode_xdr()).unwrap();
        let table = FuidTable::decode(&packed);
        let account = Fuid(1 << 32 | 500);
        assert_eq!(table.owner(account).to_string(), "S-1-5-21-1-2-3-500");
        assert_eq!(account.posix_id(), 65_534);
        assert_eq!(table.owner(Fuid(1000)), Owner::Id(1000));
        assert_eq!(table.owner(Fuid(7 << 32 | 5)).to_string(), "domain7-5");
    }
}
