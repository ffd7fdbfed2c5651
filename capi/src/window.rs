//! Windows of [`crate::objects`], written once for every netmod.

use crate::custom::{ASKED, CustomOp};
use crate::error::Fail;
use crate::native::context_id;
use crate::objects::*;
use crate::operation::{Native, NetmodRequest, Operation, Rma};
use std::ffi::c_void;
use std::rc::Rc;
use transport::datatype::Layout;
use transport::netmod::Op;
use transport::rma::{Access, Pending, Window};

/// A request that keeps its window.
fn held<N: Native>(win: Rc<Window<N>>, pending: Pending<'_, N>) -> Operation {
    let context_id = context_id(win.communicator().context());
    // SAFETY: the pending operation borrows the access in `win`, which does
    // not move and is kept beside it, dropped after it (the order of fields),
    // and not borrowed mutably while it is shared.
    let pending: Pending<'static, N> = unsafe { std::mem::transmute(pending) };
    Operation {
        context_id,
        what: NetmodRequest::Rma(Box::new(Held {
            pending: Some(pending),
            failed: None,
            _win: win,
        })),
    }
}

impl<N: Native> Win for Window<N> {
    fn context_id(&self) -> usize {
        context_id(self.communicator().context())
    }

    fn free(&mut self) -> Result<(), Fail> {
        Ok(self.free()?)
    }

    fn local(&self) -> Result<(*mut u8, usize), Fail> {
        Ok(self.local()?)
    }

    fn query(&self, rank: u32) -> Result<(*mut u8, usize, usize), Fail> {
        Ok(self.shared_query(rank)?)
    }

    unsafe fn attach(&self, start: *mut u8, bytes: usize) -> Result<(), Fail> {
        // SAFETY: [MEM].
        Ok(unsafe { self.attach(start, bytes) }.map(drop)?)
    }

    fn detach(&self, start: *const u8) -> Result<(), Fail> {
        Ok(self.detach(start)?)
    }

    unsafe fn put(&self, buf: *const u8, len: usize, rank: u32, disp: usize) -> Result<(), Fail> {
        // SAFETY: [BUF].
        Ok(unsafe { self.put_nb(buf, len, rank, disp) }?)
    }

    unsafe fn get(&self, buf: *mut u8, len: usize, rank: u32, disp: usize) -> Result<(), Fail> {
        // SAFETY: [BUF].
        Ok(unsafe { self.get_nb(buf, len, rank, disp) }?)
    }

    unsafe fn accumulate(&self, of: &Elements, rank: u32, disp: usize) -> Result<(), Fail> {
        // SAFETY: [BUF].
        Ok(unsafe { self.accumulate_raw(of.operands, of.count, of.ty, of.op, rank, disp) }?)
    }

    unsafe fn get_accumulate(&self, of: &Elements, rank: u32, disp: usize) -> Result<(), Fail> {
        let Elements { operands, results, count, ty, op } = *of;
        // SAFETY: [BUF].
        Ok(unsafe { self.get_accumulate_raw(operands, results, count, ty, op, rank, disp) }?)
    }

    unsafe fn compare_and_swap(
        &self,
        of: &Elements,
        compare: *const u8,
        rank: u32,
        disp: usize,
    ) -> Result<(), Fail> {
        // SAFETY: [BUF].
        Ok(unsafe {
            self.compare_and_swap_raw(of.operands, compare, of.results, of.ty, rank, disp)
        }?)
    }

    unsafe fn rput(
        self: Rc<Self>,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail> {
        // SAFETY: [BUF].
        let pending = unsafe { Access::rput(&self, buf, len, rank, disp)? };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn rget(
        self: Rc<Self>,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail> {
        // SAFETY: [BUF].
        let pending = unsafe { Access::rget(&self, buf, len, rank, disp)? };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn rget_accumulate(
        self: Rc<Self>,
        of: &Elements,
        rank: u32,
        disp: usize,
    ) -> Result<Operation, Fail> {
        let Elements { operands, results, count, ty, op } = *of;
        let access: &Access<N> = &self;
        // SAFETY: [BUF].
        let pending =
            unsafe { access.rget_accumulate(operands, results, count, ty, op, rank, disp)? };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn put_layout(self: Rc<Self>, of: &Laid<*const u8>) -> Result<Operation, Fail> {
        let access: &Access<N> = &self;
        // SAFETY: [BUF].
        let pending = unsafe { access.rput_layout(of.buf, &of.here, of.rank, of.disp, &of.there)? };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn get_layout(self: Rc<Self>, of: &Laid<*mut u8>) -> Result<Operation, Fail> {
        let access: &Access<N> = &self;
        // SAFETY: [BUF].
        let pending = unsafe { access.rget_layout(of.buf, &of.here, of.rank, of.disp, &of.there)? };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn accumulate_layout(
        self: Rc<Self>,
        of: &Laid<*const u8>,
        results: Option<(*mut u8, Layout)>,
        op: Op,
    ) -> Result<Operation, Fail> {
        let access: &Access<N> = &self;
        let Laid { buf, here, rank, disp, there } = of;
        // SAFETY: [BUF].
        let pending = unsafe {
            match &results {
                None => access.raccumulate_layout(*buf, here, op, *rank, *disp, there)?,
                Some((results, into)) => access
                    .rget_accumulate_layout(*buf, here, *results, into, op, *rank, *disp, there)?,
            }
        };
        Ok(held(Rc::clone(&self), pending))
    }

    unsafe fn custom(self: Rc<Self>, of: &CustomOp<'_>) -> Result<Operation, Fail> {
        let access: &Access<N> = &self;
        let CustomOp { code, result, len, rank, disp, span, .. } = of;
        let body = of.body(self.custom_limit(*rank)?)?;
        // SAFETY: [BUF].
        let pending = unsafe { access.rcustom(*code, &body, *result, *len, *rank, *disp, *span)? };
        Ok(held(Rc::clone(&self), pending))
    }

    fn custom_limit(&self, rank: u32) -> Result<usize, Fail> {
        Ok(Access::custom_limit(self, rank)?.saturating_sub(ASKED))
    }

    fn epoch(&self, what: Epoch<'_>) -> Result<(), Fail> {
        Ok(match what {
            Epoch::Fence(assert) => self.fence_with(assert),
            Epoch::LockAll(assert) => self.lock_all_with(assert),
            Epoch::UnlockAll => self.unlock_all(),
            Epoch::Lock(kind, rank, assert) => self.lock(kind, rank, assert),
            Epoch::Unlock(rank) => self.unlock(rank),
            Epoch::Flush(rank) => self.flush(rank),
            Epoch::FlushAll => self.flush_all(),
            Epoch::FlushLocal(rank) => self.flush_local(rank),
            Epoch::FlushLocalAll => self.flush_local_all(),
            Epoch::Sync => self.sync(),
            Epoch::Start(group, assert) => self.start(group, assert),
            Epoch::Complete => self.complete(),
            Epoch::Post(group, assert) => self.post(group, assert),
            Epoch::Wait => self.wait(),
        }?)
    }

    fn set_hint(&self, key: &str, value: &str) -> Result<bool, Fail> {
        let mut hints = self.hints()?;
        let known = hints.set(key, value)?;
        self.set_hints(hints)?;
        Ok(known)
    }

    fn test(&self) -> Result<bool, Fail> {
        Ok(self.test()?)
    }

    fn access(&self) -> *const c_void {
        let access: &Access<N> = self;
        std::ptr::from_ref(access).cast()
    }

    fn take_error(&self) -> Option<Fail> {
        Access::take_error(self).map(Fail::from)
    }
}

struct Held<N: Native> {
    pending: Option<Pending<'static, N>>,
    /// What was found when nobody took it.
    failed: Option<Fail>,
    _win: Rc<Window<N>>,
}

impl<N: Native> Rma for Held<N> {
    fn test(&mut self) -> Result<bool, Fail> {
        Ok(match &mut self.pending {
            Some(pending) => pending.test()?,
            None => self.failed.take().map_or(Ok(true), Err)?,
        })
    }

    fn wait(&mut self) -> Result<(), Fail> {
        match self.pending.take() {
            Some(pending) => Ok(pending.wait()?),
            None => self.failed.take().map_or(Ok(()), Err),
        }
    }

    fn is_complete(&mut self) -> bool {
        self.test().unwrap_or_else(|e| {
            (self.pending, self.failed) = (None, Some(e));
            true
        })
    }
}
