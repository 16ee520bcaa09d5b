//! Whether a config describes a model that can be built.

use super::config::{Dropout, PositionConfig, Sight, StackConfig, Tie};
use super::{TransformerConfig, TransformerEncoderConfig};
use crate::{Error, Result};

/// No size is larger, so that products of two sizes can be counted.
const MOST: usize = 1 << 24;
const MOST_LAYERS: usize = 1024;

impl TransformerConfig {
    /// Checks that sizes and choices fit together; the error lists all that do not.
    pub fn validate(&self) -> Result<()> {
        let mut faults = Vec::new();
        self.check_sizes(&mut faults);
        self.check_ids(&mut faults);
        self.check_tie(&mut faults);
        let stacks = [("encoder", &self.encoder), ("decoder", &self.decoder)];
        for (name, stack) in stacks {
            check_stack(name, stack, self.d_model, &mut faults);
        }
        check_position(self.position, [self.d_model, self.max_len], &stacks, &mut faults);
        check_sight("encoder_sight", &self.encoder_sight, &mut faults);
        check_sight("decoder_sight", &self.decoder_sight, &mut faults);
        check_dropout(&self.dropout, &mut faults);
        if faults.is_empty() { Ok(()) } else { Err(Error::Config { message: faults.join("; ") }) }
    }

    fn check_sizes(&self, faults: &mut Vec<String>) {
        size("source_vocab_size", self.source_vocab_size, faults);
        size("target_vocab_size", self.target_vocab_size, faults);
        size("d_model", self.d_model, faults);
        size("max_len", self.max_len, faults);
        check_epsilon(self.norm_epsilon, faults);
    }

    fn check_ids(&self, faults: &mut Vec<String>) {
        // Padding stands in both languages; a sentence is started and ended by the decoder.
        let both = self.source_vocab_size.min(self.target_vocab_size);
        let ids = [
            ("pad_id", self.pad_id, both),
            ("end_id", self.end_id, self.target_vocab_size),
            ("start_id", self.start_id, self.target_vocab_size),
        ];
        for (name, id, limit) in ids {
            if id as usize >= limit {
                faults.push(format!("{name} is {id}, expected an id below the vocabulary size {limit}"));
            }
        }
    }

    fn check_tie(&self, faults: &mut Vec<String>) {
        let sizes = [self.source_vocab_size, self.target_vocab_size];
        if matches!(self.tie, Tie::All | Tie::SourceTarget) && sizes[0] != sizes[1] {
            faults.push(format!(
                "source and target share an embedding, but have {} and {} ids, expected as many",
                sizes[0], sizes[1]
            ));
        }
    }
}

impl TransformerEncoderConfig {
    /// Checks that sizes and choices fit together; the error lists all that do not.
    ///
    /// # Errors
    /// If they do not.
    pub fn validate(&self) -> Result<()> {
        let mut faults = Vec::new();
        size("vocab_size", self.vocab_size, &mut faults);
        size("d_model", self.d_model, &mut faults);
        size("max_len", self.max_len, &mut faults);
        size("labels", self.labels.len(), &mut faults);
        check_epsilon(self.norm_epsilon, &mut faults);
        if self.pad_id as usize >= self.vocab_size {
            let limit = self.vocab_size;
            faults
                .push(format!("pad_id is {}, expected an id below the vocabulary size {limit}", self.pad_id));
        }
        let stack = ("encoder", &self.encoder);
        check_stack(stack.0, stack.1, self.d_model, &mut faults);
        check_position(self.position, [self.d_model, self.max_len], &[stack], &mut faults);
        check_sight("encoder_sight", &self.encoder_sight, &mut faults);
        check_dropout(&self.dropout, &mut faults);
        if faults.is_empty() { Ok(()) } else { Err(Error::Config { message: faults.join("; ") }) }
    }
}

fn check_epsilon(epsilon: f32, faults: &mut Vec<String>) {
    if !(epsilon > 0.0 && epsilon.is_finite()) {
        faults.push(format!("norm_epsilon is {epsilon}, expected a number above 0"));
    }
}

fn check_position(
    position: PositionConfig,
    [d_model, max_len]: [usize; 2],
    stacks: &[(&str, &StackConfig)],
    faults: &mut Vec<String>,
) {
    match position {
        PositionConfig::None {} | PositionConfig::Learned {} => {}
        PositionConfig::Sinusoidal { .. } => {
            if d_model % 2 == 1 {
                faults.push(format!("d_model is {d_model}, expected an even number for sinusoids"));
            }
        }
        PositionConfig::Relative { max_distance } => size("position.max_distance", max_distance, faults),
        PositionConfig::Rotary { base, .. } => {
            if !(base > 1.0 && base.is_finite()) {
                faults.push(format!("position.base is {base}, expected a number above 1"));
            }
            for (name, stack) in stacks {
                let d_key = stack.d_key.unwrap_or(d_model / stack.n_heads.max(1));
                if max_len.saturating_mul(d_key) > MOST {
                    faults.push(format!(
                        "{name}: {max_len} rotary positions of width {d_key} are more than {MOST} numbers"
                    ));
                }
                if d_key % 2 == 1 {
                    faults.push(format!(
                        "{name}.d_key is {d_key}, expected an even number for rotary positions"
                    ));
                }
            }
        }
    }
}

pub(crate) fn size(name: &str, size: usize, faults: &mut Vec<String>) {
    if size == 0 || size > MOST {
        faults.push(format!("{name} is {size}, expected 1 to {MOST}"));
    }
}

fn check_stack(name: &str, stack: &StackConfig, d_model: usize, faults: &mut Vec<String>) {
    if stack.n_layers == 0 || stack.n_layers > MOST_LAYERS {
        faults.push(format!("{name}.n_layers is {}, expected 1 to {MOST_LAYERS}", stack.n_layers));
    }
    size(&format!("{name}.n_heads"), stack.n_heads, faults);
    size(&format!("{name}.d_ff"), stack.d_ff, faults);
    for (part, given) in
        [("n_key_heads", stack.n_key_heads), ("d_key", stack.d_key), ("d_value", stack.d_value)]
    {
        if let Some(given) = given {
            size(&format!("{name}.{part}"), given, faults);
        }
    }
    let heads = stack.n_heads.max(1);
    if (stack.d_key.is_none() || stack.d_value.is_none()) && !d_model.is_multiple_of(heads) {
        faults.push(format!(
            "{name}.n_heads is {heads}, which does not divide d_model {d_model}; give d_key and d_value"
        ));
    }
    let key_heads = stack.n_key_heads.unwrap_or(heads).max(1);
    if !heads.is_multiple_of(key_heads) {
        faults.push(format!("{name}.n_key_heads is {key_heads}, expected a divisor of n_heads {heads}"));
    }
    let widest = [stack.d_key, stack.d_value].into_iter().flatten().max().unwrap_or(0);
    if widest.saturating_mul(heads) > MOST {
        faults.push(format!("{name}: {heads} heads of width {widest} are more than {MOST} numbers"));
    }
}

fn check_sight(name: &str, sight: &Sight, faults: &mut Vec<String>) {
    match *sight {
        Sight::Full => {}
        Sight::Window { distance } | Sight::GlobalWindow { distance, .. } => {
            size(&format!("{name}.distance"), distance, faults);
        }
        Sight::Dilated { distance, dilation } => {
            size(&format!("{name}.distance"), distance, faults);
            size(&format!("{name}.dilation"), dilation, faults);
        }
    }
}

fn check_dropout(dropout: &Dropout, faults: &mut Vec<String>) {
    let parts = [
        ("embedding", dropout.embedding),
        ("residual", dropout.residual),
        ("attention", dropout.attention),
        ("activation", dropout.activation),
    ];
    for (name, probability) in parts {
        if !(0.0..1.0).contains(&probability) {
            faults.push(format!("dropout.{name} is {probability}, expected a number from 0 to below 1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::config::RotaryPairing;

    fn fault(change: impl FnOnce(&mut TransformerConfig)) -> String {
        let mut config = TransformerConfig::tiny(100);
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn presets_are_sound() {
        for name in ["tiny", "small", "base", "big"] {
            TransformerConfig::named(name, 37_000).unwrap().validate().unwrap();
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let rotary = PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves };
        let cases: Vec<(String, &str)> = vec![
            (fault(|c| c.d_model = 0), "d_model is 0, expected 1 to 16777216"),
            (fault(|c| c.encoder.n_heads = 3), "encoder.n_heads is 3, which does not divide d_model 128"),
            (fault(|c| c.decoder.n_layers = 0), "decoder.n_layers is 0, expected 1 to 1024"),
            (
                fault(|c| c.decoder.n_key_heads = Some(3)),
                "decoder.n_key_heads is 3, expected a divisor of n_heads 4",
            ),
            (fault(|c| c.target_vocab_size = 90), "have 100 and 90 ids, expected as many"),
            (fault(|c| c.pad_id = 100), "pad_id is 100, expected an id below the vocabulary size 100"),
            (
                fault(|c| c.dropout.residual = 1.0),
                "dropout.residual is 1, expected a number from 0 to below 1",
            ),
            (fault(|c| c.norm_epsilon = f32::NAN), "norm_epsilon is NaN"),
            (
                fault(|c| (c.position, c.encoder.d_key) = (rotary, Some(31))),
                "encoder.d_key is 31, expected an even number for rotary positions",
            ),
            (
                fault(|c| (c.position, c.max_len) = (rotary, (1 << 19) + 1)),
                "encoder: 524289 rotary positions of width 32 are more than 16777216 numbers",
            ),
            (
                fault(|c| c.position = PositionConfig::Relative { max_distance: 0 }),
                "position.max_distance is 0, expected 1 to 16777216",
            ),
            (
                fault(|c| c.decoder_sight = Sight::Dilated { distance: 1, dilation: 0 }),
                "decoder_sight.dilation is 0, expected 1 to 16777216",
            ),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found} does not say: {expected}");
        }
    }

    #[test]
    fn heads_with_a_width_of_their_own_need_not_divide() {
        let mut config = TransformerConfig::tiny(100);
        (config.encoder.n_heads, config.encoder.d_key, config.encoder.d_value) = (3, Some(20), Some(10));
        config.validate().unwrap();
    }
}
