//! The embedded files of the pages, as they are in `assets/`: plain HTML, CSS and ES modules without a build step.

/// An embedded file.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its path relative to the page.
    pub path: &'static str,
    /// Its content.
    pub text: &'static str,
}

impl Asset {
    /// Its file extension.
    pub fn extension(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        match self.extension() {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            "json" => "application/json",
            _ => "text/plain; charset=utf-8",
        }
    }
}

/// A file of the explorer by its path; `index.html` for an empty path.
pub fn find(path: &str) -> Option<&'static Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    ALL.iter().find(|asset| asset.path == path)
}

/// A file of the API documentation page, which shares style and modules with the explorer.
pub fn find_docs(path: &str) -> Option<&'static Asset> {
    let is_shared = |asset: &&Asset| asset.extension() != "html";
    DOCS.iter().chain(ALL.iter().filter(is_shared)).find(|asset| asset.path == path)
}

macro_rules! assets {
    ($(#[$about:meta])* $name:ident: $($path:literal),* $(,)?) => {
        $(#[$about])*
        pub const $name: &[Asset] =
            &[$(Asset { path: $path, text: include_str!(concat!("../assets/", $path)) }),*];
    };
}

assets![
    /// The API documentation page and `openapi.json`; it also uses style and modules of the explorer.
    DOCS:
    "openapi.json",
    "docs/index.html",
    "docs/docs.css",
    "docs/attempt.js",
    "docs/curl.js",
    "docs/main.js",
    "docs/operation.js",
    "docs/schema.js",
];

assets![
    /// All files of the explorer.
    ALL:
    "index.html",
    "icon.svg",
    "css/base.css",
    "css/layout.css",
    "css/parts.css",
    "css/views.css",
    "css/lessons.css",
    "css/text.css",
    "css/vectors.css",
    "css/image.css",
    "js/api.js",
    "js/app.js",
    "js/arrays.js",
    "js/colour.js",
    "js/comparison.js",
    "js/comparison_page.js",
    "js/controls.js",
    "js/dom.js",
    "js/encoder_head.js",
    "js/examples.js",
    "js/figures.js",
    "js/file_bar.js",
    "js/format.js",
    "js/frame.js",
    "js/image_bar.js",
    "js/keys.js",
    "js/lines.js",
    "js/main.js",
    "js/map.js",
    "js/maths.js",
    "js/picker.js",
    "js/picture.js",
    "js/prediction.js",
    "js/prompt.js",
    "js/reader.js",
    "js/result.js",
    "js/scatter.js",
    "js/sentence.js",
    "js/sound_bar.js",
    "js/switches.js",
    "js/text_bar.js",
    "js/theme.js",
    "js/thumbnails.js",
    "js/tokens.js",
    "js/trace.js",
    "js/views/beam.js",
    "js/views/contributions.js",
    "js/views/encoder.js",
    "js/views/heads.js",
    "js/views/heat_map.js",
    "js/views/image.js",
    "js/views/image_heads.js",
    "js/views/intervene.js",
    "js/views/intervene_encoder.js",
    "js/views/intervene_text.js",
    "js/views/lens.js",
    "js/views/lessons.js",
    "js/views/model.js",
    "js/views/neurons.js",
    "js/views/sound.js",
    "js/views/text.js",
    "js/views/translate.js",
    "js/views/vectors.js",
    "js/lessons/beam.js",
    "js/lessons/cache.js",
    "js/lessons/contexts.js",
    "js/lessons/cost.js",
    "js/lessons/embeddings.js",
    "js/lessons/lookup.js",
    "js/lessons/masks.js",
    "js/lessons/multi_head.js",
    "js/lessons/positions.js",
    "js/lessons/ratios.js",
    "js/lessons/scaled.js",
    "js/lessons/self_attention.js",
    "js/lessons/smoothing.js",
    "js/lessons/two_vectors.js",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut folders = vec![root.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/"));
                }
            }
        }
        found.sort();
        let mut served: Vec<&str> = ALL.iter().chain(DOCS).map(|asset| asset.path).collect();
        served.sort_unstable();
        assert_eq!(found, served);
    }
}
