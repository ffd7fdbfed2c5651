//! The structures of the header are the library's own: checked where it is
//! compiled, for every netmod.

use crate::abi::{rankway_access_t, rankway_lookup_t, rankway_op};
use std::mem::offset_of;
use transport::netmod::ofi::Ofi;
use transport::netmod::{Netmod, Op};
use transport::rankmap::{Lookup, body};
use transport::rma::Access;

/// The offsets of the header's structure, in the order of [`Access::LAYOUT`].
const ACCESS: [usize; 12] = [
    offset_of!(rankway_access_t, lookup),
    offset_of!(rankway_access_t, path),
    offset_of!(rankway_access_t, ranks),
    offset_of!(rankway_access_t, inject),
    offset_of!(rankway_access_t, unit),
    offset_of!(rankway_access_t, base),
    offset_of!(rankway_access_t, key),
    offset_of!(rankway_access_t, mapped_start),
    offset_of!(rankway_access_t, mapped_stride),
    offset_of!(rankway_access_t, longest),
    offset_of!(rankway_access_t, other),
    offset_of!(rankway_access_t, marks),
];

/// In the order of [`Lookup::LAYOUT`].
const LOOKUP: [usize; 6] = [
    offset_of!(rankway_lookup_t, kind),
    offset_of!(rankway_lookup_t, phase),
    offset_of!(rankway_lookup_t, base),
    offset_of!(rankway_lookup_t, stride),
    offset_of!(rankway_lookup_t, select),
    offset_of!(rankway_lookup_t, params),
];

const fn same<const N: usize>(a: [usize; N], b: [usize; N]) -> bool {
    let mut i = 0;
    while i < N {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The words of the inject handle are the endpoint and its function, side by side, with
/// libfabric; with others the header's put leaves them alone (`longest` is 0).
const fn fits<N: Netmod>() -> bool {
    same(ACCESS, Access::<N>::LAYOUT)
        && size_of::<N::InjectHandle>() == 2 * size_of::<usize>()
        && align_of::<Access<N>>() == align_of::<rankway_access_t>()
        && size_of::<Access<N>>() >= size_of::<rankway_access_t>()
}

macro_rules! all_fit {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        $(const _: () = assert!(fits::<transport::netmod::$module::$netmod>());)*
    };
}

transport::netmods!(all_fit);
const _: () = assert!(same(LOOKUP, Lookup::LAYOUT));
const _: () = assert!(size_of::<rankway_lookup_t>() == size_of::<Lookup>());
const _: () = assert!(align_of::<rankway_lookup_t>() == align_of::<Lookup>());
// What `include/rankway.h` tests for inline.
const _: () = assert!(body::AFFINE == 0);
const _: () = assert!(same32(Access::<Ofi>::PATHS, [0, 1, 256]));
// Numbers of operations are passed on as they are.
const _: () = assert!(rankway_op::RANKWAY_NO_OP as usize + 1 == Op::ALL.len());
const _: () = assert!(transport::netmod::AGAIN == crate::abi::RANKWAY_AGAIN);
const _: () = assert!(transport::rma::FAILED == crate::abi::RANKWAY_FAILED);

const fn same32(a: [u32; 3], b: [u32; 3]) -> bool {
    a[0] == b[0] && a[1] == b[1] && a[2] == b[2]
}

/// A lookup as C has it.
pub(crate) fn lookup(lookup: Lookup) -> rankway_lookup_t {
    // SAFETY: the two have the same fields at the same places (above), and any
    // lookup is a valid value of the other.
    unsafe { std::mem::transmute(lookup) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::rankway_comm_t;

    /// The header's own assertions hold.
    #[test]
    fn the_headers_own_assertions_hold() {
        let here = |field: &str| match field {
            "sizeof(rankway_lookup_t)" => size_of::<Lookup>(),
            "sizeof(rankway_comm_t)" => size_of::<rankway_comm_t>(),
            "offsetof(rankway_lookup_t, base)" => Lookup::LAYOUT[2],
            "offsetof(rankway_lookup_t, stride)" => Lookup::LAYOUT[3],
            "offsetof(rankway_lookup_t, select)" => Lookup::LAYOUT[4],
            "offsetof(rankway_access_t, path)" => Access::<Ofi>::LAYOUT[1],
            "offsetof(rankway_access_t, inject)" => Access::<Ofi>::LAYOUT[3],
            "offsetof(rankway_access_t, unit)" => Access::<Ofi>::LAYOUT[4],
            "offsetof(rankway_access_t, mapped_start)" => Access::<Ofi>::LAYOUT[7],
            "offsetof(rankway_access_t, longest)" => Access::<Ofi>::LAYOUT[9],
            "offsetof(rankway_access_t, marks)" => Access::<Ofi>::LAYOUT[11],
            other => panic!("{other} is asserted in inline.h and not compared here"),
        };
        let mut compared = 0;
        for line in include_str!("../inline.h").lines() {
            let Some(test) =
                line.strip_prefix("RANKWAY_ASSERT(").and_then(|l| l.strip_suffix(");"))
            else {
                continue;
            };
            let (field, value) = test.split_once(" == ").unwrap();
            let value = match value {
                "sizeof(uint64_t)" => 8,
                number => number.parse().unwrap(),
            };
            assert_eq!(here(field), value, "{field}");
            compared += 1;
        }
        assert_eq!(compared, 11);
    }
}
