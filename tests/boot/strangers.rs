//! What the threat model promises of the set-up channel beside
//! `tests/boot/control.rs`: one who answers in a peer's place, a peer that lies,
//! where a process listens, and a network that drops everything.
#![cfg(all(target_os = "linux", feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::{Boot, BootError, Control, World};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

plays!(part);

/// What greetings and answers begin with.
const MAGIC: &[u8; 8] = b"rankway\x03";
const GREETING: usize = 40;
const ANSWER: usize = 24;

fn part(name: &str) {
    match name {
        "answered by another" => all_succeed(2, answered_by_another),
        "listeners" => all_succeed(2, |boot| listens_where_published(boot, false)),
        "listeners far away" => {
            all_succeed(2, |boot| listens_where_published(Arc::new(Far(boot)), true));
        }
        "liar" => all_succeed(3, |boot| liar(boot, true)),
        "liar far away" => all_succeed(3, |boot| liar(Arc::new(Far(boot)), false)),
        "silence" => all_succeed(2, silence),
        other => panic!("no part {other}"),
    }
}

fn fence(boot: &Arc<dyn Boot>) {
    boot.fence(&mut || ()).unwrap();
}

/// Rank 1 leaves, and another program takes its port: it is sent a greeting and
/// nothing else, and what it answers does not make it rank 1.
fn answered_by_another(boot: Arc<dyn Boot>) {
    let boot: Arc<dyn Boot> = Arc::new(Far(boot));
    let control = open(&boot);
    if boot.rank() == 1 {
        let info = control.contact_info(1).unwrap();
        drop(control);
        let listener = TcpListener::bind((info.addresses[0], info.port)).unwrap();
        fence(&boot);
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[..8], *MAGIC);
        stream.write_all(&[&MAGIC[..], &[7; 16]].concat()).unwrap();
        let mut more = Vec::new();
        // Closed or reset.
        let _ = stream.read_to_end(&mut more);
        assert_eq!(more, b"", "sent to one who has not shown the secret");
        fence(&boot);
        return;
    }
    fence(&boot);
    let error = control.broadcast(&World::of(&*boot), 1, 0, Some(b"private"), &mut ok);
    let error = error.and_then(|_| control.barrier(&World::of(&*boot), 2, &mut ok)).unwrap_err();
    let BootError::PeerDied { rank: 1, how } = &error else { panic!("{error}") };
    assert!(how.contains("answered without the secret") && !how.contains("ulimit"), "{how}");
    fence(&boot);
}

/// The addresses at which this process listens for TCP.
fn listening() -> BTreeSet<SocketAddr> {
    let own: BTreeSet<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = BTreeSet::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        // A kernel without IPv6 has no second table.
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            const LISTEN: &str = "0A";
            if words[3] == LISTEN && own.contains(words[9]) {
                found.insert(address(words[1]));
            }
        }
    }
    found
}

/// An address as the kernel's tables have it: words of 32 bits, each in this
/// machine's order, and the port.
fn address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    let word = |at: usize| u32::from_str_radix(&ip[8 * at..8 * at + 8], 16).unwrap().to_ne_bytes();
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)).into(),
        _ => {
            let bytes: Vec<u8> = (0..4).flat_map(word).collect();
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into()
        }
    };
    SocketAddr::new(ip, u16::from_str_radix(port, 16).unwrap())
}

/// On one machine at no port at all, on several at the addresses that the
/// contact info names; never at all addresses of the machine.
fn listens_where_published(boot: Arc<dyn Boot>, network: bool) {
    let control = open(&boot);
    // The table is read right.
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let probe_address = probe.local_addr().unwrap();
    let info = control.contact_info(boot.rank()).unwrap();
    let mut expected: BTreeSet<_> =
        info.addresses.iter().map(|&ip| SocketAddr::new(ip, info.port)).collect();
    assert_eq!(expected.is_empty(), !network, "{info:?}");
    assert!(expected.iter().all(|address| !address.ip().is_unspecified()));
    expected.insert(probe_address);
    assert_eq!(listening(), expected);
    control.barrier(&World::of(&*boot), 1, &mut ok).unwrap();
    assert_eq!(listening(), expected);
}

/// A connection to rank 0 by one who knows what every rank of the job may know.
fn call_as(boot: &Arc<dyn Boot>, control: &Control, from: u32) -> TcpStream {
    let info = control.contact_info(0).unwrap();
    let mut stream: TcpStream = match info.addresses.first() {
        Some(&ip) => TcpStream::connect((ip, info.port)).unwrap(),
        None => {
            let name = info.local.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let address =
                std::os::unix::net::SocketAddr::from_abstract_name(format!("rankway-{name}"));
            OwnedFd::from(UnixStream::connect_addr(&address.unwrap()).unwrap()).into()
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // Version, process and network namespace stand before the secrets.
    const CALL_SECRET: usize = 1 + 4 + 8 + 8 + 16 + 8;
    let bytes = info.encode();
    let secret = &bytes[CALL_SECRET..][..16];
    let words = [boot.job().to_le_bytes().to_vec(), [from, 0].map(u32::to_le_bytes).concat()];
    stream.write_all(&[&MAGIC[..], &words.concat(), secret].concat()).unwrap();
    stream
}

/// A frame's bytes.
fn frame(tag: u64, sequence: u32, kind: u8, operation: u8, payload: &[u8]) -> Vec<u8> {
    let head = [&tag.to_le_bytes()[..], &sequence.to_le_bytes(), &[kind, operation, 0, 0]];
    [&head.concat()[..], &(payload.len() as u64).to_le_bytes(), payload].concat()
}

/// Rank 1 says that others died, and then what is no frame. Who is seen to live
/// is not believed dead; of one on another machine it is believed, in its words.
fn liar(boot: Arc<dyn Boot>, seen: bool) {
    const DATA: u8 = 0;
    const DEATH: u8 = 2;
    const BROADCAST: u8 = 3;
    let control = open(&boot);
    let others = [0, 2];
    match boot.rank() {
        0 => {
            // Frames keep their order: what came before this was heard.
            let pair = List::new([1, 0], 0).unwrap();
            assert_eq!(control.broadcast(&pair, 1, 0, None, &mut ok).unwrap(), b"the truth");
            let met = control.barrier(&List::new(others, 0).unwrap(), 2, &mut ok);
            match met {
                Ok(()) => assert!(seen, "it heard nothing"),
                Err(BootError::PeerDied { rank: 2, how }) => assert!(!seen && how == "a lie"),
                Err(error) => panic!("{error}"),
            }
            fence(&boot);
            // Rank 2 is elsewhere; what is no frame is told with who sent it.
            let error = control.barrier(&List::new([1, 0], 0).unwrap(), 3, &mut ok).unwrap_err();
            assert!(matches!(error, BootError::Protocol { rank: 1, .. }), "{error}");
        }
        1 => {
            let mut stream = call_as(&boot, &control, 1);
            stream.read_exact(&mut [0; ANSWER]).unwrap();
            let says = |rank: u32| [&rank.to_le_bytes()[..], &[0; 9], b"a lie"].concat();
            let lies = [says(2), says(0), says(99), b"odd".to_vec()];
            let lies = (0..).zip(&lies).flat_map(|(n, lie)| frame(0, n, DEATH, 0, lie));
            let truth = frame(1, 4, DATA, BROADCAST, b"the truth");
            stream.write_all(&[lies.collect(), truth].concat()).unwrap();
            fence(&boot);
            stream.write_all(&[0xff; 32]).unwrap();
            let mut rest = Vec::new();
            // Closed, after what rank 0 may have passed on.
            let _ = stream.read_to_end(&mut rest);
        }
        _ => {
            if seen {
                control.barrier(&List::new(others, 2).unwrap(), 2, &mut ok).unwrap();
            }
            fence(&boot);
        }
    }
    fence(&boot);
    if seen && boot.rank() != 1 {
        control.barrier(&List::new(others, boot.rank()).unwrap(), 4, &mut ok).unwrap();
    }
    fence(&boot);
}

/// Two machines and a link between them. A process that is stopped is waited
/// for, however much is on its way to it; one behind a link that takes every
/// packet and answers nothing is not, whether something is on its way or not.
fn silence(boot: Arc<dyn Boot>) {
    join(&*boot).unwrap();
    let near = boot.clone();
    let boot: Arc<dyn Boot> = Arc::new(Far(boot));
    let control = open(&boot);
    let (rank, world) = (boot.rank(), World::of(&*boot));
    let pid = control.contact_info(1).unwrap().process.pid as libc::pid_t;
    // Mostly one connection for both directions: an idle one beside it would tell.
    control.broadcast(&world, 1, 0, (rank == 0).then_some(b""), &mut ok).unwrap();
    if rank == 1 {
        // SAFETY: raise takes an integer; rank 0 sends SIGCONT.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
    // Longer than silence is borne, with more on its way than buffers hold.
    let (begin, mut going) = (Instant::now(), rank == 1);
    let mine = vec![rank as u8; 16 << 20];
    let all = control.allgather(&world, 2, &mine, &mut || {
        if !going && begin.elapsed() > Duration::from_secs(9) {
            going = true;
            // SAFETY: kill takes two integers; the process is of this job.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
        Ok(false)
    });
    assert!(all.unwrap().iter().zip(0..).all(|(bytes, rank)| *bytes == vec![rank; 16 << 20]));
    println!("rank {rank} has {} connections", control.connections());
    fence(&boot);
    cut(&*near).unwrap();
    fence(&boot);
    let value = (rank == 1).then_some(&b"lost"[..]);
    let waited = control.broadcast(&world, 3, 1, value, &mut ok).map(drop);
    // Rank 1 has sent something that is never acknowledged, rank 0 nothing.
    assert_eq!(waited.is_err(), rank == 0, "{waited:?}");
    let error = waited.and_then(|()| control.barrier(&world, 4, &mut ok)).unwrap_err();
    println!("rank {rank}: {error}");
    assert!(matches!(error, BootError::PeerDied { .. }), "{error}");
    assert_eq!(error.peer(), Some(1 - rank));
    fence(&boot);
}

parts! {
    who_is_seen_to_live_is_not_said_dead "liar"
    no_port_is_open_on_one_machine "listeners"
}

fn over_the_network(part: &str) {
    match has_network() {
        true => print!("{}", must_succeed(play(part))),
        false => println!("skipped: this machine has no network interface but the loopback"),
    }
}

#[test]
fn what_is_said_of_other_machines_is_believed() {
    over_the_network("liar far away");
}

#[test]
fn listeners_are_where_contact_info_says() {
    over_the_network("listeners far away");
}

#[test]
fn another_at_the_address_of_a_peer_gets_nothing() {
    over_the_network("answered by another");
}

#[test]
fn a_network_that_drops_everything_is_noticed() {
    match cannot_join() {
        None => print!("{}", must_succeed(play("silence"))),
        Some(why) => println!("skipped: two network namespaces cannot be joined: {why}"),
    }
}
