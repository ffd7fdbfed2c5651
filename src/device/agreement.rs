//! What the processes of a node agree on before any of them opens a provider: whether they
//! may attach to each other, and whether the module for the node serves them.
//!
//! Each appends to a file of the job's what it is to the system ([`attach::domain`]), and
//! whether it wants the module; once they met all of them read the same. So one that may
//! not be attached to, is in another container, or was told something else keeps all from it.

use super::DeviceError;
use crate::boot::{AGREEMENT, Boot, segment_prefix};
use crate::shm::attach;
use crate::ulimit;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What all processes of the job on this node found alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    /// Whether they may attach to each other; `None` where nobody knows.
    pub(super) attachable: Option<bool>,
    /// Some of them see other files than the rest, and so no shared memory of theirs.
    pub(super) apart: bool,
    /// All of them want the module for the node.
    pub(super) wanted: bool,
}

impl Agreement {
    /// From the notes of `on_node` processes.
    fn of(notes: &[Note], on_node: u32) -> Agreement {
        let first = notes.first().map_or(0, |note| note.domain);
        let apart = notes.len() < on_node as usize;
        let alike = notes.len() == on_node as usize && notes.iter().all(|n| n.domain == first);
        let attachable = if alike && first == 0 { None } else { Some(alike) };
        Agreement { attachable, apart, wanted: notes.iter().all(|note| note.wanted) }
    }
}

/// What a process tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// [`attach::domain`]; 0 for none.
    domain: u64,
    wanted: bool,
}

impl Note {
    const LEN: usize = 16;

    fn encode(self) -> [u8; Note::LEN] {
        (u128::from(self.domain) << 64 | u128::from(self.wanted)).to_le_bytes()
    }

    fn decode(raw: [u8; Note::LEN]) -> Note {
        let both = u128::from_le_bytes(raw);
        Note { domain: (both >> 64) as u64, wanted: both as u64 == 1 }
    }
}

/// What the `on_node` processes of the job on this node agree on, of which this one wants
/// the module or not. Collective over the job.
///
/// # Errors
/// As [`Boot::meet`].
pub(super) fn reach(boot: &dyn Boot, on_node: u32, wanted: bool) -> Result<Agreement, DeviceError> {
    if boot.size() > 1 && !boot.meets() {
        return Ok(Agreement::default());
    }
    let mine = Note { domain: attach::domain().unwrap_or(0), wanted };
    if boot.size() == 1 {
        return Ok(Agreement::of(&[mine], 1));
    }
    let name = name(boot.job());
    // (The module does without the first, which may be read-only, on all.)
    let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()].map(|at| at.join(&name));
    let mut tried = 0;
    let added = places.iter().find_map(|place| {
        tried += 1;
        note(place, mine).ok()
    });
    let met = boot.meet();
    let all = added.and_then(|mut file| read(&mut file).ok());
    for place in &places[..tried] {
        // (Who is slower has it open.)
        let _ = std::fs::remove_file(place);
    }
    met?;
    Ok(Agreement::of(&all.unwrap_or_default(), on_node))
}

/// The file of this process's next call, whose number is the same on all.
fn name(job: u64) -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("{}{AGREEMENT}{call}", segment_prefix(job))
}

fn note(path: &Path, mine: Note) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    // SAFETY: it only answers who this process is.
    if file.metadata()?.uid() != unsafe { libc::geteuid() } {
        return Err(std::io::Error::other("the file is another user's"));
    }
    ulimit::may_have(file.metadata()?.len() + Note::LEN as u64)?;
    // One call appends it whole.
    file.write_all(&mine.encode())?;
    Ok(file)
}

fn read(file: &mut File) -> std::io::Result<Vec<Note>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let (all, rest) = bytes.as_chunks();
    match rest {
        [] => Ok(all.iter().map(|note| Note::decode(*note)).collect()),
        _ => Err(std::io::Error::other("half a note")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(domain: u64, wanted: bool) -> Note {
        Note { domain, wanted }
    }

    #[test]
    fn one_that_differs_keeps_all_from_it() {
        let of = |notes: &[Note]| Agreement::of(notes, 2);
        let agreement = |attachable, wanted| Agreement { attachable, apart: false, wanted };
        assert_eq!(of(&[is(7, true), is(7, true)]), agreement(Some(true), true));
        assert_eq!(of(&[is(7, true), is(7, false)]), agreement(Some(true), false));
        assert_eq!(of(&[is(7, true), is(8, true)]), agreement(Some(false), true));
        assert_eq!(of(&[is(0, true), is(7, true)]), agreement(Some(false), true));
        for few in [&[is(7, true)][..], &[]] {
            let elsewhere = Agreement { attachable: Some(false), apart: true, wanted: true };
            assert_eq!(of(few), elsewhere);
        }
        assert_eq!(of(&[is(0, true), is(0, true)]).attachable, None);
    }

    #[test]
    fn notes_are_read_by_all_and_nothing_that_is_anothers_is_taken() {
        let place = std::env::temp_dir().join(format!("rankway-agreed-{}", std::process::id()));
        let (path, target) = (place.join("notes"), place.join("target"));
        std::fs::create_dir_all(&place).unwrap();
        let mut first = note(&path, is(7, true)).unwrap();
        let mut second = note(&path, is(0, false)).unwrap();
        let both = [is(7, true), is(0, false)];
        assert_eq!(read(&mut first).unwrap(), both);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut second).unwrap(), both);
        second.write_all(&[1]).unwrap();
        assert!(read(&mut first).is_err());
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(note(&path, both[0]).is_err() && !target.exists());
        assert!(note(&place, both[0]).is_err());
        std::fs::remove_file(&path).unwrap();
        // Another user's, where this one may make such.
        drop(note(&path, both[0]).unwrap());
        if std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_ok() {
            assert!(note(&path, both[0]).is_err());
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
