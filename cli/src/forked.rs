//! One answer out of a job of forked processes.

use rankway::boot::{Boot, local};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// What a rank tells the process that prints.
#[derive(Serialize, Deserialize)]
enum Message<S, T> {
    Step(S),
    Done(T),
    Failed(String),
}

/// Longer than any message.
const LONGEST: usize = 1 << 20;

/// Runs `body` in every rank of a forked job and hears what one of them answers
/// with `Some`, or why it failed; `name` stands before errors. What ranks tell
/// meanwhile, through the function they are given, goes to `step`.
pub(crate) fn answer<S, T>(
    name: &str,
    options: &local::Options,
    body: impl Fn(Arc<dyn Boot>, &mut dyn FnMut(S)) -> Result<Option<T>, String>,
    mut step: impl FnMut(S),
) -> Result<T, String>
where
    S: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
{
    let (mut read, write) = messages().map_err(|e| e.to_string())?;
    let writer = write.try_clone().map_err(|e| e.to_string())?;
    let job = local::spawn(options, |boot| {
        let tell = |message: &Message<S, T>| {
            let text = serde_json::to_vec(message).unwrap_or_default();
            let _ = (&writer).write_all(&text);
        };
        match body(boot, &mut |step| tell(&Message::Step(step))) {
            Ok(None) => return 0,
            Ok(Some(answer)) => tell(&Message::Done(answer)),
            Err(why) => {
                tell(&Message::Failed(why));
                return 1;
            }
        }
        0
    })
    .map_err(|e| e.to_string())?;
    drop((write, writer));
    let (mut done, mut failures) = (None, Vec::new());
    let mut text = vec![0; LONGEST];
    loop {
        let len = read.read(&mut text).map_err(|e| e.to_string())?;
        if len == 0 {
            break;
        }
        match serde_json::from_slice(&text[..len]) {
            Ok(Message::Step(one)) => step(one),
            Ok(Message::Done(answer)) => done = Some(answer),
            Ok(Message::Failed(why)) => failures.push(why),
            Err(e) => failures.push(format!("a rank's answer cannot be read: {e}")),
        }
    }
    let outcome = job.wait().map_err(|e| e.to_string())?;
    let ended = || match outcome.first_failure() {
        Some((rank, exit)) => format!("rank {rank} ended with {exit:?}{}", limit_of_memory()),
        None => "the measuring processes ended without a word".into(),
    };
    // The first to fail knows why; others saw that it left.
    let knows = failures.iter().position(|why| !why.contains("left in good order"));
    match (done, failures.is_empty() && outcome.first_failure().is_none()) {
        (Some(answer), true) => Ok(answer),
        _ if failures.is_empty() => Err(format!("{name}: {}", ended())),
        _ => Err(format!("{name}: {}", failures[knows.unwrap_or(0)])),
    }
}

/// What a process that ended without a word may have lacked: nothing that a crash
/// within a library says of memory reaches its own error.
fn limit_of_memory() -> String {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: a structure of ours, which the call fills.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        return String::new();
    }
    let kib = limit.rlim_cur >> 10;
    format!("; a process may map {kib} KiB here: if that was too little, raise `ulimit -v`")
}

/// Two ends that keep messages apart, however many processes write at once.
fn messages() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors are written into an array of two.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((read.into(), write.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_several_writers_stay_whole() {
        let (mut read, write) = messages().expect("a socket pair");
        let writers: Vec<_> = (1..=3_u8)
            .map(|n| {
                let mut write = write.try_clone().expect("a descriptor");
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        write.write_all(&vec![n; 20_000 + n as usize]).expect("space");
                    }
                })
            })
            .collect();
        drop(write);
        let (mut text, mut heard) = (vec![0; LONGEST], 0);
        loop {
            let len = read.read(&mut text).expect("a message");
            if len == 0 {
                break;
            }
            assert!(text[..len].iter().all(|&n| len == 20_000 + n as usize));
            heard += 1;
        }
        assert_eq!(heard, 150);
        writers.into_iter().for_each(|w| w.join().expect("a writer"));
    }
}
