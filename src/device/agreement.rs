//! Whether the module for the node serves a job that named no provider: found by all
//! processes of a node alike.
//!
//! Each appends to a file of the job's what it is to the system ([`attach::domain`]);
//! once they met all of them read the same. So one that may not be attached to, is in
//! another container, or was told something else keeps all from it.

use super::DeviceError;
use crate::boot::{AGREEMENT, Boot, segment_prefix};
use crate::shm::attach;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns true if this process wants the module, and all `on_node` processes of the
/// job on this node do, met each other and may attach to each other. Collective over the job.
///
/// # Errors
/// As [`Boot::meet`].
pub(super) fn reached(boot: &dyn Boot, on_node: u32, wanted: bool) -> Result<bool, DeviceError> {
    let mine = wanted.then(attach::domain).flatten();
    if boot.size() == 1 {
        return Ok(mine.is_some());
    }
    if !boot.meets() {
        return Ok(false);
    }
    let path = path(boot.job());
    let added = note(&path, mine.unwrap_or(0));
    let met = boot.meet();
    let all = added.and_then(|mut file| read(&mut file));
    // (Who is slower has it open.)
    let _ = std::fs::remove_file(&path);
    met?;
    Ok(all.is_ok_and(|all| all.len() == on_node as usize && all.iter().all(|&d| Some(d) == mine)))
}

/// The file of this process's next call, whose number is the same on all.
fn path(job: u64) -> PathBuf {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    Path::new("/dev/shm").join(format!("{}{AGREEMENT}{call}", segment_prefix(job)))
}

fn note(path: &Path, mine: u64) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    // SAFETY: it only answers who this process is.
    if file.metadata()?.uid() != unsafe { libc::geteuid() } {
        return Err(std::io::Error::other("the file is another user's"));
    }
    // One call appends it whole.
    file.write_all(&mine.to_le_bytes())?;
    Ok(file)
}

fn read(file: &mut File) -> std::io::Result<Vec<u64>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let (all, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(all.iter().map(|note| u64::from_le_bytes(*note)).collect()),
        _ => Err(std::io::Error::other("half a note")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_by_all_and_nothing_that_is_anothers_is_taken() {
        let place = std::env::temp_dir().join(format!("rankway-agreed-{}", std::process::id()));
        let (path, target) = (place.join("notes"), place.join("target"));
        std::fs::create_dir_all(&place).unwrap();
        let mut first = note(&path, 7).unwrap();
        let mut second = note(&path, 0).unwrap();
        assert_eq!(read(&mut first).unwrap(), [7, 0]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut second).unwrap(), [7, 0]);
        second.write_all(&[1]).unwrap();
        assert!(read(&mut first).is_err());
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(note(&path, 7).is_err() && !target.exists());
        assert!(note(&place, 7).is_err());
        std::fs::remove_file(&path).unwrap();
        // Another user's, where this one may make such.
        drop(note(&path, 7).unwrap());
        if std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_ok() {
            assert!(note(&path, 7).is_err());
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
