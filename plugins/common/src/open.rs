//! The device, over the netmod of a name.

use crate::state::{Layer, State};
use rankway::device::{self, AnyContext, OpenedBy, Options};
use rankway::netmod;
use rankway::netmods;
use std::sync::Arc;

macro_rules! chosen {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// The state of whichever netmod was chosen.
        pub enum Chosen<L: Layer> {
            $(
                #[doc = concat!("Over ", stringify!($netmod), ".")]
                $netmod(&'static State<netmod::$module::$netmod, L>),
            )*
        }

        /// Opens the process's device over the netmod of this name; without one as
        /// [`device::open_by_name`] has it.
        ///
        /// # Errors
        /// Why it cannot be opened, for people.
        pub fn open<L: Layer>(
            name: Option<&str>,
            boot: Arc<L::Boot>,
            options: &Options,
        ) -> Result<Chosen<L>, String> {
            // (Its communicators are not the program's.)
            let options = options.clone().opened_by(OpenedBy::DeviceLayer);
            let opened = device::open_by_name(Arc::clone(&boot) as _, name, &options);
            let chosen = match opened.map_err(|e| e.to_string())? {
                $(
                    AnyContext::$netmod(context) => {
                        State::leak(context, boot, options.threads).map(Chosen::$netmod)
                    }
                )*
            };
            chosen.map_err(|e| e.to_string())
        }
    };
}

netmods!(chosen);

impl<L: Layer> Clone for Chosen<L> {
    fn clone(&self) -> Chosen<L> {
        *self
    }
}

impl<L: Layer> Copy for Chosen<L> {}
