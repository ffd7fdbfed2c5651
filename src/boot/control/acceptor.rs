//! Where callers are accepted, and how many unauthenticated ones are kept.

use super::socket::{Arrival, Listener, LocalName};
use crate::boot::{Boot, BootError, contact_info, os};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};

/// Addresses published at most, each with a listener of its own.
const MAX_ADDRESSES: usize = 4;

/// The listeners of a process. They listen at what its contact info publishes, and
/// nowhere else.
#[derive(Default)]
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    /// Given up for a moment to reject a caller where no descriptor is
    /// left: one that waits for ever would keep the listener ready for ever.
    reserve: Option<File>,
}

/// What is published of an acceptor.
#[derive(Default)]
pub(super) struct ListenAddress {
    pub(super) local: LocalName,
    pub(super) port: u16,
    pub(super) addresses: Vec<IpAddr>,
}

impl Acceptor {
    /// Opens what the job of `boot` needs: nothing for a job of one rank, a
    /// Unix socket on one machine, TCP beside it on several.
    pub(super) fn open(boot: &dyn Boot) -> Result<(Acceptor, ListenAddress), BootError> {
        let (mut acceptor, mut listen_address) = (Acceptor::default(), ListenAddress::default());
        if boot.size() == 1 {
            return Ok((acceptor, listen_address));
        }
        acceptor.reserve = reserve();
        let name = os::random()?;
        let refused = match Listener::local(&name) {
            Ok(listener) => {
                listen_address.local = name;
                acceptor.listeners.push(listener);
                None
            }
            Err(error) => Some(error),
        };
        match (boot.one_machine()?, refused) {
            (true, None) => {}
            // A system without abstract sockets.
            (true, Some(_)) => {
                listen_address.port = acceptor.listen(Ipv4Addr::LOCALHOST.into(), 0)?
            }
            (false, _) => acceptor.open_network(&mut listen_address)?,
        }
        Ok((acceptor, listen_address))
    }

    /// Listens at this machine's addresses, all at one port.
    fn open_network(&mut self, listen_address: &mut ListenAddress) -> Result<(), BootError> {
        /// Another process may have the port at one of the other addresses.
        const ATTEMPTS: u32 = 8;
        let mut addresses = contact_info::interface_addresses(2 * MAX_ADDRESSES)?;
        if addresses.iter().any(IpAddr::is_ipv4) {
            addresses.retain(IpAddr::is_ipv4);
        }
        addresses.truncate(MAX_ADDRESSES);
        // Without a network all others are on this machine, or out of reach.
        let Some((&first, others)) = addresses.split_first() else { return Ok(()) };
        let kept = self.listeners.len();
        for attempt in 1..=ATTEMPTS {
            self.listeners.truncate(kept);
            listen_address.port = self.listen(first, 0)?;
            let rest =
                others.iter().try_for_each(|&ip| self.listen(ip, listen_address.port).map(drop));
            match rest {
                Ok(()) => break,
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => {}
            }
        }
        listen_address.addresses = addresses;
        Ok(())
    }

    fn listen(&mut self, ip: IpAddr, port: u16) -> Result<u16, BootError> {
        let opened = Listener::tcp(ip, port);
        let (listener, port) = opened.map_err(|error| {
            BootError::io(format!("opening the control channel on {ip}"), error)
        })?;
        self.listeners.push(listener);
        Ok(port)
    }

    pub(super) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Takes one caller and closes the connection, without a descriptor to
    /// spare. False where even that cannot be, or nobody waits.
    ///
    /// # Errors
    /// [`BootError::Os`] for a caller of our own user: it was a peer.
    pub(super) fn reject(&mut self, at: usize) -> Result<bool, BootError> {
        let Some(spare) = self.reserve.take().or_else(reserve) else { return Ok(false) };
        drop(spare);
        let listener = &self.listeners[at];
        let arrival = listener.accept();
        let peer = listener.is_local() && matches!(arrival, Arrival::Caller(_));
        let someone = matches!(arrival, Arrival::Caller(_) | Arrival::Stranger);
        drop(arrival);
        self.reserve = reserve();
        match peer {
            true => Err(no_descriptors(std::io::Error::from_raw_os_error(libc::EMFILE))),
            false => Ok(someone),
        }
    }
}

fn reserve() -> Option<File> {
    // Without one, callers wait instead of being rejected.
    File::open("/dev/null").ok()
}

pub(super) fn no_descriptors(error: std::io::Error) -> BootError {
    BootError::io("opening a control connection", error)
}
