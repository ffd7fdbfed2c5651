//! The OTF2 C library, opened at run time: an archive as it is written by one process.
//!
//! The leaf that knows its functions (OTF2 3.0, `otf2/OTF2_Archive.h`,
//! `OTF2_EvtWriter.h`, `OTF2_GlobalDefWriter.h`) and their types; what is written and when
//! is decided above. \[OTF2\]: the functions were taken from a library that has them all,
//! under the names of version 3, and handles come from the same library; writers are used
//! before they are closed, as their types' lifetimes and values say.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The environment variable that names the library.
pub(super) const LIBRARY_ENV: &str = "RANKWAY_OTF2_LIBRARY";
/// Its name on the system; the number is that of version 3.0, later ones come behind.
const NAME: &str = "libopen-trace-format2.so";
const NUMBERS: std::ops::RangeInclusive<u32> = 10..=19;

/// `OTF2_ErrorCode`.
type Code = c_int;
type Handle = *mut c_void;

/// `OTF2_AttributeValue`.
#[derive(Clone, Copy)]
#[repr(C)]
union Value {
    unsigned: u64,
    _real: f64,
}

/// `OTF2_FlushCallbacks`.
#[repr(C)]
struct FlushCallbacks {
    before: extern "C" fn(Handle, u8, u64, Handle, bool) -> u8,
    after: Option<extern "C" fn(Handle, u8, u64) -> u64>,
}

extern "C" fn flush(_: Handle, _: u8, _: u64, _: Handle, _: bool) -> u8 {
    const FLUSH: u8 = 1;
    FLUSH
}

/// Instead of lines on standard error; what failed returns its code. (The last argument is
/// a `va_list`, which is not looked at.)
extern "C" fn be_silent(
    _: Handle,
    _: *const c_char,
    _: u64,
    _: *const c_char,
    code: Code,
    _: *const c_char,
    _: Handle,
) -> Code {
    code
}

type ErrorCallback =
    extern "C" fn(Handle, *const c_char, u64, *const c_char, Code, *const c_char, Handle) -> Code;

/// Declares the functions by name, and methods for records: those of events take the time
/// first, and the list of attributes is none.
macro_rules! functions {
    (
        { $($field:ident = $symbol:literal ($($arg:ty),*) -> $result:ty;)* }
        events { $($event:ident = $event_symbol:literal ($($e:ident: $e_type:ty),*);)* }
        definitions { $($def:ident = $def_symbol:literal ($($d:ident: $d_type:ty),*);)* }
    ) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($arg),*) -> $result,)*
            $($event: unsafe extern "C" fn(Handle, Handle, u64, $($e_type),*) -> Code,)*
            $($def: unsafe extern "C" fn(Handle, $($d_type),*) -> Code,)*
        }

        impl Functions {
            /// Takes all of them.
            ///
            /// # Safety
            /// `find` returns the address of the function of that name of an OTF2 library.
            unsafe fn find(
                find: impl Fn(&CStr) -> Result<Handle, String>,
            ) -> Result<Functions, String> {
                // SAFETY: the caller's: the functions have these types.
                unsafe {
                    Ok(Functions {
                        $($field: std::mem::transmute::<Handle, unsafe extern "C" fn($($arg),*) -> $result>(
                            find($symbol)?,
                        ),)*
                        $($event: std::mem::transmute::<
                            Handle,
                            unsafe extern "C" fn(Handle, Handle, u64, $($e_type),*) -> Code,
                        >(find($event_symbol)?),)*
                        $($def: std::mem::transmute::<
                            Handle,
                            unsafe extern "C" fn(Handle, $($d_type),*) -> Code,
                        >(find($def_symbol)?),)*
                    })
                }
            }
        }

        impl EventWriter<'_> {
            $(
                #[doc = concat!("`", stringify!($event_symbol), "`")]
                #[allow(clippy::too_many_arguments, reason = "OTF2 has as many")]
                pub(super) fn $event(&self, time: u64, $($e: $e_type),*) -> Result<(), String> {
                    let functions = &self.archive.library.functions;
                    // SAFETY: [OTF2]; null is no attributes.
                    let code = unsafe {
                        (functions.$event)(self.writer, null_mut(), time, $($e),*)
                    };
                    self.archive.library.check(stringify!($event), code)
                }
            )*
        }

        impl DefinitionWriter<'_> {
            $(
                #[doc = concat!("`", stringify!($def_symbol), "`")]
                #[allow(clippy::too_many_arguments, reason = "OTF2 has as many")]
                pub(super) fn $def(&self, $($d: $d_type),*) -> Result<(), String> {
                    let functions = &self.archive.library.functions;
                    // SAFETY: [OTF2]; numbers alone.
                    let code = unsafe { (functions.$def)(self.writer, $($d),*) };
                    self.archive.library.check(stringify!($def), code)
                }
            )*
        }
    };
}

functions! {
    {
        description = c"OTF2_Error_GetDescription"(Code) -> *const c_char;
        on_error = c"OTF2_Error_RegisterCallback"(Option<ErrorCallback>, Handle) -> Handle;
        open = c"OTF2_Archive_Open"(*const c_char, *const c_char, u8, u64, u64, u8, u8) -> Handle;
        close = c"OTF2_Archive_Close"(Handle) -> Code;
        set_creator = c"OTF2_Archive_SetCreator"(Handle, *const c_char) -> Code;
        set_flush =
            c"OTF2_Archive_SetFlushCallbacks"(Handle, *const FlushCallbacks, Handle) -> Code;
        set_serial = c"OTF2_Archive_SetSerialCollectiveCallbacks"(Handle) -> Code;
        open_events = c"OTF2_Archive_OpenEvtFiles"(Handle) -> Code;
        close_events = c"OTF2_Archive_CloseEvtFiles"(Handle) -> Code;
        open_definitions = c"OTF2_Archive_OpenDefFiles"(Handle) -> Code;
        close_definitions = c"OTF2_Archive_CloseDefFiles"(Handle) -> Code;
        event_writer = c"OTF2_Archive_GetEvtWriter"(Handle, u64) -> Handle;
        close_event_writer = c"OTF2_Archive_CloseEvtWriter"(Handle, Handle) -> Code;
        count = c"OTF2_EvtWriter_GetNumberOfEvents"(Handle, *mut u64) -> Code;
        local_writer = c"OTF2_Archive_GetDefWriter"(Handle, u64) -> Handle;
        close_local_writer = c"OTF2_Archive_CloseDefWriter"(Handle, Handle) -> Code;
        clock_offset = c"OTF2_DefWriter_WriteClockOffset"(Handle, u64, i64, f64) -> Code;
        global_writer = c"OTF2_Archive_GetGlobalDefWriter"(Handle) -> Handle;
        close_global_writer = c"OTF2_Archive_CloseGlobalDefWriter"(Handle, Handle) -> Code;
        write_string = c"OTF2_GlobalDefWriter_WriteString"(Handle, u32, *const c_char) -> Code;
        write_group = c"OTF2_GlobalDefWriter_WriteGroup"(
            Handle, u32, u32, u8, u8, u32, u32, *const u64
        ) -> Code;
        write_property = c"OTF2_GlobalDefWriter_WriteLocationGroupProperty"(
            Handle, u32, u32, u8, Value
        ) -> Code;
    }
    events {
        enter = c"OTF2_EvtWriter_Enter"(region: u32);
        leave = c"OTF2_EvtWriter_Leave"(region: u32);
        send = c"OTF2_EvtWriter_MpiSend"(to: u32, comm: u32, tag: u32, bytes: u64);
        receive = c"OTF2_EvtWriter_MpiRecv"(from: u32, comm: u32, tag: u32, bytes: u64);
        isend = c"OTF2_EvtWriter_MpiIsend"(
            to: u32, comm: u32, tag: u32, bytes: u64, request: u64
        );
        isend_complete = c"OTF2_EvtWriter_MpiIsendComplete"(request: u64);
        irecv_request = c"OTF2_EvtWriter_MpiIrecvRequest"(request: u64);
        irecv = c"OTF2_EvtWriter_MpiIrecv"(
            from: u32, comm: u32, tag: u32, bytes: u64, request: u64
        );
        cancelled = c"OTF2_EvtWriter_MpiRequestCancelled"(request: u64);
        collective_request = c"OTF2_EvtWriter_NonBlockingCollectiveRequest"(request: u64);
        collective_complete = c"OTF2_EvtWriter_NonBlockingCollectiveComplete"(
            operation: u8, comm: u32, root: u32, sent: u64, received: u64, request: u64
        );
        collective_begin = c"OTF2_EvtWriter_MpiCollectiveBegin"();
        collective_end = c"OTF2_EvtWriter_MpiCollectiveEnd"(
            operation: u8, comm: u32, root: u32, sent: u64, received: u64
        );
        comm_create = c"OTF2_EvtWriter_CommCreate"(comm: u32);
        comm_destroy = c"OTF2_EvtWriter_CommDestroy"(comm: u32);
        window_create = c"OTF2_EvtWriter_RmaWinCreate"(window: u32);
        window_destroy = c"OTF2_EvtWriter_RmaWinDestroy"(window: u32);
        rma_collective_begin = c"OTF2_EvtWriter_RmaCollectiveBegin"();
        rma_collective_end = c"OTF2_EvtWriter_RmaCollectiveEnd"(
            operation: u8, level: u32, window: u32, root: u32, sent: u64, received: u64
        );
        put = c"OTF2_EvtWriter_RmaPut"(window: u32, target: u32, bytes: u64, operation: u64);
        get = c"OTF2_EvtWriter_RmaGet"(window: u32, target: u32, bytes: u64, operation: u64);
        atomic = c"OTF2_EvtWriter_RmaAtomic"(
            window: u32, target: u32, what: u8, sent: u64, received: u64, operation: u64
        );
        complete = c"OTF2_EvtWriter_RmaOpCompleteBlocking"(window: u32, operation: u64);
        complete_locally = c"OTF2_EvtWriter_RmaOpCompleteNonBlocking"(window: u32, operation: u64);
        complete_remotely = c"OTF2_EvtWriter_RmaOpCompleteRemote"(window: u32, operation: u64);
    }
    definitions {
        clock = c"OTF2_GlobalDefWriter_WriteClockProperties"(
            a_second: u64, begin: u64, length: u64, unix_nanos: u64
        );
        region = c"OTF2_GlobalDefWriter_WriteRegion"(
            this: u32, name: u32, canonical: u32, description: u32, role: u8, paradigm: u8,
            flags: u32, file: u32, first_line: u32, last_line: u32
        );
        tree_node = c"OTF2_GlobalDefWriter_WriteSystemTreeNode"(
            this: u32, name: u32, class: u32, parent: u32
        );
        location_group = c"OTF2_GlobalDefWriter_WriteLocationGroup"(
            this: u32, name: u32, sort: u8, node: u32, made_by: u32
        );
        location = c"OTF2_GlobalDefWriter_WriteLocation"(
            this: u64, name: u32, sort: u8, events: u64, group: u32
        );
        comm = c"OTF2_GlobalDefWriter_WriteComm"(
            this: u32, name: u32, group: u32, parent: u32, flags: u32
        );
        intercomm = c"OTF2_GlobalDefWriter_WriteInterComm"(
            this: u32, name: u32, first: u32, second: u32, common: u32, flags: u32
        );
        window = c"OTF2_GlobalDefWriter_WriteRmaWin"(this: u32, name: u32, comm: u32, flags: u32);
    }
}

/// An open OTF2. There is at most one in a process and it stays open.
pub(super) struct Library {
    functions: Functions,
}

impl Library {
    /// Opens it on the first call; later calls give the same answer.
    ///
    /// # Errors
    /// It is not there, or of a version before 3.0; with what to install.
    pub(super) fn open() -> Result<&'static Library, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Library::find).as_ref().map_err(String::clone)
    }

    fn find() -> Result<Library, String> {
        let named = std::env::var_os(LIBRARY_ENV).filter(|name| !name.is_empty());
        let by_hand = named.is_some();
        let names: Vec<OsString> = match named {
            Some(name) => vec![name],
            None => NUMBERS.map(|number| format!("{NAME}.{number}").into()).collect(),
        };
        let mut first = None;
        for name in &names {
            match Library::load(name) {
                Ok(library) => return Ok(library),
                Err(why) => first = first.or(Some(why)),
            }
        }
        let why = first.unwrap_or_default();
        let which = if by_hand { format!("{LIBRARY_ENV}: ") } else { String::new() };
        Err(format!(
            "OTF2: {which}{why}; install otf2-tools (Debian 12, Ubuntu 24.04), or set {LIBRARY_ENV} \
             to a {NAME} of version 3 (PyPI's otf2 has one within its _otf2 module)"
        ))
    }

    fn load(name: &OsString) -> Result<Library, String> {
        let text = CString::new(name.as_bytes()).map_err(|_| "a zero byte in it".to_owned())?;
        // SAFETY: a C string. The library's initialisers run; that it is meant to be run is
        // what its name or the user says.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror gives null or a C string that stays until the next dl call.
            return Err(unsafe { said(libc::dlerror()) });
        }
        let find = |symbol: &CStr| {
            // SAFETY: the handle is open, and never closed; the name is a C string.
            let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            match address.is_null() {
                true => Err(format!("{} has no {}", name.display(), symbol.to_string_lossy())),
                false => Ok(address),
            }
        };
        // SAFETY: a library with all these names is OTF2; that of version 2 has no
        // OTF2_GlobalDefWriter_WriteInterComm.
        let functions = unsafe { Functions::find(find) }?;
        // SAFETY: [OTF2]; the function stays.
        unsafe { (functions.on_error)(Some(be_silent), null_mut()) };
        Ok(Library { functions })
    }

    fn check(&self, what: &str, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: [OTF2]; takes any code, and answers a static string.
        Err(format!("OTF2, {what}: {}", unsafe { said((self.functions.description)(code)) }))
    }
}

/// # Safety
/// Null or a C string.
unsafe fn said(text: *const c_char) -> String {
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// An archive that is written. What is not closed (after an error) is left as it is, and its
/// memory not given back.
pub(super) struct Archive {
    library: &'static Library,
    handle: Handle,
}

impl Archive {
    /// In a directory that is there.
    pub(super) fn create(directory: &Path) -> Result<Archive, String> {
        let library = Library::open()?;
        let path = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| format!("{}: a zero byte in it", directory.display()))?;
        let functions = &library.functions;
        const WRITE: u8 = 0;
        const EVENT_CHUNK: u64 = 1 << 20;
        const DEFINITION_CHUNK: u64 = 4 << 20;
        const POSIX: u8 = 1;
        const PLAIN: u8 = 1;
        let (path, name) = (path.as_ptr(), c"traces".as_ptr());
        // SAFETY: [OTF2]; C strings.
        let handle = unsafe {
            (functions.open)(path, name, WRITE, EVENT_CHUNK, DEFINITION_CHUNK, POSIX, PLAIN)
        };
        if handle.is_null() {
            return Err("OTF2: the archive cannot be made".to_owned());
        }
        static FLUSH: FlushCallbacks = FlushCallbacks { before: flush, after: None };
        let creator = concat!("rankway ", env!("CARGO_PKG_VERSION"), "\0");
        // SAFETY: [OTF2]; the callbacks stay.
        library.check("flush", unsafe { (functions.set_flush)(handle, &FLUSH, null_mut()) })?;
        // SAFETY: [OTF2].
        library.check("serial", unsafe { (functions.set_serial)(handle) })?;
        // SAFETY: [OTF2]; a C string.
        let code = unsafe { (functions.set_creator)(handle, creator.as_ptr().cast()) };
        library.check("creator", code)?;
        // SAFETY: [OTF2].
        library.check("open events", unsafe { (functions.open_events)(handle) })?;
        Ok(Archive { library, handle })
    }

    /// For the events of a location.
    pub(super) fn events(&self, location: u64) -> Result<EventWriter<'_>, String> {
        // SAFETY: [OTF2].
        let writer = unsafe { (self.library.functions.event_writer)(self.handle, location) };
        match writer.is_null() {
            true => Err(format!("OTF2: no events of location {location} can be written")),
            false => Ok(EventWriter { archive: self, writer }),
        }
    }

    /// When the events of all locations have been written. Each gets a file of definitions
    /// of its own, without which readers complain: its clock is ours.
    pub(super) fn end_events(
        &self,
        locations: impl IntoIterator<Item = u64>,
        begin: u64,
    ) -> Result<(), String> {
        let (library, functions) = (self.library, &self.library.functions);
        // SAFETY: [OTF2].
        library.check("close events", unsafe { (functions.close_events)(self.handle) })?;
        // SAFETY: [OTF2].
        library.check("open definitions", unsafe { (functions.open_definitions)(self.handle) })?;
        for location in locations {
            // SAFETY: [OTF2].
            let writer = unsafe { (functions.local_writer)(self.handle, location) };
            if writer.is_null() {
                return Err(format!("OTF2: no definitions of location {location} can be written"));
            }
            // SAFETY: [OTF2].
            library.check("clock", unsafe { (functions.clock_offset)(writer, begin, 0, 0.0) })?;
            // SAFETY: [OTF2]; the writer is not used again.
            let code = unsafe { (functions.close_local_writer)(self.handle, writer) };
            library.check("close definitions", code)?;
        }
        // SAFETY: [OTF2].
        library.check("close definitions", unsafe { (functions.close_definitions)(self.handle) })
    }

    /// For what all locations share.
    pub(super) fn definitions(&self) -> Result<DefinitionWriter<'_>, String> {
        // SAFETY: [OTF2].
        let writer = unsafe { (self.library.functions.global_writer)(self.handle) };
        match writer.is_null() {
            true => Err("OTF2: no definitions can be written".to_owned()),
            false => Ok(DefinitionWriter { archive: self, writer }),
        }
    }

    pub(super) fn close(self) -> Result<(), String> {
        // SAFETY: [OTF2]; the archive is not used again.
        self.library.check("close", unsafe { (self.library.functions.close)(self.handle) })
    }
}

/// Writes events of a location, in order of time.
pub(super) struct EventWriter<'a> {
    archive: &'a Archive,
    writer: Handle,
}

impl EventWriter<'_> {
    /// Returns how many were written.
    pub(super) fn close(self) -> Result<u64, String> {
        let Archive { library, handle } = self.archive;
        let mut count = 0;
        // SAFETY: [OTF2]; a number of ours.
        library.check("count", unsafe { (library.functions.count)(self.writer, &mut count) })?;
        // SAFETY: [OTF2]; the writer is not used again.
        let code = unsafe { (library.functions.close_event_writer)(*handle, self.writer) };
        library.check("close events", code)?;
        Ok(count)
    }
}

/// Writes what all locations share.
pub(super) struct DefinitionWriter<'a> {
    archive: &'a Archive,
    writer: Handle,
}

impl DefinitionWriter<'_> {
    pub(super) fn string(&self, this: u32, text: &str) -> Result<(), String> {
        let library = self.archive.library;
        // (A name of the program's may have any bytes but this.)
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: [OTF2]; a C string.
        let code = unsafe { (library.functions.write_string)(self.writer, this, text.as_ptr()) };
        library.check("string", code)
    }

    /// `sort` and `paradigm` are OTF2's.
    pub(super) fn group(
        &self,
        this: u32,
        name: u32,
        sort: u8,
        paradigm: u8,
        members: &[u64],
    ) -> Result<(), String> {
        let library = self.archive.library;
        let count =
            u32::try_from(members.len()).map_err(|_| "OTF2: too many members".to_owned())?;
        let members = members.as_ptr();
        // SAFETY: [OTF2]; a list of `count`.
        let code = unsafe {
            (library.functions.write_group)(
                self.writer,
                this,
                name,
                sort,
                paradigm,
                0,
                count,
                members,
            )
        };
        library.check("group", code)
    }

    /// A number that a location group has.
    pub(super) fn property(&self, group: u32, name: u32, value: u64) -> Result<(), String> {
        const UNSIGNED: u8 = 4;
        let library = self.archive.library;
        let value = Value { unsigned: value };
        // SAFETY: [OTF2]; the value is of that type.
        let code = unsafe {
            (library.functions.write_property)(self.writer, group, name, UNSIGNED, value)
        };
        library.check("property", code)
    }

    pub(super) fn close(self) -> Result<(), String> {
        let Archive { library, handle } = self.archive;
        // SAFETY: [OTF2]; the writer is not used again.
        let code = unsafe { (library.functions.close_global_writer)(*handle, self.writer) };
        library.check("close definitions", code)
    }
}
