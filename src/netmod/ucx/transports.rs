//! The transports and devices of a context, as UCX prints them.
//!
//! UCX before 1.15 has no call that lists them, so the report it prints for
//! people is read, from memory.

use super::bindings as sys;
use super::ffi::Functions;
use std::ptr::null_mut;

/// The transports of a context, as `transport/device`.
pub(super) fn of(f: &Functions, context: sys::ucp_context_h) -> Vec<String> {
    let (mut text, mut len) = (null_mut(), 0);
    // SAFETY: a stream over memory of libc's own, which is whole once it is
    // closed, and freed once.
    let report = unsafe {
        let stream = libc::open_memstream(&mut text, &mut len);
        if stream.is_null() {
            return Vec::new();
        }
        (f.ucp_context_print_info)(context, stream);
        libc::fclose(stream);
        let bytes = std::slice::from_raw_parts(text.cast::<u8>(), len);
        let report = String::from_utf8_lossy(bytes).into_owned();
        libc::free(text.cast());
        report
    };
    parse(&report)
}

/// Lines such as `#  resource 3  :  md 2  dev 3  flags -- posix/memory`.
fn parse(report: &str) -> Vec<String> {
    let named = |line: &str| {
        let rest = line.trim_start_matches(['#', ' ']).strip_prefix("resource ")?;
        let name = rest.split_whitespace().last()?;
        name.contains('/').then(|| name.to_owned())
    };
    report.lines().filter_map(named).collect()
}

/// Returns true if a processor executes all atomics: with shared memory that at
/// the origin, with transports that have none (by messages) that at the target.
/// Devices bypass the processor's caches, and an unknown transport counts as
/// one.
pub(super) fn all_cpu_atomics(transports: &[String]) -> bool {
    const KNOWN: [&str; 9] =
        ["posix", "sysv", "xpmem", "self", "tcp", "cma", "knem", "ud_verbs", "ud_mlx5"];
    let is_cpu = |t: &String| {
        let transport = t.split('/').next().unwrap_or_default();
        KNOWN.contains(&transport)
    };
    !transports.is_empty() && transports.iter().all(is_cpu)
}

/// Returns true if `UCX_TLS` may be one that leaves tcp in.
pub(super) fn may_use_tcp(tls: Option<&str>) -> bool {
    let tls = tls.map_or("all", str::trim);
    let (is_left_out, names) = tls.strip_prefix('^').map_or((false, tls), |names| (true, names));
    let mut names = names.split(',').filter_map(|name| name.trim().split(':').next());
    names.any(|name| matches!(name, "tcp" | "all")) != is_left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_report() {
        let report = "#\n# UCP context\n#\n#     component 0  :  self\n\
                      #            md 0  :  component 0  self \n\
                      #\n#      resource 0  :  md 0  dev 0  flags -- self/memory0\n\
                      #      resource 2  :  md 2  dev 2  flags -- tcp/eth0\n";
        assert_eq!(parse(report), ["self/memory0", "tcp/eth0"]);
    }

    #[test]
    fn devices_do_not_mix_with_processors() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert!(all_cpu_atomics(&list(&["self/memory", "posix/memory", "tcp/lo"])));
        assert!(!all_cpu_atomics(&list(&["posix/memory", "rc_verbs/mlx5_0:1"])));
        assert!(!all_cpu_atomics(&[]));
    }

    #[test]
    fn tcp_is_left_in_or_out() {
        for tls in
            [None, Some("all"), Some("sm,tcp"), Some("tcp:aux,rc"), Some("^rc"), Some(" tcp ,self")]
        {
            assert!(may_use_tcp(tls), "{tls:?}");
        }
        for tls in ["sm,self", "^tcp", "^rc,tcp", "rc,tcpx"] {
            assert!(!may_use_tcp(Some(tls)), "{tls}");
        }
    }
}
