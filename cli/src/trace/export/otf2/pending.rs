//! Puts and the like that are not known to be over.

use super::ffi::EventWriter;

#[derive(Clone, Copy)]
struct Access {
    window: u32,
    target: u32,
    number: u64,
    /// The request that completes it here, until that has.
    request: Option<u64>,
    /// It did: what is left is the other side.
    is_here: bool,
}

/// Those of a thread.
#[derive(Default)]
pub(super) struct Pending {
    open: Vec<Access>,
    count: u64,
}

impl Pending {
    /// Returns the number of one that begins.
    pub(super) fn begin(&mut self, window: u32, target: u32, request: Option<u64>) -> u64 {
        self.count += 1;
        let number = self.count;
        self.open.push(Access { window, target, number, request, is_here: false });
        number
    }

    /// What a request was of is over on this side.
    pub(super) fn complete_locally(
        &mut self,
        writer: &EventWriter<'_>,
        time: u64,
        request: u64,
    ) -> Result<(), String> {
        let Some(one) = self.open.iter_mut().find(|one| one.request == Some(request)) else {
            return Ok(());
        };
        one.is_here = true;
        writer.complete_locally(time, one.window, one.number)
    }

    /// Those to `target`, or to all, are over on both sides.
    pub(super) fn complete(
        &mut self,
        writer: &EventWriter<'_>,
        time: u64,
        window: u32,
        target: Option<u32>,
    ) -> Result<(), String> {
        let over = |one: &mut Access| {
            one.window == window && target.is_none_or(|target| target == one.target)
        };
        self.open.extract_if(.., over).try_for_each(|one| match one.is_here {
            false => writer.complete(time, window, one.number),
            true => writer.complete_remotely(time, window, one.number),
        })
    }
}
