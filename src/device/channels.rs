//! Who sends on which channel of a context's tagged messages: whom a receive from anybody
//! waits for.

use crate::rankmap::{Process, RankMap};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Calls the second argument with the number of each process that sends on a channel. Returns
/// false, and calls nothing, for a channel that is not known.
pub(super) type Senders = dyn Fn(u64, &mut dyn FnMut(u32)) -> bool;

/// What a context knows of channels.
#[derive(Default)]
pub(crate) struct Channels {
    /// How often each was told, and by whom it is sent on.
    enrolled: RefCell<BTreeMap<u64, (u32, RankMap)>>,
    /// A device layer's own knowledge, in place of that.
    layer: OnceCell<Box<Senders>>,
}

/// A channel's senders are known as long as this is there.
pub(crate) struct Enrolled {
    channels: Rc<Channels>,
    channel: u64,
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        let mut enrolled = self.channels.enrolled.borrow_mut();
        let times = enrolled.get_mut(&self.channel).map_or(0, |(times, _)| {
            *times -= 1;
            *times
        });
        if times == 0 {
            enrolled.remove(&self.channel);
        }
    }
}

impl Channels {
    /// The processes of a map send on a channel.
    pub(super) fn enroll(self: &Rc<Self>, channel: u64, map: &RankMap) -> Enrolled {
        let mut enrolled = self.enrolled.borrow_mut();
        enrolled.entry(channel).or_insert_with(|| (0, map.clone())).0 += 1;
        Enrolled { channels: Rc::clone(self), channel }
    }

    pub(super) fn set_layer(&self, senders: Box<Senders>) {
        let _ = self.layer.set(senders);
    }

    /// Returns true where a device layer knows who sends.
    pub(super) fn has_layer(&self) -> bool {
        self.layer.get().is_some()
    }

    /// As [`Senders`], of either; `number` is of a process of a map.
    pub(super) fn senders(
        &self,
        channel: u64,
        number: impl Fn(Process) -> Option<u32>,
        see: &mut dyn FnMut(u32),
    ) -> bool {
        if let Some(layer) = self.layer.get() {
            return layer(channel, see);
        }
        let enrolled = self.enrolled.borrow();
        let Some((_, map)) = enrolled.get(&channel) else { return false };
        map.iter().filter_map(number).for_each(see);
        true
    }
}
