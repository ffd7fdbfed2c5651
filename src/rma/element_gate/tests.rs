//! Processes that change elements of one segment, some at a time and many.

use super::*;
use crate::netmod::{Kind, Op, Type};

const WORDS: usize = 80_000;
const BYTES: usize = WORDS * 8;

/// A segment that forked processes share.
struct Memory(*mut u8);

impl Memory {
    const ALL: usize = BYTES.next_multiple_of(64) + ElementGate::bytes(4);

    fn new() -> Memory {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of zeros.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), Memory::ALL, prot, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Memory(start.cast())
    }

    fn gate(&self, me: u32, members: u32) -> Arc<ElementGate> {
        // SAFETY: the bytes for four processes, zeroed at first, at a multiple of 64.
        let gate = unsafe {
            let at = self.0.add(BYTES.next_multiple_of(64));
            ElementGate::join((self.0, BYTES), at, me, (0..members).collect())
        };
        Arc::new(gate)
    }

    fn words(&self) -> Vec<u64> {
        // SAFETY: mapped, and nobody else is there any more.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u64>(), WORDS).to_vec() }
    }

    /// Adds one to so many words.
    fn add(&self, entrance: &Entrance, from: usize, count: usize, ones: &[u64]) {
        let at = self.0.wrapping_add(from * 8);
        let work = Work {
            kind: Kind::Update,
            ty: Type::U64,
            op: Op::Sum,
            at,
            operand: ones[..count].as_ptr().cast(),
            compare: std::ptr::null(),
            result: std::ptr::null_mut(),
            count,
        };
        // SAFETY: within the memory, which all change by gates.
        unsafe { entrance.run(&work) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, used no more.
        unsafe { libc::munmap(self.0.cast(), Memory::ALL) };
    }
}

/// Runs `child` in a process of its own, which never returns from here.
fn forked(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child computes in memory that is there, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends the child should this test end before it.
        unsafe { libc::alarm(60) };
        child();
        // SAFETY: no destructor of the parent's runs.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0);
    pid
}

fn reaped(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this test's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Places and lengths around every change of way: single, few, middling, long, and
/// over the ends of stretches.
const STEPS: [(usize, usize); 10] = [
    (7, 1),
    (32_760, FEW),
    (0, FEW - 1),
    (32_700, LONG - 1),
    (32_768 - 512, LONG),
    (65_000, LONG + 1),
    (1, WORDS - 1),
    (32_767, 2),
    (100, 300),
    (0, WORDS),
];

#[test]
fn short_and_long_additions_of_processes_lose_nothing() {
    const ROUNDS: usize = 60;
    let memory = Memory::new();
    let ones = vec![1; WORDS];
    let children: Vec<_> = (0..3)
        .map(|me| {
            forked(|| {
                let gate = memory.gate(me, 3);
                while !gate.is_usable() {
                    std::thread::yield_now();
                }
                // The second goes without a slot of its own.
                let others: Vec<_> = (0..if me == 1 { SLOTS } else { 0 })
                    .map(|_| Entrance::new(Some(&gate)))
                    .collect();
                let entrance = Entrance::new(Some(&gate));
                assert_eq!(entrance.slot.is_none(), me == 1);
                for round in 0..ROUNDS {
                    for (from, count) in STEPS {
                        // Short ones by themselves open the locks again.
                        let times = if count < FEW && round % 2 == 0 { 300 } else { 1 };
                        for _ in 0..times {
                            memory.add(&entrance, from, count, &ones);
                        }
                    }
                }
                drop(others);
            })
        })
        .collect();
    for child in children {
        assert_eq!(reaped(child), 0);
    }
    let mut want = vec![0; WORDS];
    for (from, count) in STEPS {
        let times = if count < FEW { ROUNDS / 2 * 301 } else { ROUNDS };
        want[from..from + count].iter_mut().for_each(|w| *w += 3 * times as u64);
    }
    let got = memory.words();
    let wrong = (0..WORDS).find(|&i| got[i] != want[i]);
    assert_eq!(wrong.map(|i| (i, got[i], want[i])), None);
}

/// Whoever is killed, wherever in here: the others go on.
#[test]
fn the_killed_keep_nobody_out() {
    let ones = vec![1; WORDS];
    for trial in 0..40 {
        let memory = Memory::new();
        let gate = memory.gate(0, 2);
        let child = forked(|| {
            let entrance = Entrance::new(Some(&memory.gate(1, 2)));
            loop {
                for (from, count) in STEPS {
                    memory.add(&entrance, from, count, &ones);
                }
            }
        });
        while !gate.is_usable() {
            std::thread::yield_now();
        }
        let entrance = Entrance::new(Some(&gate));
        for _ in 0..trial {
            memory.add(&entrance, 0, 40, &ones);
            memory.add(&entrance, 0, WORDS, &ones);
        }
        // SAFETY: a child of this test's.
        unsafe { libc::kill(child, libc::SIGKILL) };
        memory.add(&entrance, 0, WORDS, &ones);
        reaped(child);
        for (from, count) in STEPS {
            memory.add(&entrance, from, count, &ones);
        }
    }
}

#[test]
fn an_entrance_gives_its_slot_back() {
    let memory = Memory::new();
    let gate = memory.gate(0, 1);
    for _ in 0..3 {
        let all: Vec<_> = (0..=SLOTS).map(|_| Entrance::new(Some(&gate))).collect();
        let slots: Vec<_> = all.iter().map(|e| e.slot).collect();
        assert_eq!(slots, [Some(0), Some(1), Some(2), Some(3), None]);
        // Who has no slot changes nothing inline.
        // SAFETY: the entrances live, and nothing is changed.
        let enters = |e: &Entrance| unsafe { e.inline().enter(memory.0, || ()) }.is_some();
        assert_eq!(all.iter().map(enters).collect::<Vec<_>>(), [true, true, true, true, false]);
    }
}
