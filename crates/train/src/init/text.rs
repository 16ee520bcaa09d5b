//! A recipe as TOML text, with the reason of each setting as a comment.

use std::path::{Component, Path, PathBuf};

use polyhead_text::corpus::Corpus;
use toml::Value;

use super::choices::Setting;

/// Parts of a recipe besides its settings.
#[derive(Debug, Clone)]
pub struct RecipeText {
    /// Comment lines at the top.
    pub head: Vec<String>,
    /// The run folder, as written in the recipe.
    pub out: PathBuf,
    /// Source and target language, if known.
    pub languages: Option<[String; 2]>,
    /// Training pairs, with paths as written in the recipe.
    pub train: Corpus,
    /// Validation pairs.
    pub valid: Option<Corpus>,
}

/// Column at which comments start, unless a value is longer.
const REASONS: usize = 32;

/// The recipe as text.
pub fn render(recipe: &RecipeText, settings: &[Setting]) -> String {
    let mut text: String = recipe.head.iter().map(|line| format!("# {line}\n")).collect();
    text += &format!("\nout = {}\nseed = 1\n\n[data]\n", path(&recipe.out));
    if let Some([source, target]) = &recipe.languages {
        text += &format!("source_language = {}\ntarget_language = {}\n", quoted(source), quoted(target));
    }
    text += &format!("train = {}\n", corpus(&recipe.train));
    if let Some(valid) = &recipe.valid {
        text += &format!("valid = {}\n", corpus(valid));
    }
    let mut section = "data";
    for Setting { key, value, reason } in settings {
        let (own, key) = key.split_once('.').unwrap_or(("", key));
        if own != section {
            text += &format!("\n[{own}]\n");
            section = own;
        }
        let line = format!("{key} = {value}");
        text +=
            if reason.is_empty() { format!("{line}\n") } else { format!("{line:REASONS$}  # {reason}\n") }
                .as_str();
    }
    text
}

/// A corpus as an inline table.
fn corpus(corpus: &Corpus) -> String {
    match corpus {
        Corpus::LineFiles { source, target } => {
            format!("{{ source = {}, target = {} }}", path(source), path(target))
        }
        Corpus::Tsv { path: file, source_column: 0, target_column: 1 } => {
            format!("{{ tsv = {} }}", path(file))
        }
        Corpus::Tsv { path: file, source_column, target_column } => format!(
            "{{ tsv = {}, source_column = {}, target_column = {} }}",
            path(file),
            source_column + 1,
            target_column + 1
        ),
        Corpus::SeveralFiles { sources, target } => {
            let sources: Vec<String> = sources.iter().map(|source| path(source)).collect();
            format!("{{ sources = [{}], target = {} }}", sources.join(", "), path(target))
        }
        Corpus::SeveralColumns { path: file, source_columns, target_column } => {
            let sources: Vec<String> = source_columns.iter().map(|column| (column + 1).to_string()).collect();
            let (file, sources, target) = (path(file), sources.join(", "), target_column + 1);
            format!("{{ tsv = {file}, source_columns = [{sources}], target_column = {target} }}")
        }
        Corpus::Jsonl { path: file, source_field, target_field } => format!(
            "{{ jsonl = {}, source_field = {}, target_field = {} }}",
            path(file),
            quoted(source_field),
            quoted(target_field)
        ),
        Corpus::Csv { path: file, source_column, target_column } => format!(
            "{{ csv = {}, source_column = {source_column}, target_column = {target_column} }}",
            path(file)
        ),
        Corpus::Conll { path: file, .. } => format!("{{ conll = {} }}", path(file)),
        Corpus::TokensJsonl { path: file, words_field, tags_field } => format!(
            "{{ jsonl = {}, source_field = {}, target_field = {} }}",
            path(file),
            quoted(words_field),
            quoted(tags_field)
        ),
        Corpus::Text { path: file } => format!("{{ text = {} }}", path(file)),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Path of a file as written in a recipe in `folder`: relative if both are, else absolute.
///
/// ```
/// use polyhead_train::init::relative;
/// let names = [("", "data/a.en"), ("data", "data/a.en"), ("x/y", "data/a.en"), ("x", "./x/a.en")];
/// let found = names.map(|(folder, path)| relative(folder.as_ref(), path.as_ref()).display().to_string());
/// assert_eq!(found, ["data/a.en", "a.en", "../../data/a.en", "a.en"]);
/// ```
pub fn relative(folder: &Path, path: &Path) -> PathBuf {
    let plain = |path: &Path| -> Option<Vec<PathBuf>> {
        let parts = path.components().filter(|part| *part != Component::CurDir);
        parts
            .map(|part| matches!(part, Component::Normal(_)).then(|| PathBuf::from(part.as_os_str())))
            .collect()
    };
    // A folder with `..` would have to be resolved on disk: a symbolic link may lead elsewhere.
    let (Some(folder), Some(parts)) = (plain(folder), plain(path)) else {
        return if path.is_absolute() || plain(folder).is_some_and(|parts| parts.is_empty()) {
            path.to_owned()
        } else {
            // Only an empty path cannot be made absolute.
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
        };
    };
    let same = folder.iter().zip(&parts).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n(PathBuf::from(".."), folder.len() - same);
    up.chain(parts.into_iter().skip(same)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::init::{ChoiceOptions, CorpusStatistics, SideStatistics, choose};

    #[test]
    fn the_text_is_a_valid_recipe() {
        let side = |words| SideStatistics {
            words,
            chars: 5 * words,
            longest: 90,
            kinds: 900,
            once: 400,
            repeated: 500,
        };
        let recipe = RecipeText {
            head: vec!["A \"head\".".into()],
            out: "runs/a b".into(),
            languages: Some(["en".into(), "de".into()]),
            train: Corpus::Tsv { path: "a\"\\b.tsv".into(), source_column: 2, target_column: 0 },
            valid: Some(Corpus::LineFiles { source: "v.en".into(), target: "v.de".into() }),
        };
        for pairs in [10, 3_000, 30_000, 300_000, 3_000_000, 30_000_000] {
            let stats = CorpusStatistics { pairs, sides: [side(9 * pairs), side(8 * pairs)] };
            for valid in [None, Some(3000)] {
                let recipe = RecipeText { valid: valid.and(recipe.valid.clone()), ..recipe.clone() };
                let text =
                    render(&recipe, &choose(&stats, ChoiceOptions { valid, ..ChoiceOptions::default() }));
                let config = config::parse(&text, "x", Path::new("f"), &[])
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(config.out, Path::new("f/runs/a b"));
                assert_eq!(
                    config.data.train[0].corpus("x").unwrap().source_path(),
                    Path::new("f/a\"\\b.tsv")
                );
                assert_eq!(!config.data.valid.is_empty(), valid.is_some());
                assert_eq!(config.data.target_language.as_deref(), Some("de"));
            }
        }
    }

    #[test]
    fn paths_with_parent_folders_become_absolute() {
        let absolute = |path: &str| std::path::absolute(path).unwrap();
        assert_eq!(relative(Path::new("../x"), Path::new("a.en")), absolute("a.en"));
        assert_eq!(relative(Path::new("x"), &absolute("a.en")), absolute("a.en"));
        assert_eq!(relative(Path::new(""), Path::new("../a.en")), Path::new("../a.en"));
        assert_eq!(relative(Path::new("x"), Path::new("../a.en")), absolute("../a.en"));
    }
}
