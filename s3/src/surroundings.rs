//! What a process finds around it: variables, the user's home, the file of stores.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The file of the machine, for a daemon of root's.
const SYSTEM_FILE: &str = "/etc/cenote/stores.toml";

type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where settings and keys of stores are looked for.
#[derive(Clone)]
pub struct Surroundings {
    variable: Arc<Variable>,
    is_root: bool,
}

impl fmt::Debug for Surroundings {
    /// Without the variables, among which are keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Surroundings")
            .finish_non_exhaustive()
    }
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self {
            variable: Arc::new(|name| std::env::var(name).ok()),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Invented surroundings, of a user other than root.
    pub fn of_variables<Text: Into<String>>(
        variables: impl IntoIterator<Item = (Text, Text)>,
    ) -> Self {
        let variables = variables.into_iter();
        let variables: HashMap<String, String> = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variable: Arc::new(move |name| variables.get(name).cloned()),
            is_root: false,
        }
    }

    /// Both, of which the first wins.
    #[cfg(test)]
    pub(crate) fn joined(first: Self, second: Self) -> Self {
        let both = move |name: &str| first.get(name).or_else(|| second.get(name));
        Self {
            variable: Arc::new(both),
            is_root: false,
        }
    }

    /// A variable that is set to something.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The first of these that is set.
    pub fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.get(name)?);
        path.is_absolute().then_some(path)
    }

    /// The file of stores: `$CENOTE_STORES`, else the machine's for root and the user's own for
    /// others. `None` for users without a home.
    pub(crate) fn stores_file(&self) -> Option<PathBuf> {
        if let Some(named) = self.get("CENOTE_STORES") {
            return Some(named.into());
        }
        if self.is_root {
            return Some(SYSTEM_FILE.into());
        }
        let usual = || Some(self.path("HOME")?.join(".config"));
        let directory = self.path("XDG_CONFIG_HOME").or_else(usual)?;
        Some(directory.join("cenote/stores.toml"))
    }

    /// One of the two files that Amazon's programs keep profiles in.
    pub(crate) fn aws_file(&self, variable: &str, name: &str) -> Option<PathBuf> {
        let usual = || Some(self.path("HOME")?.join(".aws").join(name));
        self.get(variable).map(PathBuf::from).or_else(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_they_are_expected() {
        let file = |surroundings: &Surroundings| {
            let path = surroundings.stores_file();
            path.map(|path| path.display().to_string())
        };
        let home = Surroundings::of_variables([("HOME", "/h")]);
        assert_eq!(
            file(&home).as_deref(),
            Some("/h/.config/cenote/stores.toml")
        );
        let root = Surroundings {
            is_root: true,
            ..home.clone()
        };
        assert_eq!(file(&root).as_deref(), Some(SYSTEM_FILE));
        let own = Surroundings::of_variables([("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]);
        assert_eq!(file(&own).as_deref(), Some("/x/cenote/stores.toml"));
        assert_eq!(file(&Surroundings::of_variables::<&str>([])), None);
        let named = Surroundings::of_variables([("CENOTE_STORES", "/s"), ("HOME", "/h")]);
        assert_eq!(file(&named).as_deref(), Some("/s"));
        let aws = home.aws_file("AWS_CONFIG_FILE", "config");
        assert_eq!(aws, Some("/h/.aws/config".into()));
    }
}
