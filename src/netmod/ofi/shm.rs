//! What libfabric's shm takes of the node and does not check itself.

use super::constants::SHM_PEERS;
use crate::netmod::NetError;
use crate::settings::Number;

/// Bytes of a shm endpoint's segment with libfabric 1.17 (2.5: 13 MB), taken as
/// it fills.
const SHM_SEGMENT: u64 = 16 << 20;

/// Peers that shm is trusted with.
pub(super) const PEERS: Number =
    Number { name: "RANKWAY_SHM_PEERS", unit: "peers", least: 0, most: SHM_PEERS as u64 };

/// The number of peers that shm is used for: [`SHM_PEERS`], or fewer where
/// [`PEERS`] says so, the same for all ranks. Further peers are reached over the
/// network.
pub(super) fn max_peers() -> u32 {
    PEERS.get().map_or(SHM_PEERS, |n| n as u32)
}

/// The process that made a segment of shm's, which are called
/// `<pid>:<domain>:<endpoint>`.
pub(super) fn segment_owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.split_once(':')?;
    let digits = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    (digits && rest.contains(':')).then(|| pid.parse().ok())?
}

/// The segment behind an address `fi_shm://<name>`.
pub(super) fn segment(address: &[u8]) -> Option<&str> {
    let (_, name) = std::str::from_utf8(address.strip_suffix(&[0])?).ok()?.split_once("://")?;
    (segment_owner(name).is_some() && !name.contains('/')).then_some(name)
}

/// Refuses where so many shm endpoints do not fit into the node's shared memory, or one is
/// longer than files of this process may be: making it would end the process.
pub(super) fn check_space(endpoints: u64) -> Result<(), NetError> {
    if let Some(most) = crate::ulimit::files_end_before(SHM_SEGMENT) {
        return Err(NetError::Library(format!(
            "shm: files of this process end at {most} bytes, and an endpoint has one of up to \
             {SHM_SEGMENT}; raise `ulimit -f`, or use another provider (RANKWAY_PROVIDER=tcp)"
        )));
    }
    if let Err(why) = crate::ulimit::check_shared_memory() {
        return Err(NetError::Library(format!(
            "shm: /dev/shm cannot be written to ({why}), where an endpoint has its memory; mount it \
             so, or use another provider (RANKWAY_PROVIDER=tcp)"
        )));
    }
    let needed = endpoints * SHM_SEGMENT;
    if let Some(free) = crate::ulimit::shared_memory().filter(|&free| free < needed) {
        let place = "/dev/shm";
        let why = "an endpoint takes up to 16 MiB, and libfabric wants space for one a processor";
        return Err(NetError::NoSpace { provider: "shm".into(), place, free, needed, why });
    }
    Ok(())
}

/// Refuses where a peer's segment cannot be mapped: libfabric 1.17 writes there
/// without looking, and its crash handler hangs.
pub(super) fn check_address_space() -> Result<(), NetError> {
    /// What else the library takes for a peer.
    const SLACK: u64 = 4 << 20;
    let needed = SHM_SEGMENT + SLACK;
    match crate::ulimit::address_space() {
        Some(left) if left < needed => {
            Err(NetError::NoAddressSpace { provider: "shm".into(), left, needed })
        }
        _ => Ok(()),
    }
}

/// Refuses an address, inserted already, behind which there is no segment any more. The
/// library takes it for good, and gives the slot that it got to the peer that comes next:
/// what went to this address would change that one's memory.
pub(super) fn check_there(address: &[u8]) -> Result<(), NetError> {
    match segment(address) {
        Some(name) if !std::path::Path::new("/dev/shm").join(name).exists() => {
            let reason = format!(
                "its segment {name} is not in /dev/shm: it has left the job, or sees another \
                 /dev/shm (then use RANKWAY_PROVIDER=tcp)"
            );
            Err(NetError::Address { provider: "shm".into(), reason })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_segment_is_refused() {
        let gone = format!("fi_shm://{}:none:0\0", std::process::id());
        let refused = check_there(gone.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("has left"), "{refused}");
        check_there(&[2, 0, 0x1f, 0x90, 127, 0, 0, 1]).unwrap();
    }

    #[test]
    fn names_of_segments_are_told_from_others() {
        assert_eq!(segment_owner("1234:0:1"), Some(1234));
        assert_eq!(segment_owner("1234:dom:ep"), Some(1234));
        assert_eq!(segment_owner("1234:x"), None);
        assert_eq!(segment_owner("sem.1234:0:1"), None);
        assert_eq!(segment_owner(":0:1"), None);
        assert_eq!(segment_owner("+12:0:1"), None);
        assert_eq!(segment(b"fi_shm://12:0:1\0"), Some("12:0:1"));
        assert_eq!(segment(b"fi_shm://12:0:1"), None);
        assert_eq!(segment(b"fi_shm://12:0:../1\0"), None);
        assert_eq!(segment(&[2, 0, 0x1f, 0x90, 127, 0, 0, 1]), None);
    }
}
