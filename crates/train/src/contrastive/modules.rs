//! The files by which a finished model is a folder of sentence-transformers: the mean of the states, of length 1.

use std::path::Path;

use polyhead_text::output::Output;
use serde_json::{Value, json};

use crate::{Error, Result};

/// Folder of the pooling module's settings.
const POOLING: &str = "1_Pooling";

/// Writes the modules of a model of this width, for texts of at most `longest` tokens.
pub(crate) fn save(folder: &Path, width: usize, longest: usize) -> Result<()> {
    let kinds = [("", "Transformer"), (POOLING, "Pooling"), ("2_Normalize", "Normalize")];
    let module = |(index, (path, kind)): (usize, (&str, &str))| {
        let class = format!("sentence_transformers.models.{kind}");
        json!({ "idx": index, "name": index.to_string(), "path": path, "type": class })
    };
    let modules: Value = kinds.into_iter().enumerate().map(module).collect();
    let pooling = json!({
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": false,
        "pooling_mode_mean_tokens": true,
        "pooling_mode_max_tokens": false,
        "pooling_mode_mean_sqrt_len_tokens": false,
    });
    let settings = json!({ "max_seq_length": longest, "do_lower_case": false });
    for name in [POOLING, "2_Normalize"] {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).map_err(|error| Error::io(&path, "create the folder", error))?;
    }
    let files = [
        ("modules.json".to_owned(), modules),
        (format!("{POOLING}/config.json"), pooling),
        ("sentence_bert_config.json".to_owned(), settings),
    ];
    for (name, value) in files {
        let text = serde_json::to_string_pretty(&value).expect("a value is always JSON") + "\n";
        Output::save(folder.join(name), text.as_bytes())?;
    }
    Ok(())
}
