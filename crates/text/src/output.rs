//! Atomic writing of files: written under a temporary name in the same folder, renamed at the end.
//!
//! A dropped [`Output`] removes its temporary file; an interrupted program calls [`remove_unfinished`].

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Result};

/// Temporary files of this process that are still being written.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every temporary file that is still being written; for the interrupt handler of a program.
pub fn remove_unfinished() {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    remove(&mut unfinished);
}

fn remove(unfinished: &mut Vec<PathBuf>) {
    for path in unfinished.drain(..) {
        // The file may be gone already.
        let _ = fs::remove_file(path);
    }
}

/// A file being written; gzip if the name ends in `.gz`. Dropped before [`Output::finish`], it leaves no file behind.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<Writer>,
    is_kept: bool,
}

#[derive(Debug)]
enum Writer {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Starts writing a file with the final name `path`.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Self::create_with(path.as_ref(), |temporary| File::create(temporary))
    }

    /// Like [`Output::create`], under the temporary name `PATH.partial`, which stays if the file is not finished: for
    /// lines that took long to compute.
    pub fn create_partial(path: impl AsRef<Path>) -> Result<Self> {
        let mut output = Self::create(path)?;
        if output.temporary != output.path {
            let partial = partial_name(&output.path);
            fs::rename(&output.temporary, &partial).map_err(|error| Error::io(&partial, "write", error))?;
            forget(&output.temporary);
            (output.temporary, output.is_kept) = (partial, true);
        }
        Ok(output)
    }

    /// The name under which an unfinished file stays, for a file of [`Output::create_partial`].
    pub fn partial_path(&self) -> Option<&Path> {
        self.is_kept.then_some(&*self.temporary)
    }

    /// Writes what is buffered to disk.
    pub fn flush(&mut self) -> Result<()> {
        let result = match self.writer.as_mut().expect("present until finish") {
            Writer::Plain(writer) => writer.flush(),
            Writer::Gzip(writer) => writer.flush().and_then(|()| writer.get_mut().flush()),
        };
        result.map_err(|error| Error::io(&self.path, "write", error))
    }

    /// [`Output::create`] with a function that opens the temporary file.
    fn create_with(given: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<Self> {
        // A symbolic link stays: the file it points to is replaced.
        let path = if given.is_symlink() { fs::canonicalize(given).ok() } else { None };
        let path = path.unwrap_or_else(|| given.to_owned());
        if path.is_dir() {
            return Err(Error::io(path, "write", io::Error::new(io::ErrorKind::IsADirectory, "is a folder")));
        }
        let temporary = if is_special(&path) { path.clone() } else { temporary_name(&path) };
        let file = open(&temporary).map_err(|error| Error::io(&path, "write", error))?;
        if temporary != path {
            UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(temporary.clone());
        }
        let buffered = BufWriter::with_capacity(1 << 18, file);
        let writer = if path.extension().is_some_and(|extension| extension == "gz") {
            Writer::Gzip(GzEncoder::new(buffered, Compression::default()))
        } else {
            Writer::Plain(buffered)
        };
        Ok(Self { path, temporary, writer: Some(writer), is_kept: false })
    }

    /// Writes `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let result = match self.writer.as_mut().expect("present until finish") {
            Writer::Plain(writer) => writer.write_all(bytes),
            Writer::Gzip(writer) => writer.write_all(bytes),
        };
        result.map_err(|error| Error::io(&self.path, "write", error))
    }

    /// Writes `text` and `\n`.
    pub fn write_line(&mut self, text: &str) -> Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Completes the file and renames it to its final name.
    pub fn finish(mut self) -> Result<()> {
        let writer = self.writer.take().expect("finish takes self");
        let flushed = match writer {
            Writer::Plain(writer) => writer.into_inner().map_err(io::IntoInnerError::into_error),
            Writer::Gzip(writer) => {
                writer.finish().and_then(|inner| inner.into_inner().map_err(io::IntoInnerError::into_error))
            }
        };
        let named = match flushed {
            Ok(_) if self.temporary == self.path => Ok(()),
            Ok(file) => file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path)),
            Err(error) => Err(error),
        };
        named.map_err(|error| Error::io(&self.path, "write", error))
    }

    /// Writes a whole file at once.
    pub fn save(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let mut output = Self::create(path)?;
        output.write(bytes)?;
        output.finish()
    }

    /// Writes a whole file at once that only its owner can read (mode 600 on Unix).
    pub fn save_private(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let mut output = Self::create_with(path.as_ref(), private)?;
        output.write(bytes)?;
        output.finish()
    }
}

/// Opens a file that only its owner can read or write, from its first byte on.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// True for an existing path that is not a regular file, such as a pipe or a device: it is written to, never replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// A name in the folder of `path` that no other output of this process has.
fn temporary_name(path: &Path) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.temporary == self.path || self.is_kept {
            return;
        }
        // After a successful rename there is nothing to remove, and the error is expected.
        let _ = fs::remove_file(&self.temporary);
        forget(&self.temporary);
    }
}

/// Takes a temporary file off the list of those to remove.
fn forget(temporary: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| path != temporary);
}

/// The name of an unfinished file that is kept.
fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Lines;

    #[test]
    fn a_finished_file_reads_back_plain_and_gzip() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.txt", "a.txt.gz"] {
            let path = folder.path().join(name);
            let mut output = Output::create(&path).unwrap();
            output.write_line("Kedi fareyi yedi.").unwrap();
            assert!(!path.exists());
            output.finish().unwrap();
            assert_eq!(Lines::read_all(&path).unwrap(), ["Kedi fareyi yedi."]);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    #[cfg(unix)]
    fn links_and_devices_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Output::save(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(
            is_special(Path::new("/dev/null"))
                && !is_special(&file)
                && !is_special(&folder.path().join("none"))
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_private_file_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for _ in 0..2 {
            Output::save_private(&path, b"secret").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"secret");
    }

    #[test]
    fn an_abandoned_partial_file_stays_and_a_finished_one_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.txt", "a.txt.gz"] {
            let path = folder.path().join(name);
            let mut output = Output::create_partial(&path).unwrap();
            output.write_line("done").unwrap();
            output.flush().unwrap();
            let partial = output.partial_path().unwrap().to_owned();
            assert_eq!(partial, folder.path().join(format!("{name}.partial")));
            // As [`remove_unfinished`] does, without the files of other tests.
            let unfinished = UNFINISHED.lock().unwrap().clone();
            remove(&mut unfinished.into_iter().filter(|path| path.starts_with(folder.path())).collect());
            drop(output);
            assert!(partial.exists() && !path.exists());
            let mut output = Output::create_partial(&path).unwrap();
            output.write_line("whole").unwrap();
            output.finish().unwrap();
            assert_eq!(Lines::read_all(&path).unwrap(), ["whole"]);
            assert!(!partial.exists());
        }
    }

    #[test]
    fn an_abandoned_file_leaves_nothing_and_keeps_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "old").unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write_line("new").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
