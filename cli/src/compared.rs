//! The netmods that have loops of their own, which ours are held against:
//! `rankway rate` and `rankway operations` measure these.

/// Calls a macro with the list of them, the usual one first.
macro_rules! list {
    ($($then:ident)::+ $(, $($given:tt)*)?) => {
        $($then)::+! { [rankway::netmod::ofi::Ofi, rankway::netmod::ucx::Ucx] $($($given)*)? }
    };
}

macro_rules! names {
    ([$($netmod:ty),*]) => {
        /// Their names.
        pub(crate) const NAMES: &[&str] =
            &[$(<$netmod as rankway::netmod::Netmod>::NAME),*];
    };
}

list!(names);

macro_rules! match_name {
    ([$($netmod:ty),*] $name:expr, $this:ident => $then:expr) => {
        match $name {
            $(
                name if name == <$netmod as rankway::netmod::Netmod>::NAME => {
                    type $this = $netmod;
                    Some($then)
                }
            )*
            _ => None,
        }
    };
}

/// Does something with the netmod of this name, whose type is called `$this`
/// there; `None` where it has no loops.
macro_rules! compared {
    ($name:expr, $this:ident => $then:expr) => {
        $crate::compared::list!($crate::compared::match_name, $name, $this => $then)
    };
}

pub(crate) use {compared, list, match_name};
