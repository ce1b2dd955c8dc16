//! `package`: what people install, made of one program.
//!
//! The files of a package are laid out in a directory first ([`stage`]): the program without its
//! symbols, the manual pages and completions that it prints itself, the units of `contrib/systemd`.
//! Then Debian's and Fedora's own tools make packages of that directory ([`deb`], [`rpm`]), so that
//! all of them hold the same files. [`trial`] installs them in bare systems.
//!
//! There are two packages, because a machine may have OpenZFS, too: `cenote` has no file that
//! OpenZFS's packages have; `cenote-zfs` has the commands and units under OpenZFS's names.

mod boot;
mod common;
mod deb;
mod making;
mod rpm;
mod stage;
mod trial;

pub use boot::run as boot;
pub use common::{output, version};
pub use making::{build, make, run};
pub use trial::run as try_packages;
