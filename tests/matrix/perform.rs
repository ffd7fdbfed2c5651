//! One thread's epochs on one access.

use super::factors::{Completion, Memory};
use super::oracle::{hits, operand};
use super::program::{Act, Enclosed, Epoch, Frame, Spread, Step};
use super::watch::{Doing, Watch};
use crate::harness::{Result, same, text};
use rankway::datatype::Layout;
use rankway::netmod::{Netmod, Type};
use rankway::rma::{Access, Assert, Lock, Pending};
use std::cell::RefCell;

const GUARD: usize = 256;
const GUARDED: u8 = 0xa5;

/// Memory with bytes around it that nobody may change.
pub struct Guarded {
    bytes: Vec<u64>,
    at: usize,
    len: usize,
}

impl Guarded {
    /// `len` bytes at an address that is `skew` modulo 8.
    pub fn new(len: usize, skew: usize) -> Guarded {
        let word = u64::from_ne_bytes([GUARDED; 8]);
        let bytes = vec![word; (2 * GUARD + len + skew).div_ceil(8)];
        Guarded { bytes, at: GUARD + skew, len }
    }

    fn holding(bytes: &[u8], skew: usize) -> Guarded {
        let mut all = Guarded::new(bytes.len(), skew);
        all.inside().copy_from_slice(bytes);
        all
    }

    pub fn start(&self) -> *mut u8 {
        self.bytes.as_ptr().cast::<u8>().cast_mut().wrapping_add(self.at)
    }

    /// The bytes, once no operation has them.
    fn inside(&mut self) -> &mut [u8] {
        let (at, len) = (self.at, self.len);
        // SAFETY: `at + len` bytes are there, and any bytes are bytes.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast::<u8>().add(at), len) }
    }

    /// Whether all is well around the bytes.
    pub fn intact(&self) -> Result {
        let (first, all) = (self.bytes.as_ptr().cast::<u8>(), self.bytes.len() * 8);
        // SAFETY: two parts of the allocation beside the one that others have.
        let around = unsafe {
            let behind = self.at + self.len;
            [
                std::slice::from_raw_parts(first, self.at),
                std::slice::from_raw_parts(first.add(behind), all - behind),
            ]
        };
        for (where_, bytes) in ["before", "behind"].into_iter().zip(around) {
            if let Some(at) = bytes.iter().position(|&b| b != GUARDED) {
                return Err(format!(
                    "{} bytes {where_} it: byte {at} was overwritten",
                    bytes.len()
                ));
            }
        }
        Ok(())
    }
}

/// A step under way, with its buffers.
struct Issued<'a, N: Netmod> {
    step: Step,
    origin: Guarded,
    result: Guarded,
    compare: Guarded,
    sent: Vec<u8>,
    /// What comes back, where it is known.
    expected: Option<Vec<u8>>,
    request: Option<Pending<'a, N>>,
    requested: bool,
}

/// So many bytes of elements as they lie from the lowest one on.
fn layout(spread: Spread, len: usize, ty: Type) -> Layout {
    let element = Layout::basic(ty.basic());
    let blocks = spread.blocks(len, ty).into_iter();
    let (places, lengths): (Vec<i64>, Vec<u64>) =
        blocks.map(|(at, len)| (at as i64, (len / ty.size()) as u64)).unzip();
    Layout::hindexed(&lengths, &places, &element).unwrap()
}

pub struct Perform<'a, N: Netmod> {
    pub access: &'a Access<N>,
    pub frame: &'a Frame,
    pub starts: &'a [usize],
    pub watch: &'a Watch,
    pub wrong: &'a RefCell<Vec<String>>,
}

impl<'a, N: Netmod> Perform<'a, N> {
    fn disp(&self, step: &Step) -> usize {
        match self.frame.memory {
            Memory::Dynamic => self.starts[step.to as usize] + step.at,
            _ => step.at / self.frame.units[step.to as usize],
        }
    }

    fn at(&self, stage: &'static str, epoch: &Epoch) {
        let Epoch { kind, completion, targets, .. } = epoch;
        self.watch.now(Doing::Epoch(stage, *kind, *completion, targets.len()));
    }

    /// Opens an epoch, carries out its steps and ends it. `between` is called
    /// when they are complete, `fence` ends the epoch of a fence.
    pub fn epoch(
        &self,
        epoch: &Epoch,
        before: &[Vec<u8>],
        between: impl FnOnce() -> Result,
        fence: impl FnOnce() -> Result,
    ) -> Result {
        let mut issued = Vec::new();
        let done = self.enact(epoch, before, &mut issued, between, fence);
        if done.is_err() {
            // The library may have the buffers yet.
            std::mem::forget(issued);
            return done;
        }
        issued.into_iter().for_each(|one| self.collect(one));
        Ok(())
    }

    fn enact(
        &self,
        epoch: &Epoch,
        before: &[Vec<u8>],
        issued: &mut Vec<Issued<'a, N>>,
        between: impl FnOnce() -> Result,
        fence: impl FnOnce() -> Result,
    ) -> Result {
        self.open(epoch)?;
        for (step, before) in epoch.steps.iter().zip(before) {
            self.watch.now(Doing::Step(*step));
            issued.extend(self.issue(step, before).map_err(|e| format!("{}: {e}", step.name()))?);
        }
        self.at("completion", epoch);
        self.complete(epoch, issued)?;
        for one in std::mem::take(issued) {
            let done = match epoch.completion {
                Completion::End => false,
                Completion::Request => one.requested,
                _ => true,
            };
            if done { self.collect(one) } else { issued.push(one) }
        }
        between()?;
        self.close(epoch, fence)
    }

    fn open(&self, epoch: &Epoch) -> Result {
        self.at("opening", epoch);
        let lock = |kind| {
            let mut all = epoch.targets.iter();
            all.try_for_each(|&to| self.access.lock(kind, to, Assert::NONE).map_err(text))
        };
        match epoch.kind {
            Enclosed::Fence => Ok(()),
            Enclosed::Start => self.access.start(&epoch.targets, Assert::NONE).map_err(text),
            Enclosed::Shared => lock(Lock::Shared),
            Enclosed::Exclusive => lock(Lock::Exclusive),
            Enclosed::LockAll => self.access.lock_all().map_err(text),
        }
    }

    fn complete(&self, epoch: &Epoch, issued: &mut [Issued<'a, N>]) -> Result {
        let mut targets = epoch.targets.iter();
        let done = match epoch.completion {
            Completion::End => Ok(()),
            Completion::Flush => targets.try_for_each(|&to| self.access.flush(to)),
            Completion::FlushAll => self.access.flush_all(),
            Completion::FlushLocal if epoch.steps.len().is_multiple_of(2) => {
                self.access.flush_local_all()
            }
            Completion::FlushLocal => targets.try_for_each(|&to| self.access.flush_local(to)),
            Completion::Request => {
                issued.iter_mut().filter_map(|i| i.request.take()).try_for_each(Pending::wait)
            }
        };
        done.map_err(text)
    }

    fn close(&self, epoch: &Epoch, fence: impl FnOnce() -> Result) -> Result {
        self.at("end", epoch);
        match epoch.kind {
            Enclosed::Fence => fence(),
            Enclosed::Start => self.access.complete().map_err(text),
            Enclosed::LockAll => self.access.unlock_all().map_err(text),
            Enclosed::Shared | Enclosed::Exclusive => {
                let mut all = epoch.targets.iter();
                all.try_for_each(|&to| self.access.unlock(to).map_err(text))
            }
        }
    }

    /// Begins a step.
    fn issue(&self, step: &Step, before: &[u8]) -> Result<Option<Issued<'a, N>>> {
        let access = self.access;
        let (to, disp) = (step.to, self.disp(step));
        match step.act {
            Act::Flush => return access.flush(to).map_err(text).map(|()| None),
            Act::FlushLocal => return access.flush_local(to).map_err(text).map(|()| None),
            Act::FlushAll => return access.flush_all().map_err(text).map(|()| None),
            _ => {}
        }
        let skew = usize::from(step.odd_origin);
        let unpacked = |packed| step.spread[0].unpacked(packed, step.ty, GUARDED);
        let sent = unpacked(operand(step));
        let swaps = step.act == Act::CompareAndSwap;
        let mut compared = if swaps { before.to_vec() } else { Vec::new() };
        if let (false, Some(first)) = (hits(step), compared.first_mut()) {
            *first ^= 1;
        }
        let mut one = Issued {
            step: *step,
            origin: Guarded::holding(&sent, skew),
            result: Guarded::new(if step.act.answers() { sent.len() } else { 0 }, skew),
            compare: Guarded::holding(&compared, skew),
            sent,
            expected: (step.alone && step.act.answers()).then(|| unpacked(before.to_vec())),
            request: None,
            requested: false,
        };
        // SAFETY: the buffers hold what the step says, and stay until all is
        // complete; they are forgotten where that is not known.
        unsafe { self.call(step, disp, &mut one) }.map_err(text)?;
        one.requested = one.request.is_some();
        if step.at_once
            && let Some(request) = one.request.take()
        {
            request.wait().map_err(text)?;
        }
        Ok(Some(one))
    }

    /// # Safety
    /// The buffers of `one` are those of the step and stay until it is complete.
    unsafe fn call(
        &self,
        step: &Step,
        disp: usize,
        one: &mut Issued<'a, N>,
    ) -> std::result::Result<(), rankway::rma::Error> {
        if step.laid() {
            // SAFETY: the caller's.
            return unsafe { self.call_laid(step, disp, one) };
        }
        let access = self.access;
        let &Step { to, len, ty, op, at_once, .. } = step;
        let (origin, result, compare) =
            (one.origin.start(), one.result.start(), one.compare.start());
        let count = len / ty.size();
        let bytes = ty == Type::U8;
        let words = ty == Type::I64 && origin.addr() % 8 == 0 && result.addr() % 8 == 0;
        // SAFETY: the buffers hold what the step says, and stay until it is complete.
        unsafe {
            match step.act {
                Act::Put if step.request => one.request = Some(access.rput(origin, len, to, disp)?),
                Act::Put if at_once => access.put(one.origin.inside(), to, disp)?,
                Act::Put => access.put_nb(origin, len, to, disp)?,
                Act::Get if step.request => one.request = Some(access.rget(result, len, to, disp)?),
                Act::Get if at_once => access.get(one.result.inside(), to, disp)?,
                Act::Get => access.get_nb(result, len, to, disp)?,
                Act::Accumulate if step.request && bytes => {
                    one.request = Some(access.raccumulate(one.origin.inside(), op, to, disp)?);
                }
                Act::Accumulate => access.accumulate_raw(origin, count, ty, op, to, disp)?,
                Act::GetAccumulate if step.request => {
                    let made = access.rget_accumulate(origin, result, count, ty, op, to, disp)?;
                    one.request = Some(made);
                }
                Act::GetAccumulate if at_once && bytes => {
                    let (from, into) = (one.origin.inside(), one.result.inside());
                    access.get_accumulate(from, into, op, to, disp)?;
                }
                Act::GetAccumulate => {
                    access.get_accumulate_raw(origin, result, count, ty, op, to, disp)?;
                }
                Act::FetchAndOp if at_once && words => {
                    let old = access.fetch_and_op(origin.cast::<i64>().read(), op, to, disp)?;
                    result.cast::<i64>().write(old);
                }
                Act::FetchAndOp if at_once && bytes => {
                    result.write(access.fetch_and_op(origin.read(), op, to, disp)?);
                }
                Act::FetchAndOp => access.fetch_and_op_raw(origin, result, ty, op, to, disp)?,
                Act::CompareAndSwap if at_once && words => {
                    let (compare, new) =
                        (compare.cast::<i64>().read(), origin.cast::<i64>().read());
                    result.cast::<i64>().write(access.compare_and_swap(compare, new, to, disp)?);
                }
                Act::CompareAndSwap => {
                    access.compare_and_swap_raw(origin, compare, result, ty, to, disp)?;
                }
                Act::Flush | Act::FlushLocal | Act::FlushAll => {}
            }
        }
        Ok(())
    }

    /// [`Perform::call`] with a layout at either end.
    ///
    /// # Safety
    /// As there.
    unsafe fn call_laid(
        &self,
        step: &Step,
        disp: usize,
        one: &mut Issued<'a, N>,
    ) -> std::result::Result<(), rankway::rma::Error> {
        let access = self.access;
        let &Step { to, op, at_once, request, .. } = step;
        let [here, there] = step.spread.map(|spread| layout(spread, step.len, step.ty));
        let (from, into) = (one.origin.start(), one.result.start());
        // SAFETY: the buffers hold what the step says, and stay until it is complete.
        unsafe {
            match step.act {
                Act::Put if request => {
                    one.request = Some(access.rput_layout(from, &here, to, disp, &there)?);
                }
                Act::Put if at_once => {
                    access.put_layout(one.origin.inside(), 0, &here, to, disp, &there)?;
                }
                Act::Put => access.put_layout_nb(from, &here, to, disp, &there)?,
                Act::Get if request => {
                    one.request = Some(access.rget_layout(into, &here, to, disp, &there)?);
                }
                Act::Get if at_once => {
                    access.get_layout(one.result.inside(), 0, &here, to, disp, &there)?;
                }
                Act::Get => access.get_layout_nb(into, &here, to, disp, &there)?,
                Act::Accumulate if request => {
                    let made = access.raccumulate_layout(from, &here, op, to, disp, &there)?;
                    one.request = Some(made);
                }
                Act::Accumulate => {
                    access.accumulate_layout_raw(from, &here, op, to, disp, &there)?;
                }
                Act::GetAccumulate if request => {
                    let made = access
                        .rget_accumulate_layout(from, &here, into, &here, op, to, disp, &there)?;
                    one.request = Some(made);
                }
                Act::GetAccumulate => {
                    access.get_accumulate_layout(from, &here, into, &here, op, to, disp, &there)?
                }
                _ => unreachable!("{} with a layout", step.name()),
            }
        }
        Ok(())
    }

    /// Looks at the buffers of a step that is complete, and spoils them: who
    /// sends them now sends nonsense.
    fn collect(&self, mut one: Issued<'a, N>) {
        let check = |what: &str, checked: Result| {
            if let Err(why) = checked {
                self.wrong.borrow_mut().push(format!("{}: {what}: {why}", one.step.name()));
            }
        };
        check("around what was sent", one.origin.intact());
        check("around what came back", one.result.intact());
        check("what was sent", same("in its buffer", one.origin.inside(), &one.sent));
        if let Some(expected) = &one.expected {
            check("what came back", same("in its buffer", one.result.inside(), expected));
        }
        one.origin.inside().fill(0x11);
        one.result.inside().fill(0x11);
    }
}
