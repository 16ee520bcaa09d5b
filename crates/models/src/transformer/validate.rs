//! Validation of Transformer configs.

use super::config::{
    AttentionPattern, Combination, CrossProjection, Dropout, PositionConfig, RotaryScale, StackConfig, Tie,
};
use super::sources::MAX_SOURCES;
use super::{TransformerConfig, TransformerEncoderConfig};
use crate::copying::{CopyKeys, Copying};
use crate::{Error, Result};

/// Upper bound of every size, so that the product of two sizes does not overflow.
const MAX_SIZE: usize = 1 << 24;
const MAX_LAYERS: usize = 1024;

impl TransformerConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        self.check_sizes(&mut problems);
        self.check_ids(&mut problems);
        self.check_tie(&mut problems);
        self.check_sources(&mut problems);
        self.copy_keys().check(&mut problems);
        let stacks = [("encoder", &self.encoder), ("decoder", &self.decoder)];
        for (name, stack) in stacks {
            check_stack(name, stack, self.d_model, &mut problems);
        }
        check_position(self.position, [self.d_model, self.max_len], &stacks, &mut problems);
        check_pattern("encoder_sight", &self.encoder_sight, &mut problems);
        check_pattern("decoder_sight", &self.decoder_sight, &mut problems);
        check_dropout(&self.dropout, &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// The keys that concern copying.
    pub(super) fn copy_keys(&self) -> CopyKeys {
        let &Self { copy, coverage, unknown_id, .. } = self;
        CopyKeys { copy, coverage, vocab_sizes: [self.source_vocab_size, self.target_vocab_size], unknown_id }
    }

    fn check_sizes(&self, problems: &mut Vec<String>) {
        size("source_vocab_size", self.source_vocab_size, problems);
        size("target_vocab_size", self.target_vocab_size, problems);
        size("d_model", self.d_model, problems);
        size("max_len", self.max_len, problems);
        check_epsilon(self.norm_epsilon, problems);
    }

    fn check_ids(&self, problems: &mut Vec<String>) {
        // Padding occurs in both languages; start and end tokens only in the target.
        let both = self.source_vocab_size.min(self.target_vocab_size);
        let ids = [
            ("pad_id", self.pad_id, both),
            ("end_id", self.end_id, self.target_vocab_size),
            ("start_id", self.start_id, self.target_vocab_size),
        ];
        for (name, id, limit) in ids {
            if id as usize >= limit {
                problems.push(format!("{name} is {id}, expected an id below the vocabulary size {limit}"));
            }
        }
    }

    fn check_sources(&self, problems: &mut Vec<String>) {
        let n = self.sources;
        if n == 0 || n > MAX_SOURCES {
            problems.push(format!("sources is {n}, expected 1 to {MAX_SOURCES}"));
        }
        if n < 2 {
            return;
        }
        if self.copy != Copying::None {
            problems.push(format!("copying from {n} sources, expected copy = \"none\""));
        }
        if self.combination != Combination::Flat {
            return;
        }
        if self.cross_projection == CrossProjection::Shared {
            problems.push(
                "flat attention to several sources with cross_projection \"shared\", expected \"per_layer\""
                    .into(),
            );
        }
        let StackConfig { n_heads, n_key_heads, .. } = self.decoder;
        if let Some(n) = n_key_heads.filter(|n| *n != n_heads) {
            problems.push(format!(
                "flat attention to several sources with decoder.n_key_heads {n}, expected n_heads, {n_heads}"
            ));
        }
    }

    fn check_tie(&self, problems: &mut Vec<String>) {
        let sizes = [self.source_vocab_size, self.target_vocab_size];
        if matches!(self.tie, Tie::All | Tie::SourceTarget) && sizes[0] != sizes[1] {
            problems.push(format!(
                "source and target share an embedding but have {} and {} ids, expected equal sizes",
                sizes[0], sizes[1]
            ));
        }
    }
}

impl TransformerEncoderConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        size("vocab_size", self.vocab_size, &mut problems);
        size("d_model", self.d_model, &mut problems);
        size("max_len", self.max_len, &mut problems);
        size("labels", self.labels.len(), &mut problems);
        check_epsilon(self.norm_epsilon, &mut problems);
        token("pad_id", self.pad_id, self.vocab_size, &mut problems);
        let stack = ("encoder", &self.encoder);
        check_stack(stack.0, stack.1, self.d_model, &mut problems);
        check_position(self.position, [self.d_model, self.max_len], &[stack], &mut problems);
        check_pattern("encoder_sight", &self.encoder_sight, &mut problems);
        check_dropout(&self.dropout, &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }
}

/// Checks the options of a stack alone.
pub(crate) fn stack_options(
    stack: (&str, &StackConfig),
    (d_model, max_len): (usize, usize),
    (epsilon, position, pattern): (f32, PositionConfig, (&str, &AttentionPattern)),
    dropout: &Dropout,
    problems: &mut Vec<String>,
) {
    check_epsilon(epsilon, problems);
    check_stack(stack.0, stack.1, d_model, problems);
    check_position(position, [d_model, max_len], &[stack], problems);
    check_pattern(pattern.0, pattern.1, problems);
    check_dropout(dropout, problems);
}

fn check_epsilon(epsilon: f32, problems: &mut Vec<String>) {
    if !(epsilon > 0.0 && epsilon.is_finite()) {
        problems.push(format!("norm_epsilon is {epsilon}, expected a number above 0"));
    }
}

fn check_position(
    position: PositionConfig,
    [d_model, max_len]: [usize; 2],
    stacks: &[(&str, &StackConfig)],
    problems: &mut Vec<String>,
) {
    match position {
        PositionConfig::None {} | PositionConfig::Learned {} | PositionConfig::Sinusoidal { .. } => {}
        PositionConfig::Relative { max_distance } => size("position.max_distance", max_distance, problems),
        PositionConfig::Rotary { base, scaling, .. } => {
            check_scaling(scaling, problems);
            if !(base > 1.0 && base.is_finite()) {
                problems.push(format!("position.base is {base}, expected a number above 1"));
            }
            for (name, stack) in stacks {
                let d_key = stack.d_key.unwrap_or(d_model / stack.n_heads.max(1));
                if max_len.saturating_mul(d_key) > MAX_SIZE {
                    problems.push(format!(
                        "{name}: {max_len} rotary positions of width {d_key} exceed {MAX_SIZE} elements"
                    ));
                }
                if d_key % 2 == 1 {
                    problems.push(format!(
                        "{name}.d_key is {d_key}, expected an even number for rotary positions"
                    ));
                }
            }
        }
    }
}

fn check_scaling(scaling: Option<RotaryScale>, problems: &mut Vec<String>) {
    let (numbers, original) = match scaling {
        None => return,
        Some(RotaryScale::Linear { factor }) => (vec![("factor", factor)], 1),
        Some(RotaryScale::Llama3 { factor, low, high, original }) => {
            if high <= low {
                problems.push(format!("position.scaling.high is {high}, expected more than low, {low}"));
            }
            (vec![("factor", factor), ("low", low)], original)
        }
        Some(RotaryScale::Yarn { factor, fast, slow, original, attention }) => {
            let numbers = vec![("factor", factor), ("fast", fast), ("slow", slow), ("attention", attention)];
            (numbers, original)
        }
    };
    for (name, number) in numbers {
        if !(number > 0.0 && number.is_finite()) {
            problems.push(format!("position.scaling.{name} is {number}, expected a number above 0"));
        }
    }
    size("position.scaling.original", original, problems);
}

pub(crate) fn size(name: &str, size: usize, problems: &mut Vec<String>) {
    if size == 0 || size > MAX_SIZE {
        problems.push(format!("{name} is {size}, expected 1 to {MAX_SIZE}"));
    }
}

/// Checks a probability of dropout under the key `name`.
pub(crate) fn dropout(name: &str, probability: f32, problems: &mut Vec<String>) {
    if !(0.0..1.0).contains(&probability) {
        problems.push(format!("{name} is {probability}, expected at least 0 and below 1"));
    }
}

/// Checks the id of a special token.
pub(crate) fn token(name: &str, id: u32, vocab_size: usize, problems: &mut Vec<String>) {
    if id as usize >= vocab_size {
        problems.push(format!("{name} is {id}, expected an id below the vocabulary size {vocab_size}"));
    }
}

fn check_stack(name: &str, stack: &StackConfig, d_model: usize, problems: &mut Vec<String>) {
    if stack.n_layers == 0 || stack.n_layers > MAX_LAYERS {
        problems.push(format!("{name}.n_layers is {}, expected 1 to {MAX_LAYERS}", stack.n_layers));
    }
    size(&format!("{name}.n_heads"), stack.n_heads, problems);
    size(&format!("{name}.d_ff"), stack.d_ff, problems);
    for (key, value) in
        [("n_key_heads", stack.n_key_heads), ("d_key", stack.d_key), ("d_value", stack.d_value)]
    {
        if let Some(value) = value {
            size(&format!("{name}.{key}"), value, problems);
        }
    }
    let heads = stack.n_heads.max(1);
    if (stack.d_key.is_none() || stack.d_value.is_none()) && !d_model.is_multiple_of(heads) {
        problems.push(format!(
            "{name}.n_heads is {heads}, which does not divide d_model {d_model}; set d_key and d_value"
        ));
    }
    let key_heads = stack.n_key_heads.unwrap_or(heads).max(1);
    if !heads.is_multiple_of(key_heads) {
        problems.push(format!("{name}.n_key_heads is {key_heads}, expected a divisor of n_heads {heads}"));
    }
    let widest = [stack.d_key, stack.d_value].into_iter().flatten().max().unwrap_or(0);
    if widest.saturating_mul(heads) > MAX_SIZE {
        problems.push(format!("{name}: {heads} heads of width {widest} exceed {MAX_SIZE} elements"));
    }
}

fn check_pattern(name: &str, pattern: &AttentionPattern, problems: &mut Vec<String>) {
    match *pattern {
        AttentionPattern::Full => {}
        AttentionPattern::Window { distance } | AttentionPattern::GlobalWindow { distance, .. } => {
            size(&format!("{name}.distance"), distance, problems);
        }
        AttentionPattern::Dilated { distance, dilation } => {
            size(&format!("{name}.distance"), distance, problems);
            size(&format!("{name}.dilation"), dilation, problems);
        }
    }
}

fn check_dropout(dropout: &Dropout, problems: &mut Vec<String>) {
    let parts = [
        ("embedding", dropout.embedding),
        ("residual", dropout.residual),
        ("attention", dropout.attention),
        ("activation", dropout.activation),
    ];
    for (name, probability) in parts {
        if !(0.0..1.0).contains(&probability) {
            problems.push(format!("dropout.{name} is {probability}, expected at least 0 and below 1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::config::RotaryPairing;

    fn problem(change: impl FnOnce(&mut TransformerConfig)) -> String {
        let mut config = TransformerConfig::tiny(100);
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn presets_are_valid() {
        for name in ["tiny", "small", "base", "big"] {
            TransformerConfig::named(name, 37_000).unwrap().validate().unwrap();
        }
    }

    #[test]
    fn problems_are_named() {
        let rotary = PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves, scaling: None };
        let cases: Vec<(String, &str)> = vec![
            (problem(|c| c.d_model = 0), "d_model is 0, expected 1 to 16777216"),
            (problem(|c| c.encoder.n_heads = 3), "encoder.n_heads is 3, which does not divide d_model 128"),
            (problem(|c| c.decoder.n_layers = 0), "decoder.n_layers is 0, expected 1 to 1024"),
            (
                problem(|c| c.decoder.n_key_heads = Some(3)),
                "decoder.n_key_heads is 3, expected a divisor of n_heads 4",
            ),
            (problem(|c| c.target_vocab_size = 90), "have 100 and 90 ids, expected equal sizes"),
            (problem(|c| c.pad_id = 100), "pad_id is 100, expected an id below the vocabulary size 100"),
            (problem(|c| c.dropout.residual = 1.0), "dropout.residual is 1, expected at least 0 and below 1"),
            (problem(|c| c.norm_epsilon = f32::NAN), "norm_epsilon is NaN"),
            (
                problem(|c| (c.position, c.encoder.d_key) = (rotary, Some(31))),
                "encoder.d_key is 31, expected an even number for rotary positions",
            ),
            (
                problem(|c| (c.position, c.max_len) = (rotary, (1 << 19) + 1)),
                "encoder: 524289 rotary positions of width 32 exceed 16777216 elements",
            ),
            (
                problem(|c| c.position = PositionConfig::Relative { max_distance: 0 }),
                "position.max_distance is 0, expected 1 to 16777216",
            ),
            (problem(|c| c.sources = 5), "sources is 5, expected 1 to 4"),
            (
                problem(|c| (c.sources, c.copy) = (2, Copying::PointerGenerator)),
                "copying from 2 sources, expected copy = \"none\"",
            ),
            (
                problem(|c| (c.sources, c.cross_projection) = (2, CrossProjection::Shared)),
                "cross_projection \"shared\", expected \"per_layer\"",
            ),
            (
                problem(|c| (c.sources, c.decoder.n_key_heads) = (2, Some(2))),
                "with decoder.n_key_heads 2, expected n_heads, 4",
            ),
            (
                problem(|c| c.decoder_sight = AttentionPattern::Dilated { distance: 1, dilation: 0 }),
                "decoder_sight.dilation is 0, expected 1 to 16777216",
            ),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found} does not say: {expected}");
        }
    }

    #[test]
    fn heads_with_explicit_widths_need_not_divide_d_model() {
        let mut config = TransformerConfig::tiny(100);
        (config.encoder.n_heads, config.encoder.d_key, config.encoder.d_value) = (3, Some(20), Some(10));
        config.validate().unwrap();
    }
}
