//! The device, over the netmod of a name.

use crate::state::{Hooks, State};
use rankway::boot::Boot;
use rankway::device::{self, AnyContext, Options};
use rankway::netmod;
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
            let opened = device::open_by_name(Arc::clone(&boot) as _, name, options);
            let chosen = match opened.map_err(|e| e.to_string())? {
                $(
                    AnyContext::$netmod(context) => {
                        State::leak(context, boot, options.threads, hooks).map(Chosen::$netmod)
                    }
                )*
            };
            chosen.map_err(|e| e.to_string())
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
