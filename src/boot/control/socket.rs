//! Sockets of the set-up channel.
//!
//! Processes that share a machine and a network namespace meet at abstract
//! Unix sockets: the kernel says which user is at the other end, nothing is
//! left in a file system, and no port is open. All others meet over TCP.
//!
//! Every stream is held as a [`TcpStream`], whatever its family: it owns the
//! descriptor and sends without raising SIGPIPE, which is all that is asked.

use crate::ulimit;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;

/// Callers that may wait to be accepted; the system allows 4096 by default.
const BACKLOG: libc::c_int = 4096;

/// Part of an abstract socket's name that tells it from others; all zeroes
/// for none.
pub(super) type LocalName = [u8; 16];

/// Where a process can be called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address {
    Local(LocalName),
    Tcp(SocketAddr),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Local(name) => write!(f, "@{}", String::from_utf8_lossy(&spelled(name))),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// The name of the abstract socket, without the zero before it.
fn spelled(name: &LocalName) -> Vec<u8> {
    let digits = name.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    b"rankway-".iter().copied().chain(digits).collect()
}

/// Who came to a listener.
pub(super) enum Arrival {
    Caller(TcpStream),
    /// Of another user, or gone already; closed.
    Stranger,
    /// Nobody else waits.
    Nobody,
    /// This process may open no more descriptors.
    Full,
}

pub(super) enum Listener {
    Local(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn local(name: &LocalName) -> io::Result<Self> {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(spelled(name))?;
        let listener = UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        lengthen(listener.as_raw_fd());
        Ok(Listener::Local(listener))
    }

    pub(super) fn tcp(ip: IpAddr, port: u16) -> io::Result<(Self, u16)> {
        let listener = TcpListener::bind(SocketAddr::new(ip, port))?;
        listener.set_nonblocking(true)?;
        lengthen(listener.as_raw_fd());
        let port = listener.local_addr()?.port();
        Ok((Listener::Tcp(listener), port))
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self, Listener::Local(_))
    }

    pub(super) fn fd(&self) -> RawFd {
        match self {
            Listener::Local(listener) => listener.as_raw_fd(),
            Listener::Tcp(listener) => listener.as_raw_fd(),
        }
    }

    pub(super) fn accept(&self) -> Arrival {
        let accepted = match self {
            Listener::Local(listener) => {
                listener.accept().map(|(s, _)| TcpStream::from(OwnedFd::from(s)))
            }
            Listener::Tcp(listener) => listener.accept().map(|(s, _)| s),
        };
        match accepted {
            Ok(stream) if self.is_local() && !is_ours(stream.as_raw_fd()) => Arrival::Stranger,
            Ok(stream) => match prepare(&stream) {
                Ok(()) => Arrival::Caller(stream),
                Err(_) => Arrival::Stranger,
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => Arrival::Nobody,
            Err(error) if ulimit::no_descriptor(&error) => Arrival::Full,
            // A caller that gave up before it was accepted.
            Err(_) => Arrival::Stranger,
        }
    }
}

/// Lets more callers wait than the standard library does.
fn lengthen(fd: RawFd) {
    // SAFETY: takes two integers; a refusal leaves the shorter queue.
    unsafe { libc::listen(fd, BACKLOG) };
}

/// Returns true if the process at the other end of a Unix socket runs as our
/// user.
fn is_ours(fd: RawFd) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length describe the live local `peer`; geteuid has
    // no arguments and cannot fail.
    unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(fd, level, name, (&raw mut peer).cast(), &mut length) == 0
            && peer.uid == libc::geteuid()
    }
}

/// Starts a connection without waiting for it. [`ErrorKind::WouldBlock`] when
/// the callee's queue is full: try again soon.
pub(super) fn connect(address: Address) -> io::Result<TcpStream> {
    match address {
        Address::Local(name) => connect_local(&name),
        Address::Tcp(address) => connect_tcp(address),
    }
}

fn socket(family: libc::c_int) -> io::Result<TcpStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes integers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just handed this descriptor to us alone.
    Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn connect_local(name: &LocalName) -> io::Result<TcpStream> {
    let stream = socket(libc::AF_UNIX)?;
    // SAFETY: all-zero is a valid sockaddr_un.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let name = spelled(name);
    // An abstract name begins with a zero.
    for (to, from) in raw.sun_path[1..].iter_mut().zip(&name) {
        *to = *from as libc::c_char;
    }
    let length = size_of::<libc::sa_family_t>() + 1 + name.len();
    let fd = stream.as_raw_fd();
    // SAFETY: `raw` is a live local and longer than `length`.
    let result = unsafe { libc::connect(fd, (&raw const raw).cast(), length as libc::socklen_t) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // The name could have been taken by another user after its owner closed it.
    if !is_ours(fd) {
        let why = "another user listens there; the process that did has left";
        return Err(io::Error::new(ErrorKind::ConnectionRefused, why));
    }
    Ok(stream)
}

fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = socket(if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 })?;
    prepare(&stream)?;
    let fd = stream.as_raw_fd();
    let result = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: all-zero is a valid sockaddr_in.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            let length = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: pointer and length describe the live local `raw`.
            unsafe { libc::connect(fd, (&raw const raw).cast(), length) }
        }
        SocketAddr::V6(v6) => {
            // SAFETY: all-zero is a valid sockaddr_in6.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            let length = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: pointer and length describe the live local `raw`.
            unsafe { libc::connect(fd, (&raw const raw).cast(), length) }
        }
    };
    let error = io::Error::last_os_error();
    match (result, error.raw_os_error()) {
        // Interrupted connects go on in the background, like EINPROGRESS.
        (0, _) | (_, Some(libc::EINPROGRESS | libc::EINTR)) => Ok(stream),
        _ => Err(error),
    }
}

/// Non-blocking; over TCP without batching delay, and with probes that find a
/// machine that is gone within about five seconds. Probes are answered by the
/// kernel, so a stopped process passes them.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let options = [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
    ];
    for (level, name, value) in options {
        let value: libc::c_int = value;
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: pointer and length describe the live local `value`. A
        // refusal, as by Unix sockets, only costs speed or the earlier notice.
        unsafe {
            libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), length)
        };
    }
    Ok(())
}

/// Returns true if the machine at the other end of a TCP connection does not answer:
/// for five seconds nothing was acknowledged that it was sent, and sent again.
/// Probes that find this on an idle connection are not sent where something is on
/// its way, and the system's own patience is a quarter of an hour then
/// (TCP_USER_TIMEOUT would end connections to stopped processes, too, whose system
/// acknowledges while it takes nothing).
pub(super) fn is_unanswered(stream: &TcpStream) -> bool {
    const SILENCE: u32 = 5_000;
    /// Packets sent again, or questions whether there is room, without an answer.
    const TRIES: u8 = 3;
    // SAFETY: all-zero is a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    let (level, name, fd) = (libc::IPPROTO_TCP, libc::TCP_INFO, stream.as_raw_fd());
    // SAFETY: pointer and length describe the live local `info`. A Unix socket
    // refuses.
    let rc = unsafe { libc::getsockopt(fd, level, name, (&raw mut info).cast(), &mut length) };
    let tries = info.tcpi_retransmits.max(info.tcpi_probes);
    rc == 0 && tries >= TRIES && info.tcpi_last_ack_recv > SILENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `act` gives on a thread of another user; `None` where this one may not
    /// become one. (Linux keeps credentials for each thread.)
    fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
        const NOBODY: libc::c_long = 65_534;
        let become_nobody_and_act = || {
            // SAFETY: takes integers; of this thread alone, which ends with it.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) } == 0;
            done.then(act)
        };
        std::thread::scope(|scope| scope.spawn(become_nobody_and_act).join().unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn another_user_is_nobody_to_talk_to() {
        let (ours, theirs) =
            (crate::boot::os::random().unwrap(), crate::boot::os::random().unwrap());
        let listener = Listener::local(&ours).unwrap();
        assert!(matches!(listener.accept(), Arrival::Nobody));
        let peer = connect(Address::Local(ours)).unwrap();
        assert!(matches!(listener.accept(), Arrival::Caller(_)));
        drop(peer);
        // One who took a name that a process listened at and left.
        let Some(taken) = as_nobody(|| Listener::local(&theirs).unwrap()) else {
            println!("skipped: needs root, to be another user");
            return;
        };
        let refused = connect(Address::Local(theirs)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains("another user"), "{refused}");
        drop(taken);
        // One who calls, as the kernel lets anybody.
        let call = as_nobody(|| {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(spelled(&ours));
            std::os::unix::net::UnixStream::connect_addr(&address.unwrap())
        });
        assert!(call.is_some_and(|call| call.is_ok()));
        assert!(matches!(listener.accept(), Arrival::Stranger));
    }
}
