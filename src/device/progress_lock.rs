//! Whether a context makes progress, and what a panic there leaves behind.
//!
//! A handler's panic is kept until everything is as it must be, and then goes on
//! in whoever made progress. Any other panic within progress is a fault: what it
//! interrupted is half done, so that the context must not go on as if it were
//! not, and says so from then on.

use super::DeviceError;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;

/// Keeps progress on a context from being entered twice.
#[derive(Default)]
pub(super) struct ProgressLock {
    state: Cell<State>,
    /// A handler's panic.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Active,
    /// It ended in a panic.
    Poisoned,
}

/// Progress under way. Dropped without [`ProgressGuard::leave`] it was ended by
/// a panic.
pub(super) struct ProgressGuard<'a>(&'a ProgressLock);

impl ProgressLock {
    /// Returns `None` where progress is under way, or the lock is poisoned.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<ProgressGuard<'_>> {
        if self.state.get() != State::Idle {
            return None;
        }
        self.state.set(State::Active);
        Some(ProgressGuard(self))
    }

    /// The answer to a call that could not enter.
    #[cold]
    pub(super) fn refused(&self) -> Result<(), DeviceError> {
        match self.state.get() {
            State::Poisoned => Err(DeviceError::Poisoned),
            _ => Ok(()),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state.get() == State::Active
    }

    /// Keeps a handler's panic; of several, the first.
    pub(super) fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        self.panic.borrow_mut().get_or_insert(panic);
    }

    /// Lets a handler's panic go on, the last thing in a progress call.
    pub(super) fn resume_panic(&self) {
        if let Some(panic) = self.panic.take() {
            self.state.set(State::Idle);
            resume_unwind(panic);
        }
    }
}

impl ProgressGuard<'_> {
    #[inline]
    pub(super) fn leave(self) {
        self.0.state.set(State::Idle);
        std::mem::forget(self);
    }
}

impl Drop for ProgressGuard<'_> {
    fn drop(&mut self) {
        if self.0.is_active() {
            self.0.state.set(State::Poisoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::boot::alone::Alone;
    use crate::device::{Class, Context, DeviceError, Head, Outcome, PacketHandler, open_null};
    use crate::msg::{Active, HandlerStatus};
    use crate::netmod::null::Null;
    use std::any::Any;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;
    use std::sync::Arc;

    fn alone() -> Rc<Context<Null>> {
        open_null(Arc::new(Alone::new().unwrap())).unwrap()
    }

    fn panic_of<R>(f: impl FnOnce() -> R) -> Option<String> {
        let panic = catch_unwind(AssertUnwindSafe(f)).err()?;
        Some(panic.downcast_ref::<&str>().map_or_else(String::new, |s| (*s).to_owned()))
    }

    #[test]
    fn a_handlers_panic_goes_on_and_what_is_behind_it_comes_in() {
        let context = alone();
        let active = Active::open(&context).unwrap();
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        active
            .register(1, move |call| {
                counted.set(counted.get() + 1);
                assert!(!call.payload.is_empty(), "nothing in it");
                HandlerStatus::Consumed
            })
            .unwrap();
        assert!(active.try_request(0, 1, &[], &[]).unwrap());
        assert!(active.try_send(0, 1, &[], &[1]).unwrap());
        assert!(active.try_send(0, 1, &[], &[2]).unwrap());
        assert_eq!(active.owed(0), 1);
        assert_eq!(panic_of(|| context.progress()).as_deref(), Some("nothing in it"));
        assert_eq!((calls.get(), active.owed(0), active.held()), (3, 0, 0));
        assert!(!context.is_progressing());
        // Once.
        context.progress().unwrap();
        assert!(active.try_send(0, 1, &[], &[3]).unwrap());
        context.progress().unwrap();
        assert_eq!(calls.get(), 4);
    }

    struct Faulty;

    impl PacketHandler<Null> for Faulty {
        fn arrived(&self, _: &Context<Null>, _: &Head, _: &[u8]) {}
        fn finished(&self, _: &Context<Null>, _: u64, _: Outcome) {}
        fn lost(&self, _: &Context<Null>, _: u32) {}
        fn poll_deferred(&self, _: &Context<Null>) {
            panic!("a fault");
        }
        fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
            self
        }
    }

    #[test]
    fn a_fault_within_progress_is_not_forgotten() {
        let context = alone();
        context.register_handler(Class::Rma, Rc::new(Faulty));
        context.schedule(Class::Rma);
        assert_eq!(panic_of(|| context.progress()).as_deref(), Some("a fault"));
        for _ in 0..2 {
            assert!(matches!(context.progress(), Err(DeviceError::Poisoned)));
        }
        let wait = context.wait_packets(None, || Ok(crate::device::Progress::Waiting));
        assert!(matches!(wait, Err(DeviceError::Poisoned)), "it would never end");
    }
}
