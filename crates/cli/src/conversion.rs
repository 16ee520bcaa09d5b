//! A model from one folder to another, in another layout or type of numbers; what `import` and `export` share.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_models::ModelConfig;
use polyhead_models::checkpoint::safetensors::Dtype;
use polyhead_models::checkpoint::{Layout, SaveOptions, Saved, save};
use polyhead_tensor::Parameters;
use polyhead_text::output::Output;

use crate::model_folder::{GENERATION, check_folder, companions, file_name, generation, load_model};
use crate::report::{Failure, Misuse, bytes, note};

/// Files that make a folder the folder of a model.
const MODEL: &[&str] =
    &["config.json", "args.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"];

/// From where to where, and how.
#[derive(Debug, Args)]
pub(crate) struct ConversionOptions {
    #[command(flatten)]
    folders: Folders,
    /// How numbers are stored, rounded to the nearest [default: as they are, f32 if mixed]
    #[arg(long, value_enum)]
    dtype: Option<DtypeName>,
    /// Weights beyond this size go to several files: bytes, or a number with kB, MB or GB
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = size)]
    max_shard_size: u64,
}

/// From where to where.
#[derive(Debug, Args)]
pub(crate) struct Folders {
    /// Folder of the model
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// Folder to write, made if need be
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
    /// Replace the model, tokeniser and README that are in TO
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DtypeName {
    F32,
    F16,
    Bf16,
}

/// A file that goes beside config and weights.
struct Companion {
    name: String,
    content: Vec<u8>,
}

impl ConversionOptions {
    /// Reads, writes in the layout that `choose` finds right, and says what was done.
    pub(crate) fn convert(self, choose: impl FnOnce(&ModelConfig) -> Layout) -> Result<()> {
        self.folders.check()?;
        let model = load_model(&self.folders.from)?;
        let dtype = self.dtype.map_or_else(|| stored(&model.loaded.dtypes), DtypeName::dtype);
        let config = model.model.config();
        let layout = choose(&config);
        let options = SaveOptions { dtype, layout, max_shard_bytes: self.max_shard_size };
        self.folders.write(&config, &model.parameters, &options)
    }
}

impl Folders {
    /// Writes the model with the files that go along, and says so.
    pub(crate) fn write(
        &self,
        config: &ModelConfig,
        parameters: &Parameters,
        options: &SaveOptions,
    ) -> Result<()> {
        let Self { from, to, .. } = self;
        let companions = read_companions(from)?;
        let made = !to.exists();
        let saved = write(to, &companions, || {
            save(to, config, parameters, options).map_err(|error| unsaved(to, error))
        });
        if saved.is_err() && made {
            // Only a folder that is still empty goes; what is in it is not ours.
            let _ = std::fs::remove_dir(to);
        }
        let saved = saved?;
        remove_stale(to, &companions, &saved)?;
        let mut out = format!(
            "wrote {} ({} layout, {}, {} files, {})",
            to.display(),
            options.layout,
            if parameters.are_prepared() { "I8".to_owned() } else { options.dtype.to_string() },
            saved.files.len(),
            bytes(saved.bytes)
        );
        if !companions.is_empty() {
            let names: Vec<&str> = companions.iter().map(|companion| companion.name.as_str()).collect();
            out += &format!("\nwith {}", names.join(", "));
        }
        note(&out);
        Ok(())
    }

    /// An error if FROM is no folder, or TO is FROM, a file, or holds what would be replaced without leave.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { from, to, .. } = self;
        check_folder(from)?;
        if let (Ok(a), Ok(b)) = (from.canonicalize(), to.canonicalize())
            && a == b
        {
            bail!(Misuse {
                message: format!("{} is both FROM and TO, expected two folders", from.display()),
                hint: "write to a new folder and replace the old one afterwards".into(),
            });
        }
        if to.exists() && !to.is_dir() {
            bail!(Failure {
                message: format!("{}: a file, expected a folder to write to", to.display()),
                hint: "name a new folder".into(),
            });
        }
        let mut there: Vec<String> = MODEL.iter().map(|&name| name.to_owned()).collect();
        there.retain(|name| to.join(name).exists());
        if to.exists() {
            there.extend(companions(to)?.iter().map(|path| file_name(path)));
        }
        there.sort();
        there.dedup();
        if !there.is_empty() && !self.overwrite {
            bail!(Failure {
                message: format!("{}: already holds {}", to.display(), there.join(", ")),
                hint: "name a new folder, or replace these with --overwrite".into(),
            });
        }
        Ok(())
    }
}

impl DtypeName {
    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::Bf16,
        }
    }
}

/// A model that does not fit a layout is no fault of its config.
fn unsaved(to: &Path, error: polyhead_models::Error) -> anyhow::Error {
    match error {
        polyhead_models::Error::Config { message } => Failure {
            message: format!("{}: {message}", to.display()),
            hint: "choose another --layout: polyhead holds every model".into(),
        }
        .into(),
        other => other.into(),
    }
}

/// The type that keeps all numbers as they are.
fn stored(dtypes: &[Dtype]) -> Dtype {
    match dtypes {
        [Dtype::F16] => Dtype::F16,
        [Dtype::Bf16] => Dtype::Bf16,
        _ => Dtype::F32,
    }
}

/// The files that go along; settings of generation that are in the config get a file of their own.
fn read_companions(from: &Path) -> Result<Vec<Companion>> {
    let mut found = Vec::new();
    for path in companions(from)? {
        let content = std::fs::read(&path).map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        found.push(Companion { name: file_name(&path), content });
    }
    if !found.iter().any(|companion| companion.name == GENERATION)
        && let Some(settings) = generation(from)?
    {
        let content = serde_json::to_string_pretty(&settings)? + "\n";
        found.push(Companion { name: GENERATION.into(), content: content.into_bytes() });
    }
    Ok(found)
}

/// Writes the companions and runs `save`; they get their names after the model, and none if it fails.
fn write<T>(to: &Path, companions: &[Companion], save: impl FnOnce() -> Result<T>) -> Result<T> {
    std::fs::create_dir_all(to).map_err(|error| polyhead_text::Error::io(to, "create", error))?;
    let mut outputs = Vec::new();
    for companion in companions {
        let mut output = Output::create(to.join(&companion.name))?;
        output.write(&companion.content)?;
        outputs.push(output);
    }
    let saved = save()?;
    for output in outputs {
        output.finish()?;
    }
    Ok(saved)
}

/// Removes files of an older model, which would be taken for those of the new one.
fn remove_stale(to: &Path, written: &[Companion], saved: &Saved) -> Result<()> {
    for path in companions(to)? {
        let name = file_name(&path);
        let kept = name == "README.md" || saved.files.iter().any(|file| file.ends_with(&name));
        if !kept && !written.iter().any(|companion| companion.name == name) {
            std::fs::remove_file(&path).map_err(|error| polyhead_text::Error::io(&path, "remove", error))?;
        }
    }
    Ok(())
}

/// `2GB` in bytes.
fn size(text: &str) -> Result<u64, String> {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("KB", 1000), ("B", 1), ("", 1)];
    let parsed = units
        .into_iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(factor));
    parsed.filter(|size| *size > 0).ok_or_else(|| "expected a size such as 500MB or 2GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        let sizes = ["2GB", "500 MB", "7kB", "12", "12B"].map(size);
        assert_eq!(sizes, [Ok(2_000_000_000), Ok(500_000_000), Ok(7000), Ok(12), Ok(12)]);
        for wrong in ["", "GB", "0", "-1", "1.5GB", "99999999999999GB", "2 pounds"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
