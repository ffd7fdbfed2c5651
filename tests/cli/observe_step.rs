//! Instruction counts of assembly whose length is known.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use std::arch::{asm, global_asm};
use std::hint::black_box;
use std::time::Duration;

use rankway_cli::observe::step::{self, Limits, Region, StepError, Stop};

global_asm!(
    ".globl known_five, known_five_mid, known_loop, known_call, known_copy, known_tail",
    ".globl known_big_ret, known_spin, known_fault, known_syscall, known_recursive",
    // 5 instructions and ret
    ".type known_five, @function",
    "known_five: mov eax, edi",
    "add eax, 1",
    "known_five_mid: add eax, 2",
    "lea eax, [rax + 4]",
    "xor eax, 0",
    "ret",
    ".size known_five, . - known_five",
    // 1 + 3 * edi instructions and ret
    ".type known_loop, @function",
    "known_loop: xor eax, eax",
    "2: add eax, 3",
    "dec edi",
    "jnz 2b",
    "ret",
    ".size known_loop, . - known_loop",
    // 1 + call + (5 + ret) + 1 = 9 and ret
    ".type known_call, @function",
    "known_call: sub rsp, 8",
    "call known_five",
    "add rsp, 8",
    "ret",
    ".size known_call, . - known_call",
    // mov, rep movsb = 2 and ret
    ".type known_copy, @function",
    "known_copy: mov rcx, rdx",
    "rep movsb",
    "ret",
    ".size known_copy, . - known_copy",
    // jmp + 5 and the other function's ret
    "known_tail: jmp known_five",
    // nop and ret 16
    "known_big_ret: nop",
    "ret 16",
    "known_spin: jmp known_spin",
    "known_fault: xor eax, eax",
    "mov eax, [rax]",
    "ret",
    // getppid = mov, syscall and ret
    "known_syscall: mov eax, 110",
    "syscall",
    "ret",
    // edi > 0: test, jz, dec, call, [inner], ret: 5 a level; last: test, jz
    ".type known_recursive, @function",
    "known_recursive: test edi, edi",
    "jz 3f",
    "dec edi",
    "call known_recursive",
    "3: ret",
    ".size known_recursive, . - known_recursive",
);

unsafe extern "C" {
    safe fn known_five(x: u32) -> u32;
    safe fn known_five_mid();
    safe fn known_loop(times: u32) -> u32;
    safe fn known_call(x: u32) -> u32;
    unsafe fn known_copy(to: *mut u8, from: *const u8, bytes: usize);
    safe fn known_tail(x: u32) -> u32;
    safe fn known_big_ret();
    safe fn known_spin();
    safe fn known_fault();
    safe fn known_syscall() -> i32;
    safe fn known_recursive(depth: u32);
}

/// Makes the compiler keep a call.
fn ignore<T>(value: T) {
    black_box(value);
}

fn five() -> usize {
    known_five as *const () as usize
}

#[test]
fn straight_line() {
    let trace = step::trace(|| ignore(known_five(1)), five(), Stop::Return).unwrap();
    assert_eq!(trace.count, 5);
    assert_eq!(trace.steps.len(), 5);
    assert_eq!(trace.steps[0], five());
    assert_eq!(trace.code[&trace.steps[0]][..2], [0x89, 0xf8], "mov eax, edi");
    assert!(trace.modules.iter().any(|m| (m.start..m.end).contains(&trace.end)));
}

#[test]
fn start_and_reach_anywhere() {
    let mid = known_five_mid as *const () as usize;
    let run = || ignore(known_five(1));
    assert_eq!(step::trace(run, five(), Stop::At(mid)).unwrap().count, 2);
    let trace = Region::between(mid, mid + 3).trace(run).unwrap();
    assert_eq!((trace.count, trace.end), (1, mid + 3));
}

#[test]
fn a_loop() {
    let start = known_loop as *const () as usize;
    for times in [1, 7, 1000] {
        let run = || ignore(known_loop(times));
        let count = step::trace(run, start, Stop::Return).unwrap().count;
        assert_eq!(count, 1 + 3 * times as usize);
    }
}

#[test]
fn calls_tail_calls_recursion() {
    let count = |start: usize, run: fn()| step::trace(run, start, Stop::Return).unwrap().count;
    assert_eq!(count(known_call as *const () as usize, || ignore(known_call(1))), 9);
    assert_eq!(count(known_tail as *const () as usize, || ignore(known_tail(1))), 6);
    let recursive = known_recursive as *const () as usize;
    assert_eq!(count(recursive, || known_recursive(0)), 2);
    assert_eq!(count(recursive, || known_recursive(3)), 3 * 5 + 2);
}

#[test]
fn inner_function_through_outer() {
    let trace = step::trace(|| ignore(known_call(1)), five(), Stop::Return).unwrap();
    assert_eq!(trace.count, 5);
    let outer = known_call as *const () as usize;
    let run = || ignore(known_call(1));
    assert_eq!(step::trace(run, outer, Stop::At(five())).unwrap().count, 2);
}

#[test]
fn rep_counts_once() {
    let start = known_copy as *const () as usize;
    for bytes in [0, 1, 300] {
        let run = || {
            let (mut to, from) = ([0u8; 300], [7u8; 300]);
            // SAFETY: both arrays hold 300 bytes.
            unsafe { known_copy(to.as_mut_ptr(), from.as_ptr(), bytes) };
            assert!(black_box(to)[..bytes].iter().all(|&byte| byte == 7));
        };
        let trace = step::trace(run, start, Stop::Return).unwrap();
        assert_eq!(trace.count, 2, "{bytes} bytes");
    }
}

#[test]
fn ret_that_pops() {
    // The callee removes 16 bytes of arguments.
    let run = || {
        // SAFETY: pushes what `ret 16` pops; known_big_ret touches nothing.
        unsafe {
            asm!(
                "sub rsp, 16",
                "call {f}",
                f = sym known_big_ret,
                clobber_abi("C"),
            );
        }
    };
    let start = known_big_ret as *const () as usize;
    assert_eq!(step::trace(run, start, Stop::Return).unwrap().count, 1);
}

#[test]
fn a_system_call_is_one() {
    let run = || ignore(known_syscall());
    let start = known_syscall as *const () as usize;
    assert_eq!(step::trace(run, start, Stop::Return).unwrap().count, 2);
}

#[test]
fn the_nth_passage() {
    let start = known_loop as *const () as usize;
    let run = || (1..=5).for_each(|times| ignore(known_loop(times)));
    for nth in 1..=5 {
        let trace = Region::function(start).nth(nth).trace(run).unwrap();
        assert_eq!(trace.count, 1 + 3 * nth as usize);
    }
    let error = Region::function(start).nth(6).trace(run).unwrap_err();
    assert!(matches!(error, StepError::NeverReached { nth: 6, hits: 5, .. }), "{error}");
}

#[test]
fn same_count_every_time() {
    let counts: Vec<usize> = (0..5)
        .map(|_| {
            let run = || ignore(format!("{:.3}", black_box(1.5f64)));
            let start = known_five as *const () as usize;
            let both = || (run(), black_box(known_call(3)), run());
            step::trace(|| ignore(both()), start, Stop::Return).unwrap().count
        })
        .collect();
    assert_eq!(counts, [5; 5]);
}

#[test]
fn several_regions_in_one_child() {
    let traces = step::session(Limits::default(), |marker| {
        for times in [2, 4] {
            marker.count(Region::function(known_loop as *const () as usize));
            black_box(known_loop(times));
        }
        marker.count(Region::function(five()).nth(2));
        black_box((known_five(1), known_call(2)));
        Ok(())
    })
    .unwrap();
    let counts: Vec<usize> = traces.iter().map(|trace| trace.count).collect();
    assert_eq!(counts, [7, 13, 5]);
}

#[test]
fn code_that_only_the_child_mapped() {
    // A library opened by the child alone: here, code copied to fresh memory.
    let traces = step::session(Limits::default(), |marker| {
        // SAFETY: a private page, filled before it is called, with a copy of
        // known_five, which is position independent and 16 bytes at most.
        let copy = unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if page == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error().to_string());
            }
            std::ptr::copy_nonoverlapping(five() as *const u8, page.cast(), 16);
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(u32) -> u32>(page)
        };
        marker.count(Region::function(copy as *const () as usize));
        if copy(1) == 8 { Ok(()) } else { Err("the copy does not compute".into()) }
    })
    .unwrap();
    assert_eq!(traces[0].count, 5);
}

#[test]
fn never_reached_is_an_error() {
    let error = step::trace(|| {}, five(), Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::NeverReached { hits: 0, .. }), "{error}");
}

#[test]
fn a_stop_that_is_never_reached() {
    let limits = Limits { max_steps: 200, ..Limits::default() };
    let error = step::session(limits, |marker| {
        marker.count(Region::between(known_spin as *const () as usize, five()));
        known_spin();
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(error, StepError::TooLong { steps: 200, .. }), "{error}");
}

#[test]
fn a_child_that_hangs_is_ended() {
    let limits = Limits { timeout: Duration::from_millis(100), ..Limits::default() };
    let error = step::session(limits, |marker| {
        marker.count(Region::function(five()));
        known_spin();
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(error, StepError::TimedOut(_)), "{error}");

    // Also one that ignores the polite request.
    let error = step::session(limits, |_| {
        // SAFETY: ignoring a signal in a process of our own.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        known_spin();
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(error, StepError::TimedOut(_)), "{error}");
}

#[test]
fn death_panic_exit_and_refusal_are_told_apart() {
    let start = known_fault as *const () as usize;
    let error = step::trace(|| known_fault(), start, Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::Left { steps: 1, .. }), "{error}");
    assert!(error.to_string().contains("SIGSEGV"), "{error}");

    let error = step::trace(|| known_fault(), five(), Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::Died { signal: libc::SIGSEGV }), "{error}");

    let error = step::session(Limits::default(), |_| Err("no such provider".into())).unwrap_err();
    assert_eq!(error.to_string(), "no such provider");

    let quiet = || {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("told so")
    };
    let error = step::trace(quiet, five(), Stop::Return).unwrap_err();
    assert!(matches!(&error, StepError::Panicked(text) if text == "told so"), "{error}");

    // SAFETY: ends the child only.
    let error = step::trace(|| unsafe { libc::_exit(3) }, five(), Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::Exited(3)), "{error}");

    let error = step::trace(|| {}, 16, Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::Breakpoint { start: 16, .. }), "{error}");
}

#[test]
fn another_thread_is_an_error() {
    let run = || ignore(std::thread::spawn(|| known_five(1)).join());
    let error = step::trace(run, five(), Stop::Return).unwrap_err();
    assert!(matches!(error, StepError::Died { signal: libc::SIGTRAP }), "{error}");
}

#[test]
fn being_traced_already_is_refused() {
    // Inside a session the child is traced: a session within is not refused
    // (its child is another process), but PTRACE_TRACEME a second time is.
    let traces = step::session(Limits::default(), |marker| {
        // SAFETY: no pointers.
        let again = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        if again != -1 {
            return Err("traced twice".into());
        }
        marker.count(Region::function(five()));
        black_box(known_five(1));
        Ok(())
    })
    .unwrap();
    assert_eq!(traces[0].count, 5);
}

#[test]
fn signals_reach_the_child_and_not_the_count() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SEEN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn note(_: libc::c_int) {
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    let traces = step::session(Limits::default(), |marker| {
        // SAFETY: the handler only touches an atomic; the timer is the child's.
        unsafe {
            libc::signal(libc::SIGALRM, note as *const () as usize);
            let every = libc::timeval { tv_sec: 0, tv_usec: 2000 };
            let timer = libc::itimerval { it_interval: every, it_value: every };
            libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
        }
        marker.count(Region::function(known_loop as *const () as usize).nth(3));
        for _ in 0..3 {
            black_box(known_loop(2000));
        }
        while SEEN.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(traces[0].count, 1 + 3 * 2000);
}

#[test]
fn a_region_inside_a_region() {
    let traces = step::session(Limits::default(), |marker| {
        let f: &dyn Fn() = &|| marker.count(Region::function(five()));
        marker.count(Region::function(call_me as *const () as usize));
        call_me(f);
        Ok(())
    });
    let error = traces.unwrap_err();
    assert!(matches!(error, StepError::Nested { .. }), "{error}");
}

#[inline(never)]
fn call_me(f: &dyn Fn()) {
    f();
    black_box(f);
}

/// As in a container without the right to trace.
#[test]
fn refused_by_a_sandbox() {
    let in_sandbox = || {
        // A seccomp filter of this thread alone; the forked child inherits it.
        const LOAD_CALL: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS, at 0: the number
        const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
        const RETURN: u16 = 0x06; // BPF_RET | BPF_K
        const ALLOW: u32 = 0x7fff_0000;
        const FAIL_WITH: u32 = 0x0005_0000;
        let rule = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut rules = [
            rule(LOAD_CALL, 0, 0, 0),
            rule(JUMP_EQUAL, 0, 1, libc::SYS_ptrace as u32),
            rule(RETURN, 0, 0, FAIL_WITH | libc::EPERM as u32),
            rule(RETURN, 0, 0, ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: rules.as_mut_ptr() };
        // SAFETY: the program outlives the call, which copies it.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        set.then(|| step::trace(|| ignore(known_five(1)), five(), Stop::Return).unwrap_err())
    };
    let Some(error) = std::thread::spawn(in_sandbox).join().unwrap() else {
        println!("no seccomp here, nothing to test");
        return;
    };
    assert!(matches!(error, StepError::Refused(_)), "{error}");
    assert!(error.to_string().contains("SYS_PTRACE"), "{error}");
}

#[test]
fn a_listing() {
    use rankway_cli::observe::disasm::{Style, lines, listing};
    let start = known_recursive as *const () as usize;
    let trace = step::trace(|| known_recursive(1), start, Stop::Return).unwrap();
    let text = listing(&trace, Style::default());
    let want = "\
known_recursive:
    1  +0x0  test %edi,%edi
    2  +0x2  je known_recursive+0xb  not taken
    3  +0x4  dec %edi
    4  +0x6  call known_recursive
known_recursive:
    5  +0x0  test %edi,%edi
    6  +0x2  je known_recursive+0xb  taken
    7  +0xb  ret
";
    assert_eq!(text, want, "\n{text}");
    assert_eq!(lines(&trace)[0].bytes, [0x85, 0xff]);

    let trace =
        step::trace(|| ignore(known_call(1)), known_call as *const () as usize, Stop::Return)
            .unwrap();
    let text = listing(&trace, Style { bytes: true, limit: 4 });
    assert!(text.contains("... 5 instructions left out ...\nknown_five+0xe:\n"), "{text}");
    assert!(text.contains("48 83 ec 08"), "{text}");
    assert!(text.ends_with("add $8,%rsp\n"), "{text}");
}

/// A library that only the child opens, after all its providers are up.
#[test]
fn libfabric_opened_in_the_child() {
    type Version = unsafe extern "C" fn() -> u32;
    type GetInfo = unsafe extern "C" fn(u32, usize, usize, u64, usize, *mut usize) -> i32;
    let result = step::session(Limits::default(), |marker| {
        // SAFETY: the symbols have these signatures in libfabric 1.x and 2.x;
        // fi_getinfo takes null for "anything" and fills the list, which is
        // left to the end of the process.
        unsafe {
            let library = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return Err("no libfabric".into());
            }
            let version = libc::dlsym(library, c"fi_version".as_ptr());
            let get_info = libc::dlsym(library, c"fi_getinfo".as_ptr());
            let version = std::mem::transmute::<*mut libc::c_void, Version>(version);
            let get_info = std::mem::transmute::<*mut libc::c_void, GetInfo>(get_info);
            let mut list = 0;
            get_info(version(), 0, 0, 0, 0, &mut list);
            marker.count(Region::function(version as *const () as usize));
            ignore(version());
        }
        Ok(())
    });
    match result {
        Err(StepError::Closure(why)) => println!("{why}, nothing to test"),
        Err(error) => panic!("{error}"),
        Ok(traces) => {
            assert!((1..20).contains(&traces[0].count), "{:?}", traces[0]);
            let mut symbols = rankway_cli::observe::symbols::Symbols::new(&traces[0].modules);
            let name = symbols.name(traces[0].steps[0]).unwrap();
            assert!(name.function.starts_with("fi_version"), "{name:?}");
        }
    }
}

/// Steps per second, for choosing limits: `--ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let begin = std::time::Instant::now();
    let run = || ignore(known_loop(50_000));
    let count =
        step::trace(run, known_loop as *const () as usize, Stop::Return).unwrap().count as f64;
    println!("{:.0} steps a second", count / begin.elapsed().as_secs_f64());
}
