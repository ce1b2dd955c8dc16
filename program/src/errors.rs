//! The error numbers that programs know by name.

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! errors {
    ($($name:ident = $number:literal)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $name: Self = Self($number);
            )*
        }

        /// All of them, by name.
        pub(crate) const ALL: &[(&str, Errno)] = &[$((stringify!($name), Errno::$name)),*];
    };
}

// Linux's numbers, whatever the machine: they are what OpenZFS's programs compare with.
errors! {
    EPERM = 1 ENOENT = 2 ESRCH = 3 EINTR = 4 EIO = 5 ENXIO = 6 E2BIG = 7 ENOEXEC = 8 EBADF = 9
    ECHILD = 10 EAGAIN = 11 ENOMEM = 12 EACCES = 13 EFAULT = 14 ENOTBLK = 15 EBUSY = 16 EEXIST = 17
    EXDEV = 18 ENODEV = 19 ENOTDIR = 20 EISDIR = 21 EINVAL = 22 ENFILE = 23 EMFILE = 24 ENOTTY = 25
    ETXTBSY = 26 EFBIG = 27 ENOSPC = 28 ESPIPE = 29 EROFS = 30 EMLINK = 31 EPIPE = 32 EDOM = 33
    ERANGE = 34 EDEADLK = 35 ENAMETOOLONG = 36 ENOLCK = 37 ENOTSUP = 95 EDQUOT = 122
    ECANCELED = 125
}
