//! A function of MPI under both of its names: Fortran's wrappers of Open MPI call the
//! second.

#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "a body stands in for a function of C, and is as unsafe"
)]

use crate::{mpi, say};
use std::ffi::{CStr, c_int};

/// A name that ends with its only 0, as a C string.
///
/// # Panics
/// Where it ends otherwise.
pub const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only 0"),
    }
}

/// Says that the MPI library has no such function; its error code.
#[cold]
pub fn missing(who: &str, name: &str) -> c_int {
    say(&format!("{who}: the MPI library has no {name}\n"));
    mpi::failure()
}

/// Exports functions that a program finds before MPI's own, by both of their names.
///
/// Each calls the next one of its own name, so that a tool between the program and MPI
/// still sees every call.
///
/// `one` exports a name in pieces, whose `body` takes the next function, the type `This`,
/// before the arguments; `otherwise` is what to do where MPI has none. `by` a
/// function that says whether calls come through the body: while it has not said a call
/// does, and from then on what is called is one jump away.
#[macro_export]
macro_rules! export {
    ($($mpi:ident ($($arg:ident: $type:ty),*) |$next:ident| $body:expr;)*) => {$(
        const _: () = {
            type This = unsafe extern "C" fn($($type),*) -> ::std::ffi::c_int;
            /// # Safety
            /// \[MPI\] and \[BUF\], which the program answers for.
            unsafe fn body($next: This, $($arg: $type),*) -> ::std::ffi::c_int {
                // SAFETY: as above.
                unsafe { $body }
            }
            $crate::export! { one [stringify!($mpi)] ($($arg: $type),*) body }
            $crate::export! { one ["P", stringify!($mpi)] ($($arg: $type),*) body }
        };
    )*};
    // Functions that take the same: `which` is the one.
    (each $which:ident: $kind:ident { $($call:ident $mpi:ident,)* }
        $args:tt |$next:ident| $body:expr) => {$(
        $crate::export! { $mpi $args |$next| { let $which = $kind::$call; $body }; }
    )*};
    (one [$($name:tt)+] ($($arg:ident: $type:ty),*) $body:ident) => {
        $crate::export! { one [$($name)+] ($($arg: $type),*) $body
            otherwise $crate::missing(env!("CARGO_CRATE_NAME"), concat!($($name)+)) }
    };
    (one [$($name:tt)+] ($($arg:ident: $type:ty),*) $body:ident otherwise $otherwise:expr) => {
        const _: () = {
            $crate::export! { function #[unsafe(export_name = concat!($($name)+))]
                [$($name)+] ($($arg: $type),*) $body otherwise $otherwise }
        };
    };
    (one by $through:path, [$($name:tt)+] ($($arg:ident: $type:ty),*) $body:ident
        otherwise $otherwise:expr) => {
        const _: () = {
            // SAFETY: [SIG]: of this type.
            static GATE: $crate::Gate<This> = unsafe { $crate::Gate::new(first as *mut ()) };
            /// # Safety
            /// As MPI has it.
            #[unsafe(export_name = concat!($($name)+))]
            unsafe extern "C" fn leaps($($arg: $type),*) -> ::std::ffi::c_int {
                // SAFETY: as MPI has it.
                unsafe { (GATE.get())($($arg),*) }
            }
            /// # Safety
            /// As MPI has it.
            #[cold]
            unsafe extern "C" fn first($($arg: $type),*) -> ::std::ffi::c_int {
                match ($through(), NEXT.get()) {
                    (Some(false), Some(next)) => GATE.set(next),
                    (Some(true), _) => GATE.set(function),
                    _ => (),
                }
                // SAFETY: as MPI has it.
                unsafe { function($($arg),*) }
            }
            $crate::export! { function #[inline(never)]
                [$($name)+] ($($arg: $type),*) $body otherwise $otherwise }
        };
    };
    (function #[$how:meta] [$($name:tt)+] ($($arg:ident: $type:ty),*) $body:ident
        otherwise $otherwise:expr) => {
        static NEXT: $crate::Function<This> =
            // SAFETY: [SIG], by the MPI standard.
            unsafe { $crate::Function::new($crate::name(concat!($($name)+, "\0"))) };
        /// # Safety
        /// As MPI has it.
        #[$how]
        unsafe extern "C" fn function($($arg: $type),*) -> ::std::ffi::c_int {
            match NEXT.get() {
                // SAFETY: [MPI] and [BUF], which the program answers for.
                Some(next) => unsafe { $body(next, $($arg),*) },
                None => $otherwise,
            }
        }
    };
}
