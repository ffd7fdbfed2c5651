//! Hydra, MPICH's process manager: PMI-1 over an inherited socket.
//!
//! Hydra gives each process a connected socket (`PMI_FD`), its rank and the
//! job's size, and answers one-line commands on it. Keys and values share a
//! line with spaces and `=`, and are short (64 and 1024 bytes), so values go
//! as hex digits in as many pieces as they need. A process must
//! [`finalize`](crate::boot::Boot::finalize) before it exits, or Hydra takes
//! its end for a crash and ends the job.

use super::placement::{Mapping, Placement};
use super::{Boot, BootError, check_rank, kvs, os, sweep};
use std::collections::{HashSet, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Returns true if this process was started by a PMI-1 process manager.
pub fn present() -> bool {
    std::env::var_os("PMI_FD").is_some() && std::env::var_os("PMI_RANK").is_some()
}

/// [`Boot`] of a process started by Hydra's `mpiexec`.
pub struct Pmi1 {
    rank: u32,
    size: u32,
    space: String,
    limits: kvs::Limits,
    nodes: Mapping,
    connection: Mutex<Connection>,
}

/// The socket and what is known about its state.
struct Connection {
    fd: RawFd,
    input: VecDeque<u8>,
    /// `barrier_out` came while another answer was awaited.
    barrier_out: bool,
    /// `barrier_in` is not answered yet.
    fencing: bool,
    published: HashSet<String>,
    finalized: bool,
}

impl Pmi1 {
    /// Greets the process manager.
    ///
    /// # Errors
    /// [`BootError::Launcher`] when the variables or the socket are not what
    /// PMI-1 promises.
    pub fn connect() -> Result<Self, BootError> {
        let fd = variable("PMI_FD")? as RawFd;
        Pmi1::greet(fd, variable("PMI_RANK")?, variable("PMI_SIZE")?)
    }

    fn greet(fd: RawFd, rank: u32, size: u32) -> Result<Self, BootError> {
        if rank >= size {
            return Err(refusal("reading PMI_RANK", format!("rank {rank} of {size} ranks")));
        }
        let mut connection = Connection {
            fd,
            input: VecDeque::new(),
            barrier_out: false,
            fencing: false,
            published: HashSet::new(),
            finalized: false,
        };
        connection.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?.check()?;
        let limits = connection.ask("cmd=get_maxes", "maxes")?;
        let limit = |name: &str, least: usize| {
            limits.field(name).and_then(|text| text.parse().ok()).unwrap_or(least)
        };
        let (key_limit, value_limit) = (limit("keylen_max", 64), limit("vallen_max", 256));
        let answer = connection.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = answer.field("kvsname").map(str::to_string);
        let space = space.ok_or_else(|| answer.refused("no kvsname in the answer"))?;
        let query = format!("cmd=get kvsname={space} key=PMI_process_mapping");
        let answer = connection.ask(&query, "get_result")?;
        let mapping = answer.field("value").and_then(|text| Mapping::parse(text, size));
        let nodes = mapping.ok_or_else(|| answer.refused("no usable PMI_process_mapping"))?;
        // Process managers read lines of 1024 bytes.
        let piece = value_limit.min(1000 - space.len().min(600) - 120).saturating_sub(24).max(1);
        let limits = kvs::Limits { key: key_limit, piece };
        Ok(Pmi1 { rank, size, space, limits, nodes, connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Boot for Pmi1 {
    fn launcher(&self) -> &'static str {
        "pmi1"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    /// From the name of the key-value space, which holds mpiexec's pid and a
    /// random number.
    fn job(&self) -> u64 {
        kvs::job_of(&self.space)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        let mut connection = self.connection();
        connection.check_open("put")?;
        if !connection.published.insert(key.to_string()) {
            return Err(BootError::Twice { key: key.into() });
        }
        self.limits.put(self.rank, key, value, |name, piece| {
            let command = format!("cmd=put kvsname={} key={name} value={piece}", self.space);
            connection.ask(&command, "put_result")?.check()
        })
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        const EAGER: u32 = 20;
        const NAP: Duration = Duration::from_millis(1);
        let timeout = os::timeout();
        let start = Instant::now();
        {
            let mut connection = self.connection();
            connection.check_open("fence")?;
            // One that was given up is gone on with: nobody counts twice for one fence.
            if !connection.fencing {
                connection.barrier_out = false;
                connection.send("cmd=barrier_in")?;
                connection.fencing = true;
            }
        }
        for round in 0u32.. {
            // The lock is free while idle runs, which may want a value.
            {
                let mut connection = self.connection();
                let nap = if round < EAGER { Duration::ZERO } else { NAP };
                if !connection.barrier_out
                    && let Some(answer) = connection.line(Some(nap))?
                    && !connection.note_barrier(&answer)
                {
                    return Err(answer.refused("barrier_out was due"));
                }
                if connection.barrier_out {
                    (connection.barrier_out, connection.fencing) = (false, false);
                    return Ok(());
                }
            }
            idle();
            if start.elapsed() > timeout {
                // PMI-1 does not say who is missing.
                return Err(BootError::TimedOut {
                    what: "fence under mpiexec".into(),
                    missing: Vec::new(),
                    seconds: timeout.as_secs(),
                });
            }
        }
        unreachable!("the loop above only ends by returning")
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, self.size)?;
        let mut connection = self.connection();
        connection.check_open("get")?;
        let ask = |name: &str| {
            let command = format!("cmd=get kvsname={} key={name}", self.space);
            let answer = connection.ask(&command, "get_result")?;
            if answer.field("rc") != Some("0") {
                return Err(BootError::NotPublished { rank, key: key.into() });
            }
            Ok(answer.field("value").unwrap_or_default().to_string())
        };
        let wrong = |why: &str| refusal(&format!("getting {key} of rank {rank}"), why.into());
        self.limits.get(rank, key, ask, wrong)
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, self.size)?;
        Ok(self.nodes.node_of(rank))
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(self.rank, code, reason);
        // Hydra drops output it has not forwarded when it ends a job.
        std::thread::sleep(Duration::from_millis(200));
        let _ = self.connection().send(&format!("cmd=abort exitcode={code}"));
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        let mut connection = self.connection();
        if std::mem::replace(&mut connection.finalized, true) {
            return Ok(());
        }
        sweep::sweep_process(std::process::id(), self.job());
        connection.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    fn placement(&self) -> Result<Placement, BootError> {
        Ok(self.nodes.dealt().map_or(Placement::Listed, Placement::Dealt))
    }

    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(self.nodes.is_one_node())
    }
}

impl Connection {
    fn check_open(&self, what: &'static str) -> Result<(), BootError> {
        if self.finalized { Err(BootError::Finalized { what }) } else { Ok(()) }
    }

    /// Sends `command` and waits for the answer named `expected`.
    fn ask(&mut self, command: &str, expected: &str) -> Result<Answer, BootError> {
        self.send(command)?;
        loop {
            let Some(mut answer) = self.line(None)? else { continue };
            if self.note_barrier(&answer) {
                continue;
            }
            answer.command = command.to_string();
            if answer.field("cmd") != Some(expected) {
                return Err(answer.refused(&format!("{expected} was due")));
            }
            return Ok(answer);
        }
    }

    fn note_barrier(&mut self, answer: &Answer) -> bool {
        let out = answer.field("cmd") == Some("barrier_out");
        self.barrier_out |= out;
        out
    }

    fn send(&mut self, command: &str) -> Result<(), BootError> {
        let line = format!("{command}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            // SAFETY: pointer and length describe the live `rest`.
            let sent = unsafe {
                libc::send(self.fd, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL)
            };
            if sent >= 0 {
                rest = &rest[sent as usize..];
                continue;
            }
            let error = std::io::Error::last_os_error();
            match error.kind() {
                std::io::ErrorKind::Interrupted => {}
                std::io::ErrorKind::WouldBlock => self.poll(libc::POLLOUT, None)?,
                _ => return Err(refusal(command, format!("PMI_FD {}: {error}", self.fd))),
            }
        }
        Ok(())
    }

    /// The next line, waiting at most `limit`; `None` when it is not whole yet.
    fn line(&mut self, limit: Option<Duration>) -> Result<Option<Answer>, BootError> {
        loop {
            if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
                let bytes: Vec<u8> = self.input.drain(..=end).collect();
                let text = String::from_utf8_lossy(&bytes).trim_end().to_string();
                return Ok(Some(Answer { command: String::new(), text }));
            }
            let mut entry = [libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 }];
            let ready = os::poll(&mut entry, limit.unwrap_or(Duration::from_secs(1)));
            let ready = ready.map_err(|error| refusal("waiting for an answer", error.to_string()));
            if ready? == 0 {
                return Ok(None);
            }
            let mut buffer = [0u8; 4096];
            // SAFETY: pointer and length describe the live local buffer.
            let got = unsafe { libc::read(self.fd, buffer.as_mut_ptr().cast(), buffer.len()) };
            if got > 0 {
                self.input.extend(&buffer[..got as usize]);
                continue;
            }
            let error = std::io::Error::last_os_error();
            if got == 0 {
                return Err(refusal("reading PMI_FD", "mpiexec closed the connection".into()));
            }
            let again = [std::io::ErrorKind::Interrupted, std::io::ErrorKind::WouldBlock];
            if !again.contains(&error.kind()) {
                return Err(refusal("reading PMI_FD", error.to_string()));
            }
        }
    }

    fn poll(&self, events: i16, limit: Option<Duration>) -> Result<(), BootError> {
        let mut entry = [libc::pollfd { fd: self.fd, events, revents: 0 }];
        os::poll(&mut entry, limit.unwrap_or(Duration::from_secs(1)))
            .map(drop)
            .map_err(|error| refusal("waiting for PMI_FD", error.to_string()))
    }
}

/// One line of `name=value` fields.
struct Answer {
    command: String,
    text: String,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.text.split_ascii_whitespace().filter_map(|f| f.split_once('='));
        fields.find_map(|(field, value)| (field == name).then_some(value))
    }

    fn check(&self) -> Result<(), BootError> {
        match self.field("rc") {
            None | Some("0") => Ok(()),
            Some(_) => Err(self.refused("refused")),
        }
    }

    fn refused(&self, what: &str) -> BootError {
        let call = if self.command.is_empty() { "reading PMI_FD" } else { &self.command };
        refusal(call, format!("{what}; the answer was `{}`", self.text))
    }
}

fn refusal(call: &str, why: String) -> BootError {
    BootError::Launcher {
        launcher: "pmi1",
        call: call.into(),
        why,
        hint: "start with MPICH's mpiexec (Hydra), which must outlive the ranks; \
               RANKWAY_BOOT=alone ignores it"
            .into(),
    }
}

fn variable(name: &str) -> Result<u32, BootError> {
    let text = std::env::var(name).unwrap_or_default();
    text.parse().map_err(|_| refusal(&format!("reading {name}"), format!("it is `{text}`")))
}

/// A process manager that says `lines`, whatever it is asked.
#[cfg(fuzzing)]
pub(crate) fn fuzz(lines: &[u8]) {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    let Ok((ours, mut theirs)) = UnixStream::pair() else { return };
    if lines.len() > 32 << 10 || theirs.write_all(lines).is_err() {
        return;
    }
    let _ = theirs.shutdown(std::net::Shutdown::Write);
    let Ok(boot) = Pmi1::greet(ours.as_raw_fd(), 1, 5) else { return };
    for rank in 0..5 {
        assert!(boot.node_of(rank).is_ok_and(|node| node < 5));
    }
    let _ = boot.put("key", &[7; 500]);
    let _ = boot.get(2, "key");
    let _ = boot.fence(&mut || {});
    let _ = boot.get(0, "another key");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Hydra's place says, and then closes.
    fn greeted(maxes: &str, mapping: &str, value: &str) -> Result<Vec<u8>, BootError> {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let lines = format!(
            "cmd=response_to_init rc=0\ncmd=maxes {maxes}\ncmd=my_kvsname kvsname=k\n\
             cmd=get_result rc=0 value={mapping}\ncmd=get_result rc=0 value={value}\n"
        );
        theirs.write_all(lines.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let boot = Pmi1::greet(ours.as_raw_fd(), 1, 3)?;
        assert!((0..3).all(|rank| boot.node_of(rank).unwrap() < 3));
        boot.get(2, "key")
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_not_computed_with() {
        let mapping = "(vector,(0,3,1))";
        assert_eq!(greeted("vallen_max=1024", mapping, "2.0a0b").unwrap(), [10, 11]);
        // Too short for a piece, longer than memory, more ranks than numbers.
        assert_eq!(greeted("vallen_max=3", mapping, "1.ff").unwrap(), [255]);
        for length in [u64::MAX, u64::MAX / 2, 1 << 63] {
            let refused = greeted("", mapping, &format!("{length}.00"));
            assert!(matches!(refused, Err(BootError::Launcher { .. })), "{refused:?}");
        }
        let most = u32::MAX;
        let many = format!("(vector,(0,{most},{most}),(0,{most},{most}))");
        assert_eq!(greeted("", &many, "1.ff").unwrap(), [255]);
    }
}
