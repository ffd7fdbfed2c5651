//! Places of rings: claims that are given up, senders that have ended.

use super::*;
use crate::netmod::{Netmod, OpenParams};
use crate::process;
use crate::shm::element_lock::Holder;
use crate::shm::ring::{self, Writer};
use std::sync::atomic::AtomicBool;

fn endpoint() -> Endpoint {
    let params = OpenParams { peers: 1, on_node: 1, ..OpenParams::default() };
    Endpoint::open(&Arc::new(Node::open(&params).unwrap())).unwrap()
}

/// Signs both rings of a place; their ends are let go of.
fn sign(rings: &Rings, place: u32, sender: u32) {
    // SAFETY: rings of the map; who has claimed the place is their only sender.
    unsafe {
        assert!(Writer::new(rings.packets(place), sender).is_some());
        assert!(Writer::new(rings.puts(place), sender).is_some());
    }
}

/// Polls; packets there were.
fn poll(endpoint: &Endpoint) -> usize {
    let mut packets = 0;
    endpoint.poll(|_| (), |_, _| packets += 1).unwrap();
    packets
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn a_claim_that_is_never_signed_keeps_nobody_awake() {
    let endpoint = endpoint();
    let place = endpoint.rings.claim(endpoint.places);
    assert_eq!(place, Some(0));
    poll(&endpoint);
    assert!(endpoint.stays_quiet() && endpoint.arm());
    // Nor one of which half is signed.
    // SAFETY: a ring of the map, claimed just now.
    assert!(unsafe { Writer::new(endpoint.rings.packets(0), 7) }.is_some());
    poll(&endpoint);
    assert!(endpoint.stays_quiet() && endpoint.arm());
    // Others are found and heard as ever.
    let peer = Peer::open(&endpoint.address(), Holder::current()).unwrap();
    assert!(!endpoint.stays_quiet(), "a sender has come");
    poll(&endpoint);
    assert!(endpoint.arm());
    // SAFETY: a body of no bytes.
    assert!(unsafe { peer.packet(&[0; HEAD], std::ptr::null(), 0) });
    assert!(!endpoint.stays_quiet());
    assert_eq!(poll(&endpoint), 1);
}

/// All places are taken by senders that lived when the endpoint last looked.
#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn places_of_ended_senders_are_for_who_comes() {
    let mut endpoint = endpoint();
    let (rings, places, gone) = (&endpoint.rings, endpoint.places, process::one_that_ended());
    for at in 0..places {
        assert_eq!(rings.claim(places), Some(at));
        sign(rings, at, gone);
    }
    rings.announce();
    poll(&endpoint);
    assert_eq!(endpoint.incoming.borrow().len(), places as usize);
    let (address, me, done) = (endpoint.address(), Holder::current(), AtomicBool::new(false));
    let endpoint = &mut endpoint;
    let peer = std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                poll(endpoint);
            }
        });
        // (Where the other thread has no processor for so long.)
        let peer = (0..30).find_map(|_| Peer::open(&address, me).ok());
        done.store(true, Ordering::Relaxed);
        peer
    });
    assert!(peer.is_some());
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn places_of_the_living_are_theirs() {
    let endpoint = endpoint();
    let (rings, places) = (&endpoint.rings, endpoint.places);
    for at in 0..places {
        assert_eq!(rings.claim(places), Some(at));
        sign(rings, at, std::process::id());
    }
    rings.announce();
    poll(&endpoint);
    assert_eq!(rings.claim_or_wait(places, std::process::id()), None);
    let refused = Peer::open(&endpoint.address(), Holder::current()).err().unwrap().to_string();
    assert!(refused.contains(&format!("all {places} places")), "{refused}");
}

/// Their claimers have died before they signed both rings, or told of it.
#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn places_of_who_died_within_a_claim_are_for_who_comes() {
    let endpoint = endpoint();
    let (rings, places, gone) = (&endpoint.rings, endpoint.places, process::one_that_ended());
    for at in 0..places {
        // SAFETY: rings of the map.
        assert!(unsafe { ring::take(rings.packets(at), gone) });
    }
    assert_eq!(rings.claimed().load(Ordering::Relaxed), 0, "nobody has counted them");
    let claimed = std::thread::scope(|scope| {
        let claimer = scope.spawn(|| rings.claim_or_wait(places, std::process::id()));
        while !claimer.is_finished() {
            poll(&endpoint);
        }
        claimer.join().unwrap()
    });
    assert!(claimed.is_some());
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn nobody_waits_for_an_owner_that_has_left() {
    let endpoint = endpoint();
    let (rings, places, gone) = (&endpoint.rings, endpoint.places, process::one_that_ended());
    for at in 0..places {
        assert_eq!(rings.claim(places), Some(at));
        sign(rings, at, gone);
    }
    rings.leave();
    let announced = rings.announced().load(Ordering::Relaxed);
    assert_eq!(rings.claim_or_wait(places, std::process::id()), None);
    assert_eq!(rings.announced().load(Ordering::Relaxed), announced);
}

/// What is carried out for a peer that does not poll, as this process for itself: a put under a wrong
/// key fails the flush, and nothing beside it.
#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn who_is_refused_fails_alone() {
    let endpoint = endpoint();
    let memory = [7_u64; 2];
    let start = memory.as_ptr().cast_mut().cast::<u8>();
    // SAFETY: the memory stays as long as the endpoint.
    let region = unsafe { endpoint.owner.register(&endpoint, start, 16, 5) }.unwrap();
    let peer = Peer::open(&endpoint.address(), Holder::current()).unwrap();
    let mut got = 0_u64;
    let into = (&raw mut got).cast::<u8>();
    // SAFETY: 8 bytes of this test's.
    assert_eq!(unsafe { peer.put(6, 0, into, 8) }, 0);
    assert_eq!(peer.get(5, 8, (into, 8), 1), 0);
    assert_eq!(peer.get(6, 0, (into, 8), 2), 0);
    peer.flush(3);
    let mut ended = Vec::new();
    peer.advance(&mut |token, result| ended.push((token, result.is_ok())));
    assert_eq!((ended, got), (vec![(1, true), (2, false), (3, false)], 7));
    peer.flush(4);
    peer.advance(&mut |token, result| assert!(token == 4 && result.is_ok()));
    drop(region);
}
