//! Inboxes of this process, and outboxes to them: what is corrupt, guests, sleepers.

use super::*;

/// An inbox of this process, and an outbox to it from each other rank.
fn pair(ranks: u32) -> Option<(Inbox, Vec<Outbox>)> {
    let owner = Owner { job: 7, peer: 0, context: 0, places: ranks };
    let inbox = Inbox::open(owner).ok()??;
    let out =
        (1..ranks).map(|rank| Outbox::open(inbox.place(), &owner, rank, rank).unwrap().unwrap());
    let out = out.collect();
    Some((inbox, out))
}

fn send(outbox: &Outbox, word: u64) {
    // SAFETY: a body of no bytes.
    assert!(unsafe { outbox.put(2, [word, 0, 0], std::ptr::null(), 0) });
}

fn received(inbox: &Inbox) -> (Vec<(u32, u64)>, Vec<u32>) {
    received_with(inbox, |_| unreachable!("no guests"))
}

fn received_with(
    inbox: &Inbox,
    greet: impl FnMut(&mut Reader) -> Greeting,
) -> (Vec<(u32, u64)>, Vec<u32>) {
    let (mut got, mut lost) = (Vec::new(), Vec::new());
    let take = |from, first: u64, words: [u64; 3], _: &[u8]| {
        got.push((from, words[0]));
        first as u8 == 2
    };
    inbox.poll(take, |peer| lost.push(peer), greet);
    (got, lost)
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn a_corrupt_ring_is_told_of_once_and_the_others_go_on() {
    let (inbox, out) = pair(4).unwrap();
    out.iter().for_each(|outbox| send(outbox, 1));
    assert_eq!(received(&inbox).0, [(1, 1), (2, 1), (3, 1)]);
    assert!(inbox.arm().is_some());
    // The next slot of rank 2's ring, behind the two lines and one packet.
    let ring = inbox.map.ring(2).wrapping_add(2 * 64 + 32).cast::<u64>();
    // SAFETY: within the map.
    unsafe { ring.write(u64::MAX >> 1) };
    assert!(inbox.arm().is_none(), "something is there");
    send(&out[0], 2);
    send(&out[2], 2);
    assert_eq!(received(&inbox), (vec![(1, 2), (3, 2)], vec![2]));
    assert!(inbox.arm().is_some(), "what is corrupt keeps nobody awake");
    // Nor does it come back with the next who signs.
    inbox.map.head().signed.0.fetch_add(1, Ordering::Relaxed);
    send(&out[0], 3);
    assert_eq!(received(&inbox), (vec![(1, 3)], vec![]));
    assert!(inbox.arm().is_some());
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn what_peers_write_in_the_head_is_not_believed() {
    let (inbox, out) = pair(2).unwrap();
    // SAFETY: of the head, which is this test's.
    unsafe { (*inbox.map.0.start().cast::<Head>()).places = u32::MAX };
    for word in &inbox.map.head().which {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    send(&out[0], 5);
    assert_eq!(received(&inbox).0, [(1, 5)]);
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn guests_are_read_once_they_are_known_and_their_rings_are_used_again() {
    let (inbox, out) = pair(2).unwrap();
    assert_eq!(received(&inbox), (vec![], vec![]), "finds the member");
    assert!(Outbox::open_as_guest(inbox.place(), u32::MAX).unwrap().is_none(), "cannot be signed");
    let guest = |name| Outbox::open_as_guest(inbox.place(), name).unwrap();
    // As long as it says nothing nobody waits for it, and it wakes who sleeps.
    let first = guest(900).unwrap();
    let not_yet = |_: &mut Reader| Greeting::NotYet;
    assert_eq!(received_with(&inbox, not_yet).0, []);
    assert!(inbox.arm().is_some());
    send(&first, 7);
    assert!(inbox.arm().is_none(), "a guest has said something");
    assert_eq!(received_with(&inbox, not_yet).0, [], "who is not known is not read");
    send(&out[0], 1);
    let known = |guest: &mut Reader| Greeting::Known(guest.peer() - 800);
    assert_eq!(received_with(&inbox, known).0, [(1, 1), (100, 7)]);
    assert!(inbox.has_guest(100) && !inbox.has_guest(1), "a member is no guest");
    // All others, and one too many.
    let more: Vec<Outbox> = (1..GUESTS).map(|at| guest(900 + at).unwrap()).collect();
    assert!(guest(999).is_none());
    more.iter().for_each(|outbox| send(outbox, 8));
    let refused = |guest: &mut Reader| match guest.peer() {
        901 => Greeting::Refused,
        name => Greeting::Known(name - 800),
    };
    assert_eq!(received_with(&inbox, refused).0.len(), GUESTS as usize - 2);
    assert!(inbox.arm().is_some(), "who was refused keeps nobody awake");
    send(&first, 9);
    assert_eq!(received(&inbox).0, [(100, 9)]);
    // It has ended: the next finds its ring as if never used.
    drop(first);
    inbox.forget_guest(100);
    inbox.forget_guest(1);
    assert!(!inbox.has_guest(100));
    let next = guest(999).unwrap();
    send(&next, 10);
    send(&out[0], 2);
    assert_eq!(received_with(&inbox, known).0.iter().copied().max(), Some((199, 10)));
    assert!(guest(1000).is_none());
}

/// As if the process that has it had ended.
fn end(word: &LockWord) {
    word.give_back();
    word.try_take(u64::from(crate::process::one_that_ended()) | 1 << 32).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn rings_of_guests_that_nobody_forgets_are_used_again() {
    let (inbox, _out) = pair(2).unwrap();
    assert_eq!(received(&inbox), (vec![], vec![]), "finds the member");
    let guest = |name| Outbox::open_as_guest(inbox.place(), name).unwrap();
    let words = &inbox.map.head().guests;
    // They died before they signed.
    words.iter().for_each(end);
    let all: Vec<Outbox> = (0..GUESTS).map(|at| guest(900 + at).unwrap()).collect();
    assert!(guest(999).is_none());
    // The first and the last said nothing, the others are refused.
    all[1..GUESTS as usize - 1].iter().for_each(|outbox| send(outbox, 8));
    let mut greet = |guest: &mut Reader| match guest.has_some() {
        true => Greeting::Refused,
        false => Greeting::NotYet,
    };
    assert_eq!(received_with(&inbox, &mut greet), (vec![], vec![]));
    // One has a name that is the number of another, which is forgotten.
    inbox.forget_guest(901);
    assert!(guest(999).is_none(), "they live");
    let ended = [0, 1, GUESTS as usize / 2];
    ended.iter().for_each(|&at| end(&words[at]));
    assert!(guest(999).is_none(), "the owner has to look");
    assert_eq!(received_with(&inbox, &mut greet), (vec![], vec![]));
    let next: Vec<Outbox> = ended.iter().map(|_| guest(999).unwrap()).collect();
    assert!(guest(1000).is_none());
    next.iter().for_each(|outbox| send(outbox, 10));
    let known = |guest: &mut Reader| match guest.has_some() {
        true => Greeting::Known(guest.peer() - 800),
        false => Greeting::NotYet,
    };
    assert_eq!(received_with(&inbox, known).0, [(199, 10); 3]);
}

#[test]
#[cfg_attr(miri, ignore = "shares memory files")]
fn a_sleeper_is_woken_with_and_without_barriers() {
    for fences in [false, true] {
        let (inbox, out) = pair(2).unwrap();
        if fences {
            inbox.map.head().bell.demand_fences();
        }
        assert_eq!(received(&inbox), (vec![], vec![]), "finds the ring");
        for word in 0..1000 {
            let fd = inbox.arm().unwrap();
            send(&out[0], word);
            let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            assert_eq!(unsafe { libc::poll(&mut entry, 1, 5000) }, 1, "{word} {fences}");
            assert_eq!(received(&inbox).0, [(1, word)]);
        }
    }
}
