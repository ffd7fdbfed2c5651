//! Codes, messages, and the border that no panic crosses.

use crate::abi::rankway_code as code;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use transport::boot::BootError;
use transport::datatype::LayoutError;
use transport::device::DeviceError;
use transport::msg::MsgError;
use transport::netmod::NetError;
use transport::rankmap::MapError;
use transport::rankmap::group::GroupError;
use transport::rma::{self, ErrorKind};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Fail {
    pub(crate) code: code,
    message: String,
    peer: Option<u32>,
}

impl Fail {
    #[cold]
    pub(crate) fn new(code: code, message: impl Into<String>) -> Fail {
        Fail { code, message: message.into(), peer: None }
    }

    #[cold]
    pub(crate) fn null(what: &str) -> Fail {
        Fail::new(code::RANKWAY_ERR_NULL, format!("{what} is a null pointer"))
    }

    #[cold]
    fn of(code: code, error: &dyn std::fmt::Display, peer: Option<u32>) -> Fail {
        Fail { code, message: error.to_string(), peer }
    }
}

impl From<rma::Error> for Fail {
    #[cold]
    fn from(e: rma::Error) -> Fail {
        let code = match e.kind() {
            ErrorKind::Rank { .. } => code::RANKWAY_ERR_RANK,
            ErrorKind::OutOfBounds { .. }
            | ErrorKind::LayoutOutOfBounds { .. }
            | ErrorKind::NotExposed { .. }
            | ErrorKind::Length { .. } => code::RANKWAY_ERR_RANGE,
            ErrorKind::NullBuffer { .. } => code::RANKWAY_ERR_NULL,
            ErrorKind::NoEpoch | ErrorKind::Epoch { .. } | ErrorKind::NotInEpoch { .. } => {
                code::RANKWAY_ERR_EPOCH
            }
            ErrorKind::Operation { .. } => code::RANKWAY_ERR_OP,
            ErrorKind::Refused { .. } => code::RANKWAY_ERR_PEER,
            ErrorKind::Freed => code::RANKWAY_ERR_HANDLE,
            ErrorKind::Memory { .. } | ErrorKind::MemberMemory { .. } => code::RANKWAY_ERR_MEMORY,
            ErrorKind::Device(e) => code_of(e),
            _ => code::RANKWAY_ERR_ARG,
        };
        Fail::of(code, &e, e.peer())
    }
}

impl From<DeviceError> for Fail {
    #[cold]
    fn from(e: DeviceError) -> Fail {
        Fail::of(code_of(&e), &e, e.rank())
    }
}

impl From<BootError> for Fail {
    #[cold]
    fn from(e: BootError) -> Fail {
        Fail::from(DeviceError::Boot(e))
    }
}

impl From<MapError> for Fail {
    #[cold]
    fn from(e: MapError) -> Fail {
        Fail::of(code::RANKWAY_ERR_ARG, &e, None)
    }
}

impl From<GroupError> for Fail {
    #[cold]
    fn from(e: GroupError) -> Fail {
        let code = match &e {
            GroupError::Rank { .. } | GroupError::RangeRank { .. } => code::RANKWAY_ERR_RANK,
            _ => code::RANKWAY_ERR_ARG,
        };
        Fail::of(code, &e, None)
    }
}

impl From<LayoutError> for Fail {
    #[cold]
    fn from(e: LayoutError) -> Fail {
        Fail::of(code::RANKWAY_ERR_ARG, &e, None)
    }
}

impl From<MsgError> for Fail {
    #[cold]
    fn from(e: MsgError) -> Fail {
        let code = match &e {
            MsgError::Truncated { .. } => code::RANKWAY_ERR_TRUNCATE,
            MsgError::Rank { .. } => code::RANKWAY_ERR_RANK,
            MsgError::TooLong { .. } | MsgError::Length { .. } => code::RANKWAY_ERR_RANGE,
            MsgError::NoMessages { .. } => code::RANKWAY_ERR_UNREACHABLE,
            MsgError::NobodyLeft { .. } => code::RANKWAY_ERR_PEER_DIED,
            MsgError::GivenUp { .. } => code::RANKWAY_ERR_PEER,
            MsgError::Device(e) => code_of(e),
            _ => code::RANKWAY_ERR_ARG,
        };
        Fail::of(code, &e, e.peer())
    }
}

fn code_of(e: &DeviceError) -> code {
    match e {
        DeviceError::PeerDied { .. } | DeviceError::Boot(BootError::PeerDied { .. }) => {
            code::RANKWAY_ERR_PEER_DIED
        }
        DeviceError::Net(NetError::NoSpace { .. } | NetError::NoAddressSpace { .. })
        | DeviceError::Peer { error: NetError::NoAddressSpace { .. }, .. } => {
            code::RANKWAY_ERR_MEMORY
        }
        DeviceError::Net(
            NetError::Library(_) | NetError::NoProvider { .. } | NetError::NoRma { .. },
        ) => code::RANKWAY_ERR_PROVIDER,
        DeviceError::Net(_) | DeviceError::Peer { .. } => code::RANKWAY_ERR_NETWORK,
        DeviceError::NoTransport { .. } | DeviceError::Boot(BootError::Unreachable { .. }) => {
            code::RANKWAY_ERR_UNREACHABLE
        }
        DeviceError::BadBusinessCard { .. }
        | DeviceError::Unsent { .. }
        | DeviceError::Boot(BootError::GaveUp { .. }) => code::RANKWAY_ERR_PEER,
        DeviceError::NoRank { .. } => code::RANKWAY_ERR_RANK,
        DeviceError::OpenedBefore => code::RANKWAY_ERR_BOOT,
        DeviceError::OneThread => code::RANKWAY_ERR_THREAD,
        DeviceError::Nested => code::RANKWAY_ERR_NESTED,
        DeviceError::Boot(BootError::Options(_)) => code::RANKWAY_ERR_ARG,
        DeviceError::Boot(BootError::Rank { .. }) => code::RANKWAY_ERR_RANK,
        DeviceError::Boot(_) => code::RANKWAY_ERR_BOOT,
        DeviceError::Av(_) | DeviceError::Map(_) | DeviceError::ContextTaken { .. } => {
            code::RANKWAY_ERR_ARG
        }
        _ => code::RANKWAY_ERR_INTERNAL,
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
    static PEER: Cell<i64> = const { Cell::new(-1) };
}

/// Runs the body of a call. Errors and panics are recorded for
/// `rankway_error_message`.
#[inline]
pub(crate) fn call(name: &str, body: impl FnOnce() -> Result<(), Fail>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => code::RANKWAY_SUCCESS as c_int,
        Ok(Err(fail)) => record(name, &fail),
        Err(panic) => {
            let said = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
            let said = said.unwrap_or_default();
            let why = format!("a panic in a handler, or a fault in Rankway to report: {said}");
            record(name, &Fail::new(code::RANKWAY_ERR_INTERNAL, why))
        }
    }
}

/// Records an error for `rankway_error_message`; its code.
#[cold]
pub(crate) fn record(name: &str, fail: &Fail) -> c_int {
    let mut text = format!("{name}: {}", fail.message).into_bytes();
    text.retain(|&b| b != 0);
    // While a thread ends there is no storage any more.
    let _ = MESSAGE.try_with(|m| *m.borrow_mut() = CString::new(text).unwrap_or_default());
    let _ = PEER.try_with(|p| p.set(fail.peer.map_or(-1, i64::from)));
    fail.code as c_int
}

/// What a code means, in a few words; never null. For what happened to which
/// object and peer: rankway_error_message.
#[unsafe(no_mangle)]
pub extern "C" fn rankway_strerror(code: c_int) -> *const c_char {
    let text: &CStr = match code {
        0 => c"success",
        1 => c"null pointer",
        2 => c"null, freed or wrong handle",
        3 => c"handle of another thread",
        4 => c"wrong argument",
        5 => c"rank out of range",
        6 => c"out of the window's memory",
        7 => c"wrong epoch",
        8 => c"no such operation on this type",
        9 => c"message truncated",
        10 => c"still in use",
        11 => c"no network library or provider",
        12 => c"peer cannot be reached",
        13 => c"peer died",
        14 => c"peer refused",
        15 => c"network error",
        16 => c"launcher or set-up channel",
        17 => c"out of memory",
        18 => c"waiting call within a handler",
        19 => c"internal fault",
        _ => c"not a code of Rankway",
    };
    text.as_ptr()
}

/// The message of this thread's last failed call: the call, the object, the
/// peer, what to do. Never null; valid until the next call that fails. Calls
/// that succeed leave it.
#[unsafe(no_mangle)]
pub extern "C" fn rankway_error_message() -> *const c_char {
    MESSAGE.try_with(|m| m.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The rank in the job of the peer that made this thread's last failed call
/// fail, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn rankway_error_peer() -> i64 {
    PEER.try_with(Cell::get).unwrap_or(-1)
}
