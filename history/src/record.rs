//! Records: what the history has, decoded.

use cenote_ondisk::NvList;

/// The key of a record's user.
pub(crate) const USER: &str = "history who";

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryBody {
    /// A command line.
    Command(String),
    /// An internal event.
    Internal {
        /// Its name.
        event: String,
        /// The transaction group.
        txg: u64,
        /// The dataset's name and object number, where it is about one.
        dataset: Option<(String, u64)>,
        /// The details.
        detail: String,
    },
    /// A control request.
    Ioctl {
        /// Its name.
        name: String,
        /// What it was given.
        input: Option<NvList>,
        /// What it gave back.
        output: Option<NvList>,
    },
    /// A record of the oldest pools.
    Numbered {
        /// The event's number.
        event: u64,
        /// The transaction group.
        txg: u64,
        /// The details.
        detail: String,
    },
    /// None of the kinds known here.
    Unknown,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Seconds since the epoch.
    pub time: u64,
    /// The user id.
    pub user: Option<u64>,
    /// The host's name.
    pub host: Option<String>,
    /// The zone's name.
    pub zone: Option<String>,
    /// What it is about.
    pub body: HistoryBody,
}

impl HistoryRecord {
    /// Reads a record's list; nothing in it is required.
    pub fn from_list(list: &NvList) -> Self {
        let text = |key: &str| {
            let bytes = list.get_bytes(key)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let number = |key: &str| list.get_u64(key);
        let txg = || number("history txg").unwrap_or(0);
        let detail = || text("history internal str").unwrap_or_default();
        let body = if let Some(command) = text("history command") {
            HistoryBody::Command(command)
        } else if let Some(event) = text("internal_name") {
            HistoryBody::Internal {
                event,
                txg: txg(),
                dataset: text("dsname").zip(number("dsid")),
                detail: detail(),
            }
        } else if let Some(name) = text("ioctl") {
            HistoryBody::Ioctl {
                name,
                input: list.get_list("in_nvl").cloned(),
                output: list.get_list("out_nvl").cloned(),
            }
        } else if let Some(event) = number("history internal event") {
            HistoryBody::Numbered {
                event,
                txg: txg(),
                detail: detail(),
            }
        } else {
            HistoryBody::Unknown
        };
        Self {
            time: number("history time").unwrap_or(0),
            user: number(USER),
            host: text("history hostname"),
            zone: text("history zone"),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_oldest_pools_have_numbers() {
        let mut list = NvList::new();
        list.set_u64("history time", 7);
        list.set_u64("history internal event", 3);
        list.set_u64("history txg", 12);
        list.set_str("history internal str", "pool version 5");
        let record = HistoryRecord::from_list(&list);
        let detail = "pool version 5".to_owned();
        let (event, txg) = (3, 12);
        assert_eq!(record.body, HistoryBody::Numbered { event, txg, detail });
        assert_eq!(
            HistoryRecord::from_list(&NvList::new()).body,
            HistoryBody::Unknown
        );
    }
}
