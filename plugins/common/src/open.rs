//! The device, over the netmod of a name.

use crate::state::{Hooks, State};
use rankway::boot::Boot;
use rankway::device::{self, Options};
use rankway::netmod::{self, Netmod};
use rankway::netmods;
use std::sync::Arc;

macro_rules! chosen {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// The state of whichever netmod was chosen.
        pub enum Chosen<B: Boot + 'static> {
            $(
                #[doc = concat!("Over ", stringify!($netmod), ".")]
                $netmod(&'static State<netmod::$module::$netmod, B>),
            )*
        }

        /// Opens the process's device over the netmod of this name; without one,
        /// over the best that is installed.
        ///
        /// # Errors
        /// Why it cannot be opened, for people.
        pub fn open<B: Boot + 'static>(
            name: Option<&str>,
            boot: Arc<B>,
            options: &Options,
            hooks: Hooks,
        ) -> Result<Chosen<B>, String> {
            let name = match name {
                Some(name) => name,
                None => netmod::preferred(),
            };
            $(
                if name == <netmod::$module::$netmod as Netmod>::NAME {
                    return over(boot, options, hooks).map(Chosen::$netmod);
                }
            )*
            Err(netmod::NetError::NoNetmod { wanted: name.to_owned(), have: netmod::NAMES }.to_string())
        }
    };
}

netmods!(chosen);

impl<B: Boot> Clone for Chosen<B> {
    fn clone(&self) -> Chosen<B> {
        *self
    }
}

impl<B: Boot> Copy for Chosen<B> {}

fn over<N: Netmod, B: Boot>(
    boot: Arc<B>,
    options: &Options,
    hooks: Hooks,
) -> Result<&'static State<N, B>, String> {
    let context = device::open_over(Arc::clone(&boot) as _, options).map_err(|e| e.to_string())?;
    State::leak(context, boot, options.threads, hooks).map_err(|e| e.to_string())
}
