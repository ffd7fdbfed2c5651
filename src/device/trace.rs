//! What a program on the library does, recorded where `RANKWAY_TRACE` says so.
//!
//! The recorder ([`crate::track`]) is the device's. What can be talked in, a communicator
//! or a window, has a [`Recorded`] where its calls are recorded, and nothing otherwise: the
//! calls look for it at places that are out of line without it.

use super::open::OpenedBy;
use crate::boot::Boot;
use crate::track::{
    Asked, Constructor, Definition, DefinitionFlags, Event, EventFlags, Identity, Kind, NO_PARENT,
    NO_PEER, ObjectKind, Recorder, Recording, TrackError, close_all,
};
use std::io::{self, Write as _};
use std::panic::{Location, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// The record of a process.
pub(crate) struct Trace {
    recorder: Arc<Recorder>,
    /// Constructors are called by Rust, which says from where.
    sites: bool,
    /// Rank, and size of the world.
    place: (u32, u32),
    world: u32,
    /// The number of the world on a further context, by index.
    further: Mutex<Vec<(u32, u32)>>,
}

impl Trace {
    /// Begins the record of a process, whose device began to open at `start`; `None` where
    /// nothing is to be recorded, or cannot be, which is told.
    pub(super) fn open(boot: &dyn Boot, by: OpenedBy, start: u64) -> Option<Arc<Trace>> {
        let sites = match by {
            OpenedBy::DeviceLayer => return None,
            OpenedBy::Program => false,
            OpenedBy::RustProgram => true,
        };
        let place = (boot.rank(), boot.size());
        let recorder = recorder(boot.job(), place).unwrap_or_else(|error| {
            say(&error, "; nothing is recorded");
            None
        })?;
        recorder.describe_process();
        recorder.fact("mpi", concat!("Rankway ", env!("CARGO_PKG_VERSION")));
        let world = recorder.define(Definition {
            identity: Identity::world(boot.job()),
            rank: place.0,
            size: place.1,
            parent: NO_PARENT,
            site: 0,
            constructor: Constructor::World,
            flags: DefinitionFlags::NONE,
        });
        recorder.record(Event::new(Kind::Init, start, Recorder::now()).with(0, NO_PEER, 0));
        Some(Arc::new(Trace { recorder, sites, place, world, further: Mutex::default() }))
    }

    /// The world, as the context of an index has it: those of further ones are told apart,
    /// for they have messages of their own.
    pub(crate) fn world(self: &Arc<Trace>, index: u32) -> Recorded {
        let number = if index == 0 { self.world } else { self.further_world(index) };
        Recorded { trace: Arc::clone(self), number }
    }

    fn further_world(&self, index: u32) -> u32 {
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(_, number)) = further.iter().find(|(of, _)| *of == index) {
            return number;
        }
        let parent = self.recorder.get(self.world).map_or(Identity(0), |world| world.identity);
        let number = self.recorder.define(Definition {
            identity: parent.child(u32::MAX, u64::from(index)),
            rank: self.place.0,
            size: self.place.1,
            parent: self.world,
            site: 0,
            constructor: Constructor::Dup,
            flags: DefinitionFlags::INTERNAL,
        });
        self.recorder.name(number, &format!("the world on context {index}"));
        further.push((index, number));
        number
    }

    /// What all members name alike, by a number that they have agreed on themselves.
    pub(crate) fn by_number(
        self: &Arc<Trace>,
        number: u64,
        (rank, size): (u32, u32),
        caller: &'static Location<'static>,
    ) -> Recorded {
        let number = self.recorder.define(Definition {
            identity: Identity(number).child(0, 0),
            rank,
            size,
            parent: NO_PARENT,
            site: self.site(caller),
            constructor: Constructor::CreateFromGroup,
            flags: DefinitionFlags::NONE,
        });
        Recorded { trace: Arc::clone(self), number }
    }

    /// Records a call on an object, which began at `start` and has ended just now.
    #[inline]
    pub(crate) fn record(&self, number: u32, what: Call, start: u64, well: bool) {
        let Call { kind, peer, tag, bytes, flags } = what;
        let event = Event::new(kind, start, Recorder::now());
        let event = event.with(number, peer, tag).of_bytes(bytes).flagged(flags);
        self.recorder.record(if well { event } else { event.flagged(EventFlags::FAILED) });
    }

    fn site(&self, caller: &'static Location<'static>) -> u16 {
        match self.sites {
            true => self.recorder.site(&format!("{}:{}", caller.file(), caller.line())),
            #[cfg(target_os = "linux")]
            false => super::caller::outside().map_or(0, |place| self.recorder.site(&place)),
            #[cfg(not(target_os = "linux"))]
            false => 0,
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let now = Recorder::now();
        self.recorder.record(Event::new(Kind::Finalize, now, now).with(0, NO_PEER, 0));
        if let Err(error) = self.recorder.close() {
            say(&error, "");
        }
    }
}

/// Says what went wrong, in one piece.
fn say(error: &TrackError, so: &str) {
    let _ = io::stderr().write_all(format!("rankway: {error}{so}\n").as_bytes());
}

/// The recorder of this process, whose file ends with it; `None` where none is asked for.
fn recorder(job: u64, (rank, size): (u32, u32)) -> Result<Option<Arc<Recorder>>, TrackError> {
    extern "C" fn end() {
        let _ = catch_unwind(close_all);
    }
    static AT_EXIT: Once = Once::new();

    let asked = Asked::from_environment()?;
    let Some(directory) = asked.directory else { return Ok(None) };
    let how = Recording { events: asked.events, ..Recording::default() };
    let recorder = Arc::new(Recorder::open(&directory, job, rank, size, how)?);
    recorder.close_at_the_end();
    AT_EXIT.call_once(|| {
        // SAFETY: a function of this library, which stays while its handlers do.
        unsafe { libc::atexit(end) };
    });
    Ok(Some(recorder))
}

/// What a call is, but for its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// A rank of the object that it is made on, [`NO_PEER`] for none.
    pub(crate) peer: u32,
    pub(crate) tag: i32,
    pub(crate) bytes: u64,
    pub(crate) flags: EventFlags,
}

impl Call {
    /// Without a peer.
    pub(crate) fn new(kind: Kind) -> Call {
        Call { kind, peer: NO_PEER, tag: 0, bytes: 0, flags: EventFlags::NONE }
    }

    /// With a peer and so many bytes.
    pub(crate) fn with(kind: Kind, peer: u32, bytes: usize) -> Call {
        Call { peer, bytes: bytes as u64, ..Call::new(kind) }
    }

    /// It was cancelled.
    pub(crate) fn cancelled(self) -> Call {
        Call { flags: EventFlags::CANCELLED, ..self }
    }

    /// With a tag, as far as events have them.
    pub(crate) fn tagged(self, tag: u32) -> Call {
        Call { tag: i32::try_from(tag).unwrap_or(i32::MAX), ..self }
    }
}

/// What a process is in an object that was made: the least process of it, which tells apart
/// what one call makes, its rank and the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) lead: u64,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

/// An object whose calls are recorded.
#[derive(Clone)]
pub(crate) struct Recorded {
    trace: Arc<Trace>,
    number: u32,
}

impl Recorded {
    /// What this process calls it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Makes a call, and records it.
    #[inline]
    pub(crate) fn call<T, E>(
        &self,
        what: Call,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let start = Recorder::now();
        let result = call();
        self.ended(what, start, result.is_ok());
        result
    }

    /// Records a call that began at `start` and has ended just now.
    #[inline]
    pub(crate) fn ended(&self, what: Call, start: u64, well: bool) {
        self.trace.record(self.number, what, start, well);
    }

    /// Waits for what was begun, or looks whether it is over, and records that if it `came`
    /// to something: a call on no object.
    #[inline]
    pub(crate) fn completion<T, E>(
        &self,
        kind: Kind,
        came: impl FnOnce(&T) -> bool,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let start = Recorder::now();
        let result = call();
        if result.as_ref().map_or(true, came) {
            self.trace.record(0, Call::new(kind), start, result.is_ok());
        }
        result
    }

    /// Records a call that took no time.
    pub(crate) fn at_once(&self, what: Call) {
        self.ended(what, Recorder::now(), true);
    }

    /// Makes something of this, and records both; `place` tells what this process is in it,
    /// `None` if it is in none. All members call it in the same order.
    pub(crate) fn construct<T, E>(
        &self,
        constructor: Constructor,
        caller: &'static Location<'static>,
        make: impl FnOnce() -> Result<T, E>,
        place: impl FnOnce(&T) -> Option<Place>,
    ) -> (Result<T, E>, Option<Recorded>) {
        let (start, trace) = (Recorder::now(), &self.trace);
        let made = make();
        let place = made.as_ref().ok().and_then(place);
        // (Those that get none count too.)
        let lead = place.map_or(u64::MAX, |place| place.lead);
        let (identity, _) = trace.recorder.child(self.number, lead);
        let number = place.map_or(0, |Place { rank, size, .. }| {
            trace.recorder.define(Definition {
                identity,
                rank,
                size,
                parent: self.number,
                site: trace.site(caller),
                constructor,
                flags: DefinitionFlags::NONE,
            })
        });
        let object = Recorded { trace: Arc::clone(trace), number };
        let kind = match constructor.object() {
            ObjectKind::Window => Kind::WinConstruct,
            _ => Kind::CommConstruct,
        };
        object.ended(Call::new(kind), start, made.is_ok());
        (made, place.map(|_| object))
    }

    /// The object is no more.
    pub(crate) fn freed(&self) {
        self.trace.recorder.freed(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_messages_are_never_those_of_wildcards() {
        let tag = |tag| Call::new(Kind::Send).tagged(tag).tag;
        assert_eq!((tag(0), tag(7), tag(1 << 31), tag(u32::MAX)), (0, 7, i32::MAX, i32::MAX));
    }
}
