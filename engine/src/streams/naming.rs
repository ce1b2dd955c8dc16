//! The name that a snapshot of a stream gets here (format/4 7.1).

use cenote_control::model::{Receive, ReceiveNaming};

/// The name of a snapshot whose sender calls it `name`, in a stream of the dataset `sent`.
pub(super) fn name_here(asked: &Receive, sent: &str, name: &str) -> String {
    let target = &asked.target;
    if target.contains('@') {
        return target.clone();
    }
    let at_snapshot = name.find('@').unwrap_or(name.len());
    let rest = match asked.naming {
        ReceiveNaming::Below => name.get(sent.len()..).unwrap_or(&name[at_snapshot..]),
        ReceiveNaming::WithoutPool => {
            let slash = name[..at_snapshot].find('/');
            &name[slash.unwrap_or(at_snapshot)..]
        }
        ReceiveNaming::LastComponent => match sent.rfind('/') {
            Some(slash) => name.get(slash..).unwrap_or(&name[at_snapshot..]),
            None => return format!("{target}/{name}"),
        },
    };
    format!("{target}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_options() {
        let here = |target: &str, naming, sent: &str, name: &str| {
            let asked = Receive {
                target: target.to_owned(),
                naming,
                ..Receive::default()
            };
            name_here(&asked, sent, name)
        };
        use ReceiveNaming::{Below, LastComponent, WithoutPool};
        assert_eq!(here("t/x", Below, "p/a", "p/a@s"), "t/x@s");
        assert_eq!(here("t/x", Below, "p/a", "p/a/b@s"), "t/x/b@s");
        assert_eq!(here("t/x@n", Below, "p/a", "p/a@s"), "t/x@n");
        assert_eq!(here("t", WithoutPool, "p/a/b", "p/a/b@s"), "t/a/b@s");
        assert_eq!(here("t", WithoutPool, "p", "p@s"), "t@s");
        assert_eq!(here("t", LastComponent, "p/a/b", "p/a/b/c@s"), "t/b/c@s");
        assert_eq!(here("t", LastComponent, "p", "p@s"), "t/p@s");
        assert_eq!(here("t", LastComponent, "p/a", "q@s"), "t@s");
    }
}
