//! Models in the user's data folder: `$XDG_DATA_HOME/polyhead/models`, by default `~/.local/share/polyhead/models`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_text::Error;

use crate::environment::variable;
use crate::model_folder::check_model;
use crate::report::{Failure, Misuse};

/// Files that belong to a folder without being part of its model.
const NOT_COPIED: &[&str] = &["SHA256SUMS", ".lock"];

/// The folder of installed models; none if the environment names no home.
pub(crate) fn models_folder() -> Option<PathBuf> {
    // A relative path is to be ignored, by the XDG base directory specification.
    let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(variable("HOME")?.join(".local/share")));
    data.or_else(|| variable("LOCALAPPDATA")).map(|data| data.join("polyhead/models"))
}

/// The folder of an installed model; none if there is no such model.
pub(crate) fn find(name: &Path) -> Option<PathBuf> {
    let folder = models_folder()?.join(checked(name.to_str()?).ok()?);
    folder.is_dir().then_some(folder)
}

/// Names of the installed models, sorted.
pub(crate) fn names() -> Vec<String> {
    let entries =
        models_folder().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| checked(name).is_ok())
        .collect();
    names.sort();
    names
}

/// Copies the model folder `from`; returns the new folder and its size in bytes.
pub(crate) fn add(from: &Path, name: &str, overwrite: bool) -> Result<(PathBuf, u64)> {
    checked(name)?;
    check_model(from)?;
    let Some(models) = models_folder() else {
        return Err(Failure {
            message: "no data folder: neither XDG_DATA_HOME nor HOME is set".into(),
            hint: "set XDG_DATA_HOME to a folder".into(),
        }
        .into());
    };
    let folder = models.join(name);
    if folder.exists() && !overwrite {
        return Err(Failure {
            message: format!("{}: already exists, expected a new name", folder.display()),
            hint: "choose another with --name, or add --overwrite to replace it".into(),
        }
        .into());
    }
    let temporary = models.join(format!(".{name}.{}.tmp", std::process::id()));
    let copied = copy(from, &temporary).and_then(|bytes| {
        if folder.exists() {
            discard(&folder)?;
        }
        fs::rename(&temporary, &folder).map_err(|error| Error::io(&folder, "write", error))?;
        Ok(bytes)
    });
    if copied.is_err() {
        // The error names what went wrong; a rest only takes space.
        let _ = fs::remove_dir_all(&temporary);
    }
    Ok((folder, copied?))
}

/// Removes an installed model; returns its folder.
pub(crate) fn remove(name: &str) -> Result<PathBuf> {
    let Some(folder) = find(Path::new(name)) else {
        let known = names();
        let known = if known.is_empty() { "none is".into() } else { format!("{} are", known.join(", ")) };
        return Err(Failure {
            message: format!("no model {name:?} is installed; {known}"),
            hint: "polyhead models list shows them".into(),
        }
        .into());
    };
    discard(&folder)?;
    Ok(folder)
}

/// Size of all files of a folder in bytes.
pub(crate) fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// Renames before removing, so that a half-removed model is never used.
fn discard(folder: &Path) -> polyhead_text::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let aside = folder.with_file_name(format!(".{name}.{}.old", std::process::id()));
    let gone = fs::rename(folder, &aside).and_then(|()| fs::remove_dir_all(&aside));
    gone.map_err(|error| Error::io(folder, "remove", error))
}

/// Copies the files of a folder, not its folders; returns their size.
fn copy(from: &Path, to: &Path) -> polyhead_text::Result<u64> {
    fs::create_dir_all(to).map_err(|error| Error::io(to, "create the folder", error))?;
    let mut bytes = 0;
    for entry in fs::read_dir(from).map_err(|error| Error::io(from, "read", error))? {
        let path = entry.map_err(|error| Error::io(from, "read", error))?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        if !NOT_COPIED.iter().any(|other| name == *other) {
            bytes += fs::copy(&path, to.join(name)).map_err(|error| Error::io(&path, "copy", error))?;
        }
    }
    Ok(bytes)
}

/// The name, if it can be that of an installed model.
fn checked(name: &str) -> Result<&str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(name);
    }
    Err(Misuse {
        message: format!("the name {name:?}, expected letters, digits, `.`, `_` and `-`, no `.` first"),
        hint: "choose another with --name".into(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn names_are_plain() {
        assert!(["default", "opus-mt_en.de", "A1"].iter().all(|name| checked(name).is_ok()));
        assert!(["", ".x", "a/b", "..", "a b", "é"].iter().all(|name| checked(name).is_err()));
    }
}
