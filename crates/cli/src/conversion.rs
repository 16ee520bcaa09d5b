//! Conversion of a model folder to another layout or dtype; shared by `import`, `export`, `quantize` and `average`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_models::ModelConfig;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, SavedCheckpoint, save, single};
use polyhead_tensor::Dtype;
use polyhead_tensor::Parameters;
use polyhead_text::output::Output;

use crate::model_folder::{
    GENERATION, check_folder, file_name, generation, load_model, module_files, resolve, sidecar_files,
};
use crate::option_help::OVERWRITE_MODEL;
use crate::report::{Failure, Misuse, bytes, counted, note};

/// Files of which one makes a folder a model folder.
const MODEL_FILES: &[&str] =
    &["config.json", "args.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"];

/// Options of `import` and `export`.
#[derive(Debug, Args)]
pub(crate) struct ConversionOptions {
    #[command(flatten)]
    folders: Folders,
    /// Dtype of the stored weights, rounded to nearest; int8 weights are dequantised [default: unchanged; f32 if mixed]
    #[arg(long, value_enum)]
    dtype: Option<StoredDtype>,
    /// Maximum size of a weight file: bytes, or a number with kB, MB or GB
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = size)]
    max_shard_size: u64,
}

/// A model folder to read and one to write.
#[derive(Debug, Args)]
pub(crate) struct Folders {
    /// Model folder, run folder or installed model to read
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// Model folder to write
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub(crate) to: PathBuf,
    #[arg(long, help = OVERWRITE_MODEL)]
    pub(crate) overwrite: bool,
}

/// The dtype of stored weights.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StoredDtype {
    F32,
    F16,
    Bf16,
}

/// A file that is copied along with config and weights.
struct SidecarFile {
    name: String,
    content: Vec<u8>,
}

impl ConversionOptions {
    /// Reads the model, writes it in the layout that `choose` returns, and prints a note.
    pub(crate) fn convert(self, choose: impl FnOnce(&ModelConfig) -> CheckpointLayout) -> Result<()> {
        let folders = &self.folders.resolved()?;
        folders.check()?;
        let mut model = load_model(&folders.from)?;
        let dtype = self.dtype.map_or_else(|| stored(&model.info.dtypes), StoredDtype::dtype);
        let config = model.model.config();
        let layout = choose(&config);
        if self.dtype.is_some() {
            model.parameters.unprepare();
        } else if layout != CheckpointLayout::Polyhead && model.parameters.are_prepared() {
            bail!(Failure {
                message: format!(
                    "{}: int8 weights, expected f32, f16 or bf16 for the {layout} layout",
                    folders.from.display()
                ),
                hint: "add --dtype f32 to dequantise them".into(),
            });
        }
        let options = SaveOptions { dtype, layout, max_shard_bytes: self.max_shard_size };
        folders.write(&config, &model.parameters, &options)
    }
}

impl Folders {
    /// The same folders, with the model folder of a run or of an installed model.
    pub(crate) fn resolved(&self) -> Result<Self> {
        Ok(Self { from: resolve(&self.from)?, to: self.to.clone(), overwrite: self.overwrite })
    }

    /// Writes the model with its sidecar files, and prints a note.
    pub(crate) fn write(
        &self,
        config: &ModelConfig,
        parameters: &Parameters,
        options: &SaveOptions,
    ) -> Result<()> {
        let Self { from, to, .. } = self;
        let sidecars = read_sidecars(from)?;
        let is_new = !to.exists();
        let saved = write(to, &sidecars, || {
            save(to, config, parameters, options).map_err(|error| unsaved(to, error))
        });
        if saved.is_err() && is_new {
            // Removes the folder only if it is empty.
            let _ = std::fs::remove_dir(to);
        }
        let saved = saved?;
        remove_stale(to, &sidecars, &saved)?;
        let mut out = format!(
            "wrote {} ({} layout, {}, {}, {})",
            to.display(),
            options.layout,
            if parameters.are_prepared() { "I8".to_owned() } else { options.dtype.to_string() },
            counted(saved.files.len() as u64, "file"),
            bytes(saved.bytes)
        );
        if !sidecars.is_empty() {
            let names: Vec<&str> = sidecars.iter().map(|file| file.name.as_str()).collect();
            out += &format!("\nwith {}", names.join(", "));
        }
        note(&out);
        Ok(())
    }

    /// An error if `from` is not a folder, or if `to` is `from`, a file, or would be replaced without `--overwrite`.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { from, to, .. } = self;
        if !single::is_single_file(from) {
            check_folder(from)?;
        }
        if let (Ok(a), Ok(b)) = (from.canonicalize(), to.canonicalize())
            && a == b
        {
            bail!(Misuse {
                message: format!("{} is both FROM and --out, expected two folders", from.display()),
                hint: "write to a new folder, and replace the old one afterwards".into(),
            });
        }
        if to.exists() && !to.is_dir() {
            bail!(Failure {
                message: format!("{}: a file, expected a folder to write to", to.display()),
                hint: "name a new folder".into(),
            });
        }
        let mut there: Vec<String> = MODEL_FILES.iter().map(|&name| name.to_owned()).collect();
        there.retain(|name| to.join(name).exists());
        if to.exists() {
            there.extend(sidecar_files(to)?.iter().map(|path| file_name(path)));
        }
        there.sort();
        there.dedup();
        if !there.is_empty() && !self.overwrite {
            bail!(Failure {
                message: format!("{}: already holds {}", to.display(), there.join(", ")),
                hint: "name a new folder, or add --overwrite to replace them".into(),
            });
        }
        Ok(())
    }
}

impl StoredDtype {
    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::Bf16,
        }
    }
}

/// Names the folder to write, not the config, where a model does not fit a layout.
fn unsaved(to: &Path, error: polyhead_models::Error) -> anyhow::Error {
    match error {
        polyhead_models::Error::Config { message } => Failure {
            message: format!("{}: {message}", to.display()),
            hint: "choose another --layout; the polyhead layout takes every model".into(),
        }
        .into(),
        other => other.into(),
    }
}

/// The dtype that stores all weights without rounding.
fn stored(dtypes: &[Dtype]) -> Dtype {
    match dtypes {
        [Dtype::F16] => Dtype::F16,
        [Dtype::Bf16] => Dtype::Bf16,
        _ => Dtype::F32,
    }
}

/// The tokeniser inside a file.
fn embedded_tokenizer(from: &Path) -> Result<Vec<SidecarFile>> {
    let missing = "copy tokenizer.json or tokenizer.model into the folder";
    let Some(tokenizer) = single::tokenizer(from)? else {
        note(&format!("note: there is no tokeniser in {}; {missing}", from.display()));
        return Ok(Vec::new());
    };
    match tokenizer.to_json() {
        Ok(text) => Ok(vec![SidecarFile { name: "tokenizer.json".into(), content: text.into_bytes() }]),
        Err(kind) => {
            note(&format!("note: a tokeniser of an unknown kind, {kind}; {missing}"));
            Ok(Vec::new())
        }
    }
}

/// The sidecar files of a folder; generation settings inside the config get a file of their own.
fn read_sidecars(from: &Path) -> Result<Vec<SidecarFile>> {
    if single::is_single_file(from) {
        return embedded_tokenizer(from);
    }
    let mut found = Vec::new();
    for path in sidecar_files(from)? {
        let content = std::fs::read(&path).map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        found.push(SidecarFile { name: file_name(&path), content });
    }
    for (name, path) in module_files(from)? {
        let content = std::fs::read(&path).map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        found.push(SidecarFile { name, content });
    }
    if !found.iter().any(|file| file.name == GENERATION)
        && let Some(settings) = generation(from)?
    {
        let content = serde_json::to_string_pretty(&settings)? + "\n";
        found.push(SidecarFile { name: GENERATION.into(), content: content.into_bytes() });
    }
    Ok(found)
}

/// Writes the sidecar files and runs `save`; they appear after the model, and not at all if it fails.
fn write<T>(to: &Path, sidecars: &[SidecarFile], save: impl FnOnce() -> Result<T>) -> Result<T> {
    std::fs::create_dir_all(to).map_err(|error| polyhead_text::Error::io(to, "create", error))?;
    let mut outputs = Vec::new();
    for file in sidecars {
        let path = to.join(&file.name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| polyhead_text::Error::io(folder, "create", error))?;
        }
        let mut output = Output::create(path)?;
        output.write(&file.content)?;
        outputs.push(output);
    }
    let saved = save()?;
    for output in outputs {
        output.finish()?;
    }
    Ok(saved)
}

/// Removes sidecar files of an older model, which would be read as those of the new one.
fn remove_stale(to: &Path, written: &[SidecarFile], saved: &SavedCheckpoint) -> Result<()> {
    for path in sidecar_files(to)? {
        let name = file_name(&path);
        let is_current = name == "README.md" || saved.files.iter().any(|file| file.ends_with(&name));
        if !is_current && !written.iter().any(|file| file.name == name) {
            std::fs::remove_file(&path).map_err(|error| polyhead_text::Error::io(&path, "remove", error))?;
        }
    }
    Ok(())
}

/// Parses a size such as `2GB` into bytes.
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
