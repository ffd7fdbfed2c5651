//! What a process tells its peers about itself: who it is, where it listens.

use super::{BootError, os};
use crate::process::ProcessId;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What every process publishes when its [`Control`](super::Control) opens.
///
/// The two secrets are 128 random bits each: a caller sends the `call_secret` of
/// the process it connects to, which answers with its `answer_secret`. Both can
/// only be known from the job's own key-value store, so strangers who connect to the port,
/// and strangers who took over the port of a dead peer, are told apart.
#[derive(Clone, PartialEq, Eq)]
pub struct ContactInfo {
    /// Who this is.
    pub process: ProcessId,
    /// Inode of the network namespace; 0 if unknown.
    pub network_namespace: u64,
    /// Tells the abstract Unix socket of the control channel from others in
    /// the network namespace; zeroes if there is none.
    pub local: [u8; 16],
    /// TCP port of the control channel, 0 if it does not listen.
    pub port: u16,
    /// Addresses other machines may reach it at; none when it only listens
    /// on the loopback.
    pub addresses: Vec<IpAddr>,
    pub(crate) call_secret: [u8; 16],
    pub(crate) answer_secret: [u8; 16],
}

impl std::fmt::Debug for ContactInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secrets stay out of logs.
        f.debug_struct("ContactInfo")
            .field("process", &self.process)
            .field("network_namespace", &self.network_namespace)
            .field("local", &self.local)
            .field("port", &self.port)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// The key it is published under.
pub(crate) const KEY: &str = "rankway-contact-info";
const VERSION: u8 = 2;

impl ContactInfo {
    pub(crate) fn new(
        local: [u8; 16],
        port: u16,
        addresses: Vec<IpAddr>,
    ) -> Result<Self, BootError> {
        Ok(ContactInfo {
            process: ProcessId::current(),
            network_namespace: os::namespace("net"),
            local,
            port,
            addresses,
            call_secret: os::random()?,
            answer_secret: os::random()?,
        })
    }

    /// Of a process that listens nowhere.
    pub(crate) fn of_silent(process: ProcessId) -> Self {
        ContactInfo {
            process,
            network_namespace: 0,
            local: [0; 16],
            port: 0,
            addresses: Vec::new(),
            call_secret: [0; 16],
            answer_secret: [0; 16],
        }
    }

    /// Returns true if the loopback of `self` is the loopback of `other`.
    pub fn shares_loopback(&self, other: &ContactInfo) -> bool {
        self.process.machine == other.process.machine
            && self.network_namespace != 0
            && self.network_namespace == other.network_namespace
    }

    /// The bytes that are published.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.process.encode());
        bytes.extend(self.network_namespace.to_le_bytes());
        bytes.extend(self.call_secret);
        bytes.extend(self.answer_secret);
        bytes.extend(self.local);
        bytes.extend(self.port.to_le_bytes());
        bytes.push(self.addresses.len() as u8);
        for address in &self.addresses {
            match address {
                IpAddr::V4(v4) => {
                    bytes.push(4);
                    bytes.extend(v4.octets());
                }
                IpAddr::V6(v6) => {
                    bytes.push(6);
                    bytes.extend(v6.octets());
                }
            }
        }
        bytes
    }

    /// Reads what [`encode`](ContactInfo::encode) wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        if take::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let process = ProcessId::decode(&take(&mut rest)?);
        let network_namespace = u64::from_le_bytes(take(&mut rest)?);
        let call_secret = take(&mut rest)?;
        let answer_secret = take(&mut rest)?;
        let local = take(&mut rest)?;
        let port = u16::from_le_bytes(take(&mut rest)?);
        let [count] = take(&mut rest)?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            addresses.push(match take(&mut rest)? {
                [4] => IpAddr::V4(Ipv4Addr::from(take::<4>(&mut rest)?)),
                [6] => IpAddr::V6(Ipv6Addr::from(take::<16>(&mut rest)?)),
                _ => return None,
            });
        }
        let contact_info = ContactInfo {
            process,
            network_namespace,
            local,
            port,
            addresses,
            call_secret,
            answer_secret,
        };
        rest.is_empty().then_some(contact_info)
    }
}

/// Takes `N` bytes off the front.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// Addresses of this machine's interfaces that are up, without loopback and
/// link-local ones; at most `limit`.
pub(crate) fn interface_addresses(limit: usize) -> Result<Vec<IpAddr>, BootError> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs fills the pointer we own; checked before use.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(BootError::os("listing the network interfaces (getifaddrs)"));
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` walks the list getifaddrs returned, freed only below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        let loopback = entry.ifa_flags & libc::IFF_LOOPBACK as libc::c_uint != 0;
        if !up || loopback || entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: getifaddrs guarantees a sockaddr whose family tells its size.
        let address = match i32::from(unsafe { (*entry.ifa_addr).sa_family }) {
            libc::AF_INET => {
                // SAFETY: family AF_INET, hence a sockaddr_in; read unaligned
                // since the list only promises a sockaddr's alignment.
                let v4 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                IpAddr::V4(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                // SAFETY: family AF_INET6, hence a sockaddr_in6; as above.
                let v6 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
                IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr))
            }
            _ => continue,
        };
        let link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
        };
        if !link_local && !found.contains(&address) && found.len() < limit {
            found.push(address);
        }
    }
    // SAFETY: the list came from getifaddrs and no reference into it remains.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> ContactInfo {
        let addresses = vec!["10.1.2.3".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        ContactInfo::new([7; 16], 4711, addresses).unwrap()
    }

    #[test]
    fn contact_info_survives_encoding() {
        let contact_info = sample();
        assert_eq!(ContactInfo::decode(&contact_info.encode()), Some(contact_info));
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let text = format!("{:?}", sample());
        assert!(!text.contains("call_secret") && !text.contains("answer_secret"));
    }

    proptest! {
        #[test]
        fn garbage_and_cut_contact_info_is_refused(
            cut in 0usize..140, garbage in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let bytes = sample().encode();
            if cut < bytes.len() {
                prop_assert_eq!(ContactInfo::decode(&bytes[..cut]), None);
            }
            let _ = ContactInfo::decode(&garbage);
        }
    }
}
