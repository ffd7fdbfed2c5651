//! Simulated caches against a plain list for each set, and traced accesses and
//! lines of assembly whose accesses are known.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rankway_cli::observe::cache::{Cache, Geometry, Hierarchy};
use rankway_cli::observe::lines::{self, LINE, Lines};
use rankway_cli::observe::step::{self, Stop, Trace};
use std::arch::global_asm;

/// Lines by set, the one used last at the end.
struct Plain {
    sets: Vec<Vec<u64>>,
    most: usize,
}

impl Plain {
    fn new(geometry: Geometry) -> Plain {
        let sets = geometry.bytes / geometry.associativity / LINE as u64;
        Plain { sets: vec![Vec::new(); sets as usize], most: geometry.associativity as usize }
    }

    fn hits(&mut self, line: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        let there = set.contains(&line);
        set.retain(|&other| other != line);
        set.push(line);
        if set.len() > self.most {
            set.remove(0);
        }
        there
    }
}

fn geometry() -> impl Strategy<Value = Geometry> {
    (1..12_u64, 1..9_u64).prop_map(|(sets, associativity)| {
        Geometry::new(sets * associativity * LINE as u64, associativity).unwrap()
    })
}

proptest! {
    #[test]
    fn a_cache_is_a_list_for_each_set(
        geometry in geometry(),
        used in prop::collection::vec(0..100_u64, 0..600),
    ) {
        let (mut cache, mut plain) = (Cache::new(geometry), Plain::new(geometry));
        for line in used {
            prop_assert_eq!(cache.hits(line), plain.hits(line), "{}", line);
        }
    }

    #[test]
    fn levels_see_what_the_nearer_missed(
        levels in prop::collection::vec(geometry(), 1..4),
        used in prop::collection::vec((0..6000_u64, 1..200_u64), 0..300),
    ) {
        let mut hierarchy = Hierarchy::new(&levels);
        let mut plain: Vec<_> = levels.iter().map(|&g| Plain::new(g)).collect();
        let mut misses = vec![0; levels.len()];
        for (address, bytes) in used {
            hierarchy.access(address, bytes);
            let mut bytes_lines: Vec<_> = (address..address + bytes).map(|b| b / 64).collect();
            bytes_lines.dedup();
            for line in bytes_lines {
                for (level, misses) in plain.iter_mut().zip(&mut misses) {
                    if level.hits(line) {
                        break;
                    }
                    *misses += 1;
                }
            }
        }
        prop_assert_eq!(hierarchy.take_misses(), misses);
    }
}

#[test]
fn sizes_are_whole_sets_and_sysfs_is_read() {
    for (bytes, associativity) in [(0, 8), (32 << 10, 0), (100, 1), (64, u64::MAX)] {
        assert!(Geometry::new(bytes, associativity).is_err(), "{bytes} {associativity}");
    }
    let folder = std::env::temp_dir().join(format!("rankway-sysfs-{}", std::process::id()));
    let all = [
        ("2", "Unified", "1024K", "8"),
        ("1", "Data", "48K", "12"),
        ("1", "Instruction", "32K", "8"),
    ];
    for (index, (level, kind, size, associativity)) in all.into_iter().enumerate() {
        let index = folder.join(format!("index{index}"));
        std::fs::create_dir_all(&index).unwrap();
        let files = [("level", level), ("type", kind), ("size", size)];
        for (name, text) in files.into_iter().chain([("ways_of_associativity", associativity)]) {
            std::fs::write(index.join(name), format!("{text}\n")).unwrap();
        }
    }
    let found = Geometry::below(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    let want = [Geometry::new(48 << 10, 12).unwrap(), Geometry::new(1 << 20, 8).unwrap()];
    assert_eq!(found, want);
    assert!(Geometry::below(&folder).is_empty());
}

global_asm!(
    ".globl touch_known, touch_copy, touch_push",
    // reads 8 at rdi, 4 at rdi + 4 * rsi, writes 1 at rdx, adds to 8 at rdx + 60;
    // computes an address and prefetches: no access
    ".balign 64",
    ".type touch_known, @function",
    "touch_known: mov rax, [rdi]",
    "mov ecx, [rdi + 4*rsi]",
    "mov byte ptr [rdx], 1",
    "add qword ptr [rdx + 60], 2",
    "lea rax, [rdi + 4096]",
    "prefetcht0 [rdi + 8192]",
    "cmp eax, ecx",
    "cmove ecx, [rdi + 16]",
    "ret",
    ".size touch_known, . - touch_known",
    ".type touch_copy, @function",
    "touch_copy: mov rcx, rdx",
    "rep movsb",
    "rep movsb",
    "ret",
    ".size touch_copy, . - touch_copy",
    ".type touch_push, @function",
    "touch_push: push rbx",
    "sub rsp, 128",
    "mov [rsp], rdi",
    "mov rbx, fs:[0]",
    "add rsp, 128",
    "pop rbx",
    "ret",
    ".size touch_push, . - touch_push",
);

unsafe extern "C" {
    unsafe fn touch_known(read: *const u8, index: usize, write: *mut u8);
    unsafe fn touch_copy(to: *mut u8, from: *const u8, bytes: usize);
    safe fn touch_push(x: u64);
}

#[repr(align(64))]
struct Aligned([u8; 256]);

/// (offset from `base`, bytes, read, written) of each access.
fn seen(trace: &Trace, base: usize) -> Vec<(isize, usize, bool, bool)> {
    let offset = |address: usize| address.wrapping_sub(base) as isize;
    trace.accesses.iter().map(|a| (offset(a.address), a.bytes, a.read, a.write)).collect()
}

#[test]
fn operands_of_each_kind() {
    let read = Aligned([0; 256]);
    let mut write = Aligned([0; 256]);
    let (from, to) = (read.0.as_ptr(), write.0.as_mut_ptr());
    // SAFETY: both hold what the function touches.
    let run = || unsafe { touch_known(from, 25, to) };
    let trace = step::trace(run, touch_known as *const () as usize, Stop::Return).unwrap();
    let at = |offset: usize| (to as usize + offset).wrapping_sub(from as usize) as isize;
    let want = [
        (0, 8, true, false),
        (100, 4, true, false),
        (at(0), 1, false, true),
        (at(60), 8, true, true),
        (16, 4, true, false),
    ];
    assert_eq!(seen(&trace, from as usize), want);
    assert_eq!(trace.accesses.iter().map(|a| a.step).collect::<Vec<_>>(), [0, 1, 2, 3, 7]);
    assert_eq!(trace.arguments[..3], [from as usize, 25, to as usize]);
    assert_eq!(trace.unresolved, 0);
    // Read: two lines of `read`, two of the sum that crosses one. Written: those.
    assert_eq!(lines::of(&trace), Lines { code: 1, read: 4, written: 2, stack: 0 });
    assert_eq!(lines::code_as_placed(&trace), 1);
}

#[test]
fn repeated_and_stack() {
    let from = Aligned([7; 256]);
    let mut to = Aligned([0; 256]);
    let (source, target) = (from.0.as_ptr(), to.0.as_mut_ptr());
    // SAFETY: both hold the bytes.
    let run = || unsafe { touch_copy(target, source, 100) };
    let trace = step::trace(run, touch_copy as *const () as usize, Stop::Return).unwrap();
    assert_eq!(trace.count, 3);
    // (The second copies nothing: its count is 0.)
    assert_eq!(trace.accesses.len(), 200);
    assert!(trace.accesses.iter().all(|a| a.bytes == 1 && a.step == 1));
    assert_eq!(trace.accesses.iter().filter(|a| a.write).count(), 100);
    assert_eq!((lines::of(&trace).read, lines::of(&trace).written), (2, 2));

    let start = touch_push as *const () as usize;
    let trace = step::trace(|| touch_push(1), start, Stop::Return).unwrap();
    let below = seen(&trace, trace.stack);
    assert_eq!((below[0], below[1]), ((-8, 8, false, true), (-136, 8, false, true)));
    assert_eq!(below[3], (-8, 8, true, false));
    // The pushed register in the line of the return address, the store in the
    // third below; one line of thread-local storage.
    assert_eq!(lines::of(&trace), Lines { code: 1, read: 1, written: 0, stack: 2 });
}
