//! Tests of several processes, without helper binaries: the test program runs
//! itself again, told by an environment variable which part to play.

// Every test program uses a part of this.
#![allow(dead_code, unreachable_pub, unused_imports)]

mod networks;
mod processes;

pub use networks::{Far, cannot_join, cut, join};
pub use processes::{alive, die, interruptible};
use rankway::boot::local::{self, Options, Outcome};
use rankway::boot::{Boot, Control, Group};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PART: &str = "RANKWAY_TEST_PART";

/// Called before `main`, where the main thread is still the only one: the
/// test harness runs every test in a thread, and ranks are forked only from
/// a process without threads. Does nothing unless this process was started to
/// play a part.
pub fn play_part(part: fn(&str)) {
    let Ok(name) = std::env::var(PART) else { return };
    let played = std::panic::catch_unwind(|| part(&name));
    std::process::exit(if played.is_ok() { 0 } else { 101 });
}

/// Has `$part`, a `fn(&str)`, play parts before the harness starts.
macro_rules! plays {
    ($part:path) => {
        extern "C" fn before_main() {
            parts::play_part($part);
        }
        #[used]
        #[unsafe(link_section = ".init_array")]
        static BEFORE_MAIN: extern "C" fn() = before_main;
    };
}
pub(crate) use plays;

/// A test for each part that must succeed on its own.
#[allow(unused_macros, reason = "each test binary uses its part")]
macro_rules! parts {
    ($($test:ident $part:literal)*) => { $(
        #[test]
        fn $test() {
            must_succeed(play($part));
        }
    )* };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use parts;

/// This program again, in the part `part`.
pub fn play(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PART, part).env("RANKWAY_TIMEOUT", "60");
    command
}

/// Arguments for a launcher to start this program in the part `part`.
pub fn play_under(launcher: &str, arguments: &[&str], part: &str) -> Command {
    let mut command = Command::new(launcher);
    command.args(arguments).arg(std::env::current_exe().unwrap());
    command.env(PART, part).env("RANKWAY_TIMEOUT", "60").env("TERM", "dumb");
    command
}

/// Runs to the end, at most a minute; panics with the output unless it succeeds.
pub fn must_succeed(mut command: Command) -> String {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    let text = all_output(&output);
    assert!(output.status.success(), "{:?}\n{text}", output.status);
    text
}

pub fn all_output(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The child's output; kills it when it hangs.
pub fn finish(child: Child) -> Output {
    let pid = child.id() as libc::pid_t;
    let (done, timer) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if timer.recv_timeout(Duration::from_secs(90))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            // SAFETY: kill takes two integers; the child is not reaped yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    guard.join().unwrap();
    output
}

/// Forks so many ranks, each of which returns from `f` or panics.
pub fn run(ranks: u32, f: impl FnOnce(Arc<dyn Boot>)) -> Outcome {
    local::run(&Options::new(ranks), |boot| {
        f(boot);
        0
    })
    .unwrap()
}

/// The same, where all of them must return.
pub fn all_succeed(ranks: u32, f: impl FnOnce(Arc<dyn Boot>)) {
    let outcome = run(ranks, f);
    assert!(outcome.success(), "{outcome:?}");
}

/// The set-up channel, once all ranks have opened it.
pub fn open(boot: &Arc<dyn Boot>) -> Control {
    let control = Control::open(boot.clone()).unwrap();
    boot.fence(&mut || ()).unwrap();
    control
}

/// What is done while a collective waits: nothing.
pub fn ok() -> Result<bool, String> {
    Ok(false)
}

/// Polls until `condition`, at most `seconds`.
pub fn eventually(seconds: u64, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}

/// Names in /dev/shm for which `wanted` holds.
pub fn segments(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = processes::leftovers();
    names.retain(|name| wanted(name));
    names
}

/// Any list of world ranks as a group.
pub struct List {
    pub ranks: Vec<u32>,
    pub me: u32,
}

impl List {
    /// `None` for those who are not in it.
    pub fn new(ranks: impl IntoIterator<Item = u32>, world_rank: u32) -> Option<Self> {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        let me = ranks.iter().position(|&rank| rank == world_rank)? as u32;
        Some(List { ranks, me })
    }
}

impl Group for List {
    fn len(&self) -> u32 {
        self.ranks.len() as u32
    }
    fn me(&self) -> u32 {
        self.me
    }
    fn world_rank(&self, rank: u32) -> u32 {
        self.ranks[rank as usize]
    }
}

/// A list that goes by a name, as communicators do.
pub struct Named {
    pub list: List,
    pub name: u64,
}

impl Group for Named {
    fn len(&self) -> u32 {
        self.list.len()
    }
    fn me(&self) -> u32 {
        self.list.me()
    }
    fn world_rank(&self, rank: u32) -> u32 {
        self.list.world_rank(rank)
    }
    fn name(&self) -> Option<u64> {
        Some(self.name)
    }
}

/// Bytes that tell rank and round and differ in length.
pub fn sample(rank: u32, round: u32) -> Vec<u8> {
    let length = (rank as usize * 37 + round as usize * 11) % 300;
    (0..length).map(|i| (i as u32 ^ rank ^ (round << 4)) as u8).collect()
}

/// Returns true if this machine has an address besides the loopback.
pub fn has_network() -> bool {
    std::fs::read_dir("/sys/class/net").is_ok_and(|mut nets| {
        nets.any(|net| {
            let state = net.map(|net| std::fs::read_to_string(net.path().join("operstate")));
            matches!(state, Ok(Ok(state)) if state.trim() == "up")
        })
    })
}
