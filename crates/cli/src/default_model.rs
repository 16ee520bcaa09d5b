//! The model that comes with the program: where `--model` is missing, its folder is looked for in some places, in order.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::report::Failure;

/// Names the folder of the default model.
const VARIABLE: &str = "POLYHEAD_MODEL";
/// The folder below that of the program or of its source.
const FOLDER: &str = "models/default";
/// The folder beside that of the program, where programs are installed.
const SHARED: &str = "share/polyhead/models/default";

/// The folder that was named, else that of the default model.
pub(crate) fn or(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(folder, |named| Ok(named.to_owned()))
}

/// The folder of the default model: what `POLYHEAD_MODEL` names, the embedded one, next to the program, or in the source
/// tree that the program lies in or was built from.
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
    let looked: Vec<String> = places.iter().map(|place| format!("\n  {}", place.display())).collect();
    Err(Failure {
        message: format!(
            "no model, expected --model DIR or the default one, which is in none of{}",
            looked.concat()
        ),
        hint: format!(
            "copy models/default of the source tree to one of them, or name a folder with --model or in {VARIABLE}"
        ),
    }
    .into())
}

/// Where the folder may lie, the likelier first.
fn places(program: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    // A link to the program leads to where it lies.
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
    //! No model is in the program.

    use std::path::PathBuf;

    use anyhow::Result;

    #[allow(clippy::unnecessary_wraps)] // as where there is one
    pub(super) fn folder() -> Result<Option<PathBuf>> {
        Ok(None)
    }
}

#[cfg(feature = "embed-model")]
mod embedded {
    //! The model in the program, laid out as a folder in the user's cache: models are read from files, in place.

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
            message: format!("the model in the program cannot be written to a cache folder:{failed}"),
            hint: "let POLYHEAD_CACHE name a folder that can be written, or POLYHEAD_MODEL the folder of a model".into(),
        }
        .into())
    }

    /// Writes the files unless they are there, byte by byte; the folder appears whole or not at all.
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
            // What is damaged goes.
            std::fs::remove_dir_all(folder)?;
        }
        let renamed = written.and_then(|()| std::fs::rename(&temporary, folder));
        if renamed.is_err() {
            // What is left of it is no use; another program may have been faster.
            let _ = std::fs::remove_dir_all(&temporary);
        }
        if is_there(folder) { Ok(()) } else { renamed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_comes_first() {
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
