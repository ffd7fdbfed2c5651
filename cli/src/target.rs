//! Where an export, a page or a chart goes: written beside its place under another name, and put
//! there when it is whole. What stands there is never overwritten by half, and by an export not
//! unless asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A place that is written to.
pub(crate) struct Target {
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
    pub(crate) fn file(place: &Path, force: bool) -> Result<Target, String> {
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
    pub(crate) fn directory(place: &Path, force: bool) -> Result<Target, String> {
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
    pub(crate) fn path(&self) -> &Path {
        self.staging.as_deref().unwrap_or(&self.place)
    }

    /// Where it is to be.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// What is said if writing fails.
    pub(crate) fn cannot(&self, why: &io::Error) -> String {
        cannot(&self.place, why)
    }

    /// Puts what was written in its place. Returns its bytes; `None` of a pipe or device.
    pub(crate) fn put(mut self) -> Result<Option<u64>, String> {
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

/// Writes a file, which is whole or as it was before; a pipe or a device gets it as it is. (Who
/// may write to a file alone, and not beside it, writes over it.)
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(place: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays one.
    let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    let there = fs::metadata(&place).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return fs::write(&place, bytes);
    }
    let staging = beside(&place).map_err(io::Error::other)?;
    match (fs::File::create(&staging), there) {
        (Ok(_), Some(there)) => fs::set_permissions(&staging, there.permissions())?,
        (Ok(_), None) => (),
        (Err(e), Some(_)) if is_refused(&e) => return fs::write(&place, bytes),
        (Err(e), _) => return Err(e),
    }
    let mut target = Target { place, staging: Some(staging), directory: false };
    fs::write(target.path(), bytes)?;
    fs::rename(target.path(), target.place())?;
    target.staging = None;
    Ok(())
}

/// Returns true if others may write there.
fn is_refused(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
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
        _ if is_refused(why) => "; name a place that you may write to",
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_are_replaced_whole() {
        let folder = std::env::temp_dir().join(format!("rankway-replace-{}", std::process::id()));
        fs::create_dir(&folder).expect("made");
        let (page, link) = (folder.join("page"), folder.join("link"));
        replace(&page, b"first").expect("written");
        fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).expect("ours");
        symlink(&page, &link).expect("made");
        // A reader of the old one keeps it.
        let mut old = fs::File::open(&page).expect("there");
        replace(&link, b"second").expect("written");
        assert_eq!(io::read_to_string(&mut old).expect("text"), "first");
        assert_eq!(fs::read(&page).expect("there"), b"second");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&page).expect("there").permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 2);
        replace(Path::new("/dev/null"), b"gone").expect("written");
        assert!(replace(&folder, b"none").is_err());
        assert!(replace(Path::new("/dev/full"), b"none").is_err());
        fs::remove_dir_all(&folder).expect("ours");
    }
}
