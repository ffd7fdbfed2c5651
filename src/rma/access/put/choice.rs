//! The table of paths: which functions the puts of an access go by. Contracts are those
//! of [`put`](super).

use super::in_c::{put_in_c, put_in_c_by};
use super::{ANY, LINE, SHORT};
use crate::netmod::Netmod;
use crate::rankmap::body::{AFFINE, BLOCK, LUT, MLUT, OTHER};
use crate::rma::access::{Access, BLOCKING, CPut, NONBLOCKING, PutVtable, WindowKind, path};

impl<N: Netmod> PutVtable<N> {
    /// The table of paths: how puts go through an access, those from C apart, decided when
    /// it is opened. Paths with `general` have their own body inline, or none.
    pub(in crate::rma::access) fn choose(
        window: WindowKind,
        map: u32,
    ) -> (u32, PutVtable<N>, CPut) {
        let (path, table) = match (window, map) {
            (WindowKind::Registered | WindowKind::Near, AFFINE) => (path::AFFINE, Self::general()),
            (WindowKind::Mapped, _) => (path::MAPPED, Self::general()),
            (WindowKind::Registered, BLOCK) => return Self::indexed::<BLOCK>(),
            (WindowKind::Registered, LUT) => return Self::indexed::<LUT>(),
            (WindowKind::Registered, MLUT) => return Self::indexed::<MLUT>(),
            (WindowKind::Registered, _) => return Self::indexed::<OTHER>(),
            (WindowKind::Near, BLOCK) => (path::INDEXED, Self::near::<BLOCK>()),
            (WindowKind::Near, LUT) => (path::INDEXED, Self::near::<LUT>()),
            (WindowKind::Near, MLUT) => (path::INDEXED, Self::near::<MLUT>()),
            (WindowKind::Near, _) => (path::INDEXED, Self::near::<OTHER>()),
            (WindowKind::Uneven, _) => (path::GENERAL, Self::general()),
            (WindowKind::Packets, _) => (path::PACKETS, Self::general()),
        };
        (path, table, put_in_c::<N>)
    }

    fn indexed<const BODY: u32>() -> (u32, PutVtable<N>, CPut) {
        (path::INDEXED, Self::by::<BODY>(), put_in_c_by::<N, BODY>)
    }

    /// Of paths that have their own body inline, or none.
    fn general() -> PutVtable<N> {
        PutVtable {
            blocking: Access::issue_general::<BLOCKING>,
            nonblocking: Access::issue_general::<NONBLOCKING>,
            short_blocking: Access::issue_general::<BLOCKING>,
            short_nonblocking: Access::issue_general::<NONBLOCKING>,
        }
    }

    /// Of windows whose every put is a store, found by the rank's entry.
    fn near<const BODY: u32>() -> PutVtable<N> {
        PutVtable {
            blocking: Access::issue_near::<BLOCKING, BODY>,
            nonblocking: Access::issue_near::<NONBLOCKING, BODY>,
            short_blocking: Access::issue_near::<BLOCKING, BODY>,
            short_nonblocking: Access::issue_near::<NONBLOCKING, BODY>,
        }
    }

    /// What is inline where calls are not recorded: an affine map.
    pub(in crate::rma::access) fn affine() -> PutVtable<N> {
        Self::by::<AFFINE>()
    }

    /// The same: memory mapped at a line.
    pub(in crate::rma::access) fn line() -> PutVtable<N> {
        Self::by::<LINE>()
    }

    /// Compiled once for each lookup body, so that no call stands between a
    /// put and its entry.
    fn by<const BODY: u32>() -> PutVtable<N> {
        PutVtable {
            blocking: |access, buf, len, rank, disp| {
                // SAFETY: [PUT], [PATH].
                unsafe { access.issue::<BLOCKING, BODY, ANY>(buf, len, rank, disp, None) }
            },
            nonblocking: |access, buf, len, rank, disp| {
                // SAFETY: [PUT], [PATH].
                unsafe { access.issue::<NONBLOCKING, BODY, ANY>(buf, len, rank, disp, None) }
            },
            short_blocking: |access, buf, len, rank, disp| {
                // SAFETY: [PUT], [PATH], [SHORT].
                unsafe { access.issue::<BLOCKING, BODY, SHORT>(buf, len, rank, disp, None) }
            },
            short_nonblocking: |access, buf, len, rank, disp| {
                // SAFETY: [PUT], [PATH], [SHORT].
                unsafe { access.issue::<NONBLOCKING, BODY, SHORT>(buf, len, rank, disp, None) }
            },
        }
    }
}
