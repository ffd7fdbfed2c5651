//! A netmod chosen by name, or the best that is installed.

use super::{Costs, NetError, Netmod};
use crate::settings::{self, BadSetting};

/// Matches an enum that has a variant for each netmod, named as its type: what
/// is done with any of them, then the arms of the enum's other variants. For
/// crates that build with the feature `netmods`.
///
/// ```ignore
/// match_netmod!(any, AnyContext(context) => run(context))
/// ```
#[macro_export]
macro_rules! match_netmod {
    (
        [$($feature:literal $module:ident::$netmod:ident),*]
        ($value:expr) $any:ident $held:ident ($then:expr) $($rest:tt)*
    ) => {
        match $value {
            $($any::$netmod($held) => $then,)*
            $($rest)*
        }
    };
    ($value:expr, $any:ident($held:ident) => $then:expr $(, $($rest:tt)*)?) => {
        $crate::netmods!($crate::match_netmod, ($value) $any $held ($then) $($($rest)*)?)
    };
}

/// What is done with a netmod that is named only at run time.
pub trait Visit {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<N: Netmod>(self) -> Self::Output;
}

macro_rules! choices {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// The names of the netmods that this library was built with, in the
        /// order of preference.
        pub const NAMES: &[&str] =
            &[$(#[cfg(feature = $feature)] <super::$module::$netmod as Netmod>::NAME),*];

        /// Does something with the netmod of this name.
        ///
        /// # Errors
        /// [`NetError::NoNetmod`] for another name.
        pub fn by_name<V: Visit>(name: &str, visitor: V) -> Result<V::Output, NetError> {
            $(
                #[cfg(feature = $feature)]
                if name == <super::$module::$netmod as Netmod>::NAME {
                    return Ok(visitor.visit::<super::$module::$netmod>());
                }
            )*
            let _ = visitor;
            Err(NetError::NoNetmod { wanted: name.to_owned(), have: NAMES })
        }

        /// Refuses settings that could not be used, `RANKWAY_NETMOD` and the
        /// netmods' own among them.
        ///
        /// # Errors
        /// The first such variable, with what it takes.
        pub fn check_settings() -> Result<(), BadSetting> {
            settings::check()?;
            $(
                #[cfg(feature = $feature)]
                <super::$module::$netmod as Netmod>::check_settings()?;
            )*
            settings::check_choice("RANKWAY_NETMOD", NAMES)
        }

        /// The process that made a segment of this name, if a netmod's library
        /// calls its own so ([`Netmod::segment_owner`]).
        pub(crate) fn segment_owner(name: &str) -> Option<u32> {
            let owners: &[fn(&str) -> Option<u32>] = &[$(
                #[cfg(feature = $feature)]
                <super::$module::$netmod as Netmod>::segment_owner
            ),*];
            owners.iter().find_map(|owner| owner(name))
        }

        /// What operations cost over the provider of this name, opened or not
        /// ([`Netmod::costs`]); [`Costs::ASSUMED`] of one that no netmod knows. What was
        /// measured on this host and kept ([`Costs::keep`]) comes first.
        #[must_use]
        pub fn costs(provider: &str) -> Costs {
            let all: &[fn(&str) -> Option<Costs>] = &[$(
                #[cfg(feature = $feature)]
                <super::$module::$netmod as Netmod>::costs
            ),*];
            let known = all.iter().find_map(|costs| costs(provider)).unwrap_or(Costs::ASSUMED);
            Costs::kept_or(provider, known)
        }
    };
}

crate::netmods!(choices);

/// Is the netmod's library there, or asked for?
struct Suits<'a>(Option<&'a str>);

impl Visit for Suits<'_> {
    type Output = bool;

    fn visit<N: Netmod>(self) -> bool {
        !matches!(N::is_asked_for(self.0), Ok(false)) || N::is_installed()
    }
}

/// The netmod that is taken where none is named: the first whose library is
/// there, or was asked for by these [providers](crate::netmod::OpenParams::provider) or a
/// setting, else the first.
#[must_use]
pub fn preferred(provider: Option<&str>) -> &'static str {
    let suits = |name: &&&str| by_name(name, Suits(provider)).unwrap_or(false);
    NAMES.iter().find(suits).or(NAMES.first()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Visit for Name {
        type Output = &'static str;

        fn visit<N: Netmod>(self) -> &'static str {
            N::NAME
        }
    }

    #[test]
    fn each_name_has_its_netmod_and_others_are_refused() {
        for &name in NAMES {
            assert_eq!(by_name(name, Name).unwrap(), name);
        }
        assert!(NAMES.is_empty() || NAMES.contains(&preferred(None)));
        let wrong = by_name("tin cans", Name).unwrap_err().to_string();
        assert!(wrong.contains("'tin cans'"), "{wrong}");
        assert!(NAMES.iter().all(|name| wrong.contains(name)), "{wrong}");
    }
}
