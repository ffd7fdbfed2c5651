//! Where an export goes: written beside its place under another name, and put there when it
//! is whole. What stands there is never overwritten unless asked for, and not by half.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A place that is written to.
pub(super) struct Target {
    place: PathBuf,
    /// Where it is written until it is whole; `None` for a pipe or a device, which gets all
    /// as it comes.
    staging: Option<PathBuf>,
    directory: bool,
}

impl Target {
    /// A file; a pipe or a device is written to as it is.
    ///
    /// # Errors
    /// It is there already and `force` is not given, or nothing can be put beside it.
    pub(super) fn file(place: &Path, force: bool) -> Result<Target, String> {
        let of = |staging| Target { place: place.to_owned(), staging, directory: false };
        let there = fs::metadata(place).map(|there| (there.is_file(), there.is_dir()));
        match there {
            Ok((_, true)) => Err(format!("{}: a directory; name a file", place.display())),
            Ok((true, _)) if !force => Err(already(place)),
            Ok((false, _)) => Ok(of(None)),
            _ => {
                let staging = beside(place)?;
                fs::File::create(&staging).map_err(|e| cannot(place, &e))?;
                Ok(of(Some(staging)))
            }
        }
    }

    /// A directory. One that is there may be empty; with `force` what the export has of it is
    /// replaced, and the rest left alone.
    ///
    /// # Errors
    /// As [`Target::file`].
    pub(super) fn directory(place: &Path, force: bool) -> Result<Target, String> {
        let staging = match fs::read_dir(place) {
            Ok(mut entries) => {
                if !force && entries.next().is_some() {
                    return Err(already(place));
                }
                place.join(format!(".rankway-{}.partial", std::process::id()))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => beside(place)?,
            Err(e) => return Err(cannot(place, &e)),
        };
        fs::create_dir(&staging).map_err(|e| cannot(place, &e))?;
        Ok(Target { place: place.to_owned(), staging: Some(staging), directory: true })
    }

    /// Where to write.
    pub(super) fn path(&self) -> &Path {
        self.staging.as_deref().unwrap_or(&self.place)
    }

    /// Where it is to be.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// What is said if writing fails.
    pub(super) fn cannot(&self, why: &io::Error) -> String {
        cannot(&self.place, why)
    }

    /// Puts what was written in its place. Returns its bytes; `None` of a pipe or device.
    pub(super) fn put(mut self) -> Result<Option<u64>, String> {
        let Some(staging) = &self.staging else { return Ok(None) };
        let moved = bytes(staging).and_then(|bytes| {
            match self.directory && self.place.exists() {
                true => {
                    for entry in fs::read_dir(staging)? {
                        let entry = entry?;
                        let to = self.place.join(entry.file_name());
                        match fs::symlink_metadata(&to) {
                            Ok(there) if there.is_dir() => fs::remove_dir_all(&to)?,
                            Ok(_) => fs::remove_file(&to)?,
                            Err(_) => (),
                        }
                        fs::rename(entry.path(), to)?;
                    }
                    fs::remove_dir(staging)?;
                }
                false => fs::rename(staging, &self.place)?,
            }
            Ok(bytes)
        });
        let bytes = moved.map_err(|e| self.cannot(&e))?;
        self.staging = None;
        Ok(Some(bytes))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // What was not put in its place was not whole.
        if let Some(staging) = &self.staging {
            let _ = match self.directory {
                true => fs::remove_dir_all(staging),
                false => fs::remove_file(staging),
            };
        }
    }
}

fn already(place: &Path) -> String {
    format!("{}: it is there already; name another place, or --force replaces it", place.display())
}

fn cannot(place: &Path, why: &io::Error) -> String {
    let remedy = match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space or name a place on another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a place that you may write to"
        }
        io::ErrorKind::NotFound => "; make the directory that it is to be in",
        _ => "",
    };
    format!("{}: cannot be written: {why}{remedy}", place.display())
}

/// A name beside a place.
fn beside(place: &Path) -> Result<PathBuf, String> {
    let name = place.file_name().ok_or_else(|| format!("{}: no name", place.display()))?;
    let name = format!(".{}-{}.partial", name.to_string_lossy(), std::process::id());
    Ok(place.with_file_name(name))
}

fn bytes(path: &Path) -> io::Result<u64> {
    let there = fs::symlink_metadata(path)?;
    match there.is_dir() {
        false => Ok(there.len()),
        true => fs::read_dir(path)?.map(|entry| bytes(&entry?.path())).sum(),
    }
}
