//! Words between the ranks of a job, and whether they are the right ones.

use crate::output::text;
use rankway::msg::{Messenger, wait_all};
use rankway::netmod::in_process::InProcess;

/// Says who sent it and where it belongs; never 0.
pub(crate) fn word(from: u32, place: u32) -> u64 {
    1 << 63 | u64::from(place) << 32 | u64::from(from)
}

pub(crate) fn check(is: bool, what: &str) -> Result<(), String> {
    if is { Ok(()) } else { Err(format!("a {what} is not what it should be")) }
}

/// Receives a word of each of some ranks of the messenger's communicator, by rank and tag, sends
/// one to each of others, and checks that those came which are said.
pub(crate) fn exchange(
    messenger: &Messenger<'_, InProcess>,
    from: impl Iterator<Item = (u32, u32, u64)> + Clone,
    to: impl IntoIterator<Item = (u32, u32, u64)>,
) -> Result<(), String> {
    let out: Vec<(u32, u32, u64)> = to.into_iter().collect();
    let mut got = vec![0_u64; from.clone().count()];
    let mut requests = Vec::with_capacity(got.len() + out.len());
    for ((from, tag, _), got) in from.clone().zip(&mut got) {
        // SAFETY: the word outlives the wait below.
        let receive = unsafe { messenger.irecv(std::ptr::from_mut(got).cast(), 8, from, tag) };
        requests.push(receive.map_err(text)?);
    }
    for (to, tag, word) in &out {
        // SAFETY: the word outlives the wait below.
        let send = unsafe { messenger.isend(std::ptr::from_ref(word).cast(), 8, *to, *tag) };
        requests.push(send.map_err(text)?);
    }
    wait_all(requests).map_err(text)?;
    from.zip(got).try_for_each(|((.., word), got)| check(got == word, "message"))
}
