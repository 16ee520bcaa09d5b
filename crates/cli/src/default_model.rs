//! The default model, used where no model is named; its folder is searched for in several places, in order.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::environment::variable;
use crate::report::Failure;
use crate::{installed_models, model_folder};

/// The name of the default model among installed ones.
pub(crate) const NAME: &str = "default";
/// The environment variable with the default model folder.
const VARIABLE: &str = "POLYHEAD_MODEL";
/// Path below the program's folder or the source tree.
const FOLDER: &str = "models/default";
/// Path below the installation prefix.
const SHARED: &str = "share/polyhead/models/default";

/// The model folder for `named`, a folder, a run or an installed model; without one, the default model folder.
pub(crate) fn or(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(folder, model_folder::resolve)
}

/// The default model folder: that of `POLYHEAD_MODEL`; one next to the program; the one that the user installed; one in the
/// source tree that contains the program; the embedded model; one in the source tree that the program was built from.
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(named) = variable(VARIABLE) {
        return model_folder::resolve(&named);
    }
    let program = std::env::current_exe().ok();
    let places = places(program.as_deref(), installed_models::models_folder().as_deref());
    let is_model = |place: &&PathBuf| place.join("config.json").is_file();
    if let Some(found) = places.iter().find(is_model) {
        return Ok(found.clone());
    }
    if let Some(embedded) = embedded::folder()? {
        return Ok(embedded);
    }
    let built_from = built_from();
    if let Some(found) = built_from.iter().find(is_model) {
        return Ok(found.clone());
    }
    let searched = places.iter().chain(&built_from).map(|place| format!("\n  {}", place.display()));
    Err(Failure {
        message: format!("no model given, and no default model found in{}", searched.collect::<String>()),
        hint: format!(
            "install models/default of the source tree: polyhead models add models/default; or name a model folder with \
             --model or {VARIABLE}"
        ),
    }
    .into())
}

/// Folders to search, in order; `installed` is the folder of the user's models.
fn places(program: Option<&Path>, installed: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    // A link to the program is followed to the program's own folder.
    let program = program.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let mut folders = program.iter().flat_map(|path| path.ancestors().skip(1));
    let own = folders.next();
    places.extend(own.map(|own| own.join(FOLDER)));
    places.extend(installed.map(|installed| installed.join(NAME)));
    places.extend(own.and_then(Path::parent).map(|parent| parent.join(SHARED)));
    let sources = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    places.extend(sources.map(|source| source.join(FOLDER)));
    places
}

/// The default model of the source tree that the program was built from; none in a packaged program.
fn built_from() -> Option<PathBuf> {
    option_env!("POLYHEAD_SOURCE_TREE").map(|tree| Path::new(tree).join(FOLDER))
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

    use crate::environment::variable;
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
        let user = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let cache = variable("POLYHEAD_CACHE").or_else(|| Some(user()?.join("polyhead")));
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
    fn the_users_model_comes_before_that_of_the_system_and_of_the_source_tree() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let below = |folder: &str| tree.join(folder).join(FOLDER);
        let (user, own) = (Path::new("/user/models"), PathBuf::from("/user/models/default"));
        let found = places(Some(&tree.join("target/release/polyhead")), Some(user));
        let shared = tree.join("target").join(SHARED);
        assert_eq!(found, [below("target/release"), own.clone(), shared, tree.join(FOLDER)]);
        // An installed program searches no source tree.
        let found = places(Some(Path::new("/x/bin/polyhead")), Some(user));
        assert_eq!(found, [Path::new("/x/bin").join(FOLDER), own, Path::new("/x").join(SHARED)]);
        assert!(places(None, None).is_empty());
        assert_eq!(built_from().as_deref().map(Path::is_absolute), Some(true));
    }
}
