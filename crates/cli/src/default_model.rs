//! The bundled model, used where no model is named; its folder is searched for in several places, in order.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::report::Failure;

/// The environment variable with the default model folder.
const VARIABLE: &str = "POLYHEAD_MODEL";
/// Path below the program's folder or the source tree.
const FOLDER: &str = "models/default";
/// Path below the installation prefix.
const SHARED: &str = "share/polyhead/models/default";

/// `named`, or the default model folder.
pub(crate) fn or(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(folder, |named| Ok(named.to_owned()))
}

/// The default model folder: that of `POLYHEAD_MODEL`, the embedded model, one next to the program, or one in the source
/// tree that contains the program or that it was built from.
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(named) = set(VARIABLE) {
        return Ok(named);
    }
    if let Some(embedded) = embedded::folder()? {
        return Ok(embedded);
    }
    let places = places(std::env::current_exe().ok().as_deref());
    if let Some(found) = places.iter().find(|place| place.join("config.json").is_file()) {
        return Ok(found.clone());
    }
    let searched: Vec<String> = places.iter().map(|place| format!("\n  {}", place.display())).collect();
    Err(Failure {
        message: format!("no model given, and no default model found in{}", searched.concat()),
        hint: format!(
            "copy models/default of the source tree to one of these, or name a model folder with --model or {VARIABLE}"
        ),
    }
    .into())
}

/// Folders to search, in order.
fn places(program: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    // A link to the program is followed to the program's own folder.
    let program = program.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let mut folders = program.iter().flat_map(|path| path.ancestors().skip(1));
    if let Some(own) = folders.next() {
        places.push(own.join(FOLDER));
        places.extend(own.parent().map(|parent| parent.join(SHARED)));
    }
    let sources = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    for place in sources.chain(built_from).map(|source| source.join(FOLDER)) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(not(feature = "embed-model"))]
mod embedded {
    //! Without the feature, the program contains no model.

    use std::path::PathBuf;

    use anyhow::Result;

    #[allow(clippy::unnecessary_wraps)] // same signature as with the feature
    pub(super) fn folder() -> Result<Option<PathBuf>> {
        Ok(None)
    }
}

#[cfg(feature = "embed-model")]
mod embedded {
    //! The model inside the program, unpacked into the user's cache folder: models are memory-mapped files.

    use std::path::{Path, PathBuf};

    use anyhow::Result;

    use super::set;
    use crate::report::Failure;

    macro_rules! embedded {
        ($($name:literal),*) => {
            [$(($name, include_bytes!(concat!("../../../models/default/", $name)).as_slice())),*]
        };
    }

    static FILES: [(&str, &[u8]); 5] = embedded![
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json"
    ];

    pub(super) fn folder() -> Result<Option<PathBuf>> {
        let user = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        let cache = set("POLYHEAD_CACHE").or_else(|| Some(user()?.join("polyhead")));
        let folders = cache.into_iter().chain([std::env::temp_dir().join("polyhead")]);
        let name = concat!("model-", env!("POLYHEAD_EMBEDDED_MODEL"));
        let mut failed = String::new();
        for folder in folders.map(|cache| cache.join(name)) {
            match unpacked(&folder) {
                Ok(()) => return Ok(Some(folder)),
                Err(error) => failed += &format!("\n  {}: {error}", folder.display()),
            }
        }
        Err(Failure {
            message: format!("the embedded model cannot be unpacked into a cache folder:{failed}"),
            hint: "set POLYHEAD_CACHE to a writable folder, or POLYHEAD_MODEL to a model folder".into(),
        }
        .into())
    }

    /// Writes the files unless the same bytes are there; the folder appears whole or not at all.
    fn unpacked(folder: &Path) -> std::io::Result<()> {
        let is_there = |folder: &Path| {
            let has = |(name, bytes): &(&str, &[u8])| {
                std::fs::read(folder.join(name)).is_ok_and(|found| found == *bytes)
            };
            FILES.iter().all(has)
        };
        if is_there(folder) {
            return Ok(());
        }
        let temporary = folder.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::create_dir_all(&temporary)?;
        let written = FILES.iter().try_for_each(|(name, bytes)| std::fs::write(temporary.join(name), bytes));
        if written.is_ok() && folder.is_dir() {
            // A damaged copy is replaced.
            std::fs::remove_dir_all(folder)?;
        }
        let renamed = written.and_then(|()| std::fs::rename(&temporary, folder));
        if renamed.is_err() {
            // Another process may have unpacked it first.
            let _ = std::fs::remove_dir_all(&temporary);
        }
        if is_there(folder) { Ok(()) } else { renamed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_next_to_the_program_are_searched_first() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let below = |folder: &str| tree.join(folder).join(FOLDER);
        let found = places(Some(&tree.join("target/release/polyhead")));
        let shared = tree.join("target").join(SHARED);
        assert_eq!(found, [below("target/release"), shared, tree.join(FOLDER)]);
        let found = places(Some(Path::new("/x/bin/polyhead")));
        assert_eq!(
            found,
            [Path::new("/x/bin").join(FOLDER), Path::new("/x").join(SHARED), tree.join(FOLDER)]
        );
        assert_eq!(places(None), [tree.join(FOLDER)]);
    }
}
