//! The functions that a program finds here before MPI's own. Arguments are words, of
//! which MPI reads as much as it needs.

#![allow(non_snake_case, reason = "MPI's names")]
#![allow(clippy::too_many_arguments, reason = "MPI's")]

mod collectives;
mod messages;
mod objects;
mod windows;

use crate::{begin, calls as made};

/// Exports functions that take words; the body has the call of the next one, as the
/// program made it (and, where a `;` stands before the last, with that given).
///
/// `always` come through here; `events` do while calls are recorded, and are one jump from
/// MPI's own where they are not.
///
/// A count says so, and is exported as `MPI_Count` too, by a name that ends in `_c`: `int`
/// is one, `[n]` an array of `n`, `long` one that is as wide in both. In the body a count is
/// a word, an array is `Counts`. `keeps` is a place for a request that reads arrays.
macro_rules! calls {
    ($through:ident; each $which:ident: $kind:ident { $($one:ident $mpi:ident,)* }
        $args:tt |$call:ident| $body:expr) => {$(
        calls! { $through [stringify!($mpi)] $args |$call| { let $which = $kind::$one; $body } }
    )*};
    ($through:ident; $($mpi:ident $args:tt |$call:ident| $body:expr;)*) => {$(
        calls! { $through [stringify!($mpi)] $args |$call| $body }
    )*};
    ($through:ident [$($name:tt)+] ($($arg:ident $(: $wide:tt)?),* $(; $last:ident)?)
        |$call:ident| $body:expr) => {
        #[allow(unused_variables, unused_mut, reason = "not all have arrays, nor look at them")]
        #[allow(clippy::macro_metavars_in_unsafe, reason = "bodies of functions of C")]
        const _: () = {
            type This = unsafe extern "C" fn(
                $(calls!(word $arg),)* $(calls!(word $last))?
            ) -> ::std::ffi::c_int;
            calls! { body int body
                ($($arg $(: $wide)?),* $(; $last)?) |$call| $body }
            calls! { name $through [$($name)+] ($($arg,)* $($last)?) body
                otherwise ::rankway_preload::missing(env!("CARGO_CRATE_NAME"), concat!($($name)+)) }
            calls! { name $through ["P", $($name)+] ($($arg,)* $($last)?) body
                otherwise ::rankway_preload::missing(env!("CARGO_CRATE_NAME"), concat!("P", $($name)+)) }
            calls! { large [$($($wide)?)*] $through [$($name)+]
                ($($arg $(: $wide)?),* $(; $last)?) |$call| $body }
        };
    };
    (word $arg:ident) => { usize };
    (body $width:ident $body:ident ($($arg:ident $(: $wide:tt)?),* $(; $last:ident)?)
        |$call:ident| $does:expr) => {
        /// # Safety
        /// \[MPI\] and \[BUF\], which the program answers for.
        unsafe fn $body(next: This, $($arg: usize,)* $($last: usize)?) -> ::std::ffi::c_int {
            // SAFETY: as above.
            unsafe {
                let $call = |$($last: usize)?| next($($arg,)* $($last)?);
                $($(let $arg = calls!($width $wide $arg);)?)*
                $does
            }
        }
    };
    (int int $arg:ident) => { $arg as ::std::ffi::c_int as isize as usize };
    (int [$n:expr] $arg:ident) => {
        $crate::counts::Counts::Ints($arg as *const ::std::ffi::c_int)
    };
    (long [$n:expr] $arg:ident) => { $crate::counts::Counts::Longs($arg as *const i64) };
    ($width:ident $wide:ident $arg:ident) => { $arg };
    (kept int $kept:ident $arg:ident) => { $kept.int($arg) };
    (kept [$n:expr] $kept:ident $arg:ident) => { $kept.ints($arg, $n) };
    (kept long $kept:ident $arg:ident) => { Some($arg) };
    (kept keeps $kept:ident $arg:ident) => { $kept.until($arg) };
    (name always [$($name:tt)+] ($($arg:ident),* $(,)?) $body:ident otherwise $otherwise:expr) => {
        ::rankway_preload::export! { one [$($name)+] ($($arg: usize),*) $body otherwise $otherwise }
    };
    (name events [$($name:tt)+] ($($arg:ident),* $(,)?) $body:ident otherwise $otherwise:expr) => {
        ::rankway_preload::export! { one by $crate::job::records_calls,
            [$($name)+] ($($arg: usize),*) $body otherwise $otherwise }
    };
    // Without counts there is nothing that is larger.
    (large [$(keeps)?] $($rest:tt)*) => {};
    (large [$($any:tt)+] $through:ident [$($name:tt)+]
        ($($arg:ident $(: $wide:tt)?),* $(; $last:ident)?) |$call:ident| $body:expr) => {
        calls! { body long large ($($arg $(: $wide)?),* $(; $last)?) |$call| $body }
        /// With counts as `int`, where MPI has nothing else.
        ///
        /// # Safety
        /// \[MPI\] and \[BUF\], which the program answers for.
        #[cold]
        unsafe fn narrow(int: This, $($arg: usize,)* $($last: usize)?) -> ::std::ffi::c_int {
            let mut kept = $crate::counts::Narrowed::default();
            // SAFETY: as above.
            unsafe {
                $($(let Some($arg) = calls!(kept $wide kept $arg) else {
                    return $crate::counts::ERR_COUNT;
                };)?)*
                kept.call(|| int($($arg,)* $($last)?))
            }
        }
        calls! { large_name $through [$($name)+] ($($arg,)* $($last)?) }
        calls! { large_name $through ["P", $($name)+] ($($arg,)* $($last)?) }
    };
    (large_name $through:ident [$($name:tt)+] ($($arg:ident),* $(,)?)) => {
        const _: () = {
            unsafe extern "C" {
                /// The one of this library with `int`.
                #[link_name = concat!($($name)+)]
                fn int($($arg: usize),*) -> ::std::ffi::c_int;
            }
            calls! { name $through [$($name)+, "_c"] ($($arg),*) large
                // SAFETY: [MPI] and [BUF], which the program answers for.
                otherwise unsafe { narrow(int, $($arg),*) } }
        };
    };
}
use calls;

calls! {
    always;
    MPI_Init (argc, argv) |call| begin::init(call);
    MPI_Init_thread (argc, argv, required, provided) |call| begin::init(call);
    MPI_Finalize () |call| begin::finalize(call);
    MPI_Session_init (info, handler, session) |call| begin::session(session, call);
    MPI_Abort (comm, code) |call| begin::abort(comm, call);
}

// What MPI does by calling itself, and is no call of the program's.
calls! {
    events;
    MPI_File_set_view (file, offset, element, view, form, info) |call| made::silent(call);
    MPI_File_set_size (file, size) |call| made::silent(call);
    MPI_File_preallocate (file, size) |call| made::silent(call);
    MPI_File_set_info (file, info) |call| made::silent(call);
    MPI_File_set_atomicity (file, flag) |call| made::silent(call);
    MPI_File_sync (file) |call| made::silent(call);
    MPI_File_seek_shared (file, offset, whence) |call| made::silent(call);
    MPI_File_read_all (file, memory, count: int, datatype, status) |call| made::silent(call);
    MPI_File_write_all (file, memory, count: int, datatype, status) |call| made::silent(call);
    MPI_File_read_at_all (file, offset, memory, count: int, datatype, status)
        |call| made::silent(call);
    MPI_File_write_at_all (file, offset, memory, count: int, datatype, status)
        |call| made::silent(call);
    MPI_File_read_ordered (file, memory, count: int, datatype, status) |call| made::silent(call);
    MPI_File_write_ordered (file, memory, count: int, datatype, status) |call| made::silent(call);
    MPI_File_read_all_begin (file, memory, count: int, datatype) |call| made::silent(call);
    MPI_File_write_all_begin (file, memory, count: int, datatype) |call| made::silent(call);
    MPI_File_read_at_all_begin (file, offset, memory, count: int, datatype)
        |call| made::silent(call);
    MPI_File_write_at_all_begin (file, offset, memory, count: int, datatype)
        |call| made::silent(call);
    MPI_File_read_ordered_begin (file, memory, count: int, datatype) |call| made::silent(call);
    MPI_File_write_ordered_begin (file, memory, count: int, datatype) |call| made::silent(call);
    MPI_File_read_all_end (file, memory, status) |call| made::silent(call);
    MPI_File_write_all_end (file, memory, status) |call| made::silent(call);
    MPI_File_read_at_all_end (file, memory, status) |call| made::silent(call);
    MPI_File_write_at_all_end (file, memory, status) |call| made::silent(call);
    MPI_File_read_ordered_end (file, memory, status) |call| made::silent(call);
    MPI_File_write_ordered_end (file, memory, status) |call| made::silent(call);
}
