//! Settings by the size of a corpus. These are rules of thumb: small corpora need small vocabularies and models, more dropout
//! and more epochs (Sennrich & Zhang 2019, "Revisiting low-resource neural machine translation").

use super::statistics::{CorpusStatistics, SideStatistics};

/// Below this number of pairs a model mostly memorises.
pub const FEW_PAIRS: u64 = 1000;
/// Smallest vocabulary of subwords; below it, characters are used.
const MIN_SUBWORDS: u64 = 500;
/// Maximum number of distinct words of a side with a closed vocabulary.
const MAX_CLOSED: u64 = 1000;
/// Largest default of data.max_length, the end token included.
const MAX_LENGTH: u64 = 1000;

/// One line of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Section and key, as in `model.preset`.
    pub key: &'static str,
    /// The value as TOML.
    pub value: String,
    /// The reason, as a comment in the recipe.
    pub reason: String,
}

/// Token unit of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenUnit {
    Subword,
    Word,
    Character,
}

impl TokenUnit {
    fn name(self) -> &'static str {
        match self {
            Self::Subword => "bpe",
            Self::Word => "word",
            Self::Character => "character",
        }
    }

    /// Estimated tokens of a side, end tokens included.
    fn tokens(self, side: &SideStatistics, pairs: u64) -> u64 {
        pairs
            + match self {
                // About four characters per subword.
                Self::Subword => side.chars / 4,
                Self::Word => side.words,
                Self::Character => side.chars,
            }
    }
}

/// Settings for one range of corpus sizes.
#[derive(Debug, Clone, Copy)]
struct SizeClass {
    /// Upper bound of the number of pairs, exclusive.
    below: u64,
    vocab_size: u64,
    preset: &'static str,
    why_preset: &'static str,
    dropout: &'static str,
    max_tokens: u64,
    accumulate: u64,
    epochs: u64,
    patience: u64,
    peak: &'static str,
    /// Highest learning rate of a post-norm model.
    post_norm_peak: &'static str,
}

const TINY: &str = "3 + 3 layers, width 128: a larger model would memorise so little text";
const SMALL: &str = "3 + 3 layers, width 256: enough for some hundred thousand pairs";
const BASE: &str =
    "6 + 6 layers, width 512: the base model of Vaswani et al. 2017; \"big\" if time does not matter";

#[rustfmt::skip]
const SIZES: [SizeClass; 5] = [
    SizeClass { below: 5_000, vocab_size: 2_000, preset: "tiny", why_preset: TINY, dropout: "0.3", max_tokens: 1024,
           accumulate: 1, epochs: 150, patience: 15, peak: "0.002", post_norm_peak: "0.001" },
    SizeClass { below: 50_000, vocab_size: 8_000, preset: "tiny", why_preset: TINY, dropout: "0.3", max_tokens: 4096,
           accumulate: 1, epochs: 80, patience: 12, peak: "0.003", post_norm_peak: "0.001" },
    SizeClass { below: 500_000, vocab_size: 16_000, preset: "small", why_preset: SMALL, dropout: "0.2", max_tokens: 4096,
           accumulate: 1, epochs: 40, patience: 8, peak: "0.001", post_norm_peak: "0.0007" },
    SizeClass { below: 5_000_000, vocab_size: 32_000, preset: "base", why_preset: BASE, dropout: "0.1", max_tokens: 8192,
           accumulate: 3, epochs: 15, patience: 8, peak: "0.0007", post_norm_peak: "0.0007" },
    SizeClass { below: u64::MAX, vocab_size: 32_000, preset: "base", why_preset: BASE, dropout: "0.1", max_tokens: 8192,
           accumulate: 3, epochs: 5, patience: 8, peak: "0.0007", post_norm_peak: "0.0007" },
];

/// The programs that a model is trained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelUse {
    /// Polyhead alone: the model that learns best.
    #[default]
    Polyhead,
    /// Also Hugging Face's Marian classes: post-norm, sinusoidal positions, shared embeddings.
    Marian,
}

/// Options of [`choose`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChoiceOptions {
    /// Number of validation pairs; default: no validation set.
    pub valid: Option<u64>,
    /// Steps of an epoch; default: estimated from the number of characters and words.
    pub steps: Option<u64>,
    /// Programs that the model is trained for; default: Polyhead.
    pub model_use: ModelUse,
}

/// Chooses the settings for a corpus.
pub fn choose(stats: &CorpusStatistics, options: ChoiceOptions) -> Vec<Setting> {
    let ChoiceOptions { valid, model_use, .. } = options;
    let size = SIZES.iter().find(|size| stats.pairs < size.below).unwrap_or(&SIZES[SIZES.len() - 1]);
    let (units, vocab_size) = units(stats, size);
    let (max_length, length_setting) = max_length(stats, units);
    let max_tokens = size.max_tokens.max(max_length);
    let tokens = |side: usize| units[side].tokens(&stats.sides[side], stats.pairs);
    let estimate = || tokens(0).max(tokens(1)).div_ceil(max_tokens * size.accumulate);
    let steps = options.steps.unwrap_or_else(estimate);
    let mut settings = vec![length_setting];
    settings.extend(tokenizer(stats, units, (vocab_size, size.vocab_size)));
    settings.extend(model(units, size, model_use));
    settings.extend(schedule(size, steps, model_use));
    settings.extend(train(stats, size, max_tokens, valid));
    settings.extend(valid.into_iter().flat_map(|valid| validation(stats, units, size, (steps, valid))));
    settings.push(if valid.is_some() {
        let reason = "the best on the validation set: one checkpoint, or an average of several";
        setting("checkpoint.final", "\"compare\"", reason)
    } else {
        setting("checkpoint.final", "\"average_last\"", "without validation there is no best checkpoint")
    });
    settings.push(setting("checkpoint.average", "5", ""));
    settings.push(setting("checkpoint.beam_size", "5", "of the finished model"));
    settings
}

fn setting(key: &'static str, value: impl Into<String>, reason: impl Into<String>) -> Setting {
    Setting { key, value: value.into(), reason: reason.into() }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Token units of both sides, and the vocabulary size; 0 for all.
fn units(stats: &CorpusStatistics, size: &SizeClass) -> ([TokenUnit; 2], u64) {
    let units = [0, 1].map(|side| {
        let side = &stats.sides[side];
        if is_closed(side) {
            TokenUnit::Word
        } else if is_string(stats, side) {
            TokenUnit::Character
        } else {
            TokenUnit::Subword
        }
    });
    if !units.contains(&TokenUnit::Subword) {
        return (units, 0);
    }
    // Every repeated word could become a token, and one side has at least so many; a tenth less, since a tokeniser may
    // merge some of them.
    let most = stats.sides.iter().map(|side| side.repeated).max().unwrap_or(0) * 9 / 1000 * 100;
    if most < MIN_SUBWORDS {
        ([TokenUnit::Character; 2], 0)
    } else {
        ([TokenUnit::Subword; 2], size.vocab_size.min(most))
    }
}

/// True for a closed vocabulary of frequent words: phonemes, labels, digits.
fn is_closed(side: &SideStatistics) -> bool {
    side.kinds <= MAX_CLOSED && side.once * 20 <= side.kinds && side.words >= 20 * side.kinds
}

/// True for lines of one short word: spellings, numbers.
fn is_string(stats: &CorpusStatistics, side: &SideStatistics) -> bool {
    stats.mean(side.words) <= 1.2 && stats.mean(side.chars) <= 30.0
}

/// True if an output is right or wrong as a whole, rather than a better or worse translation.
fn is_exact(stats: &CorpusStatistics) -> bool {
    stats.sides.iter().all(|side| is_closed(side) || is_string(stats, side))
}

fn max_length(stats: &CorpusStatistics, units: [TokenUnit; 2]) -> (u64, Setting) {
    let longest = stats.sides.iter().map(|side| side.longest).max().unwrap_or(0);
    let (length, reason) = if units == [TokenUnit::Subword; 2] {
        (
            256,
            format!(
                "tokens; longer pairs are skipped and counted; the longest line has {longest} characters"
            ),
        )
    } else {
        ((longest + 1).clamp(32, MAX_LENGTH), format!("the longest line has {longest} characters"))
    };
    (length, setting("data.max_length", length.to_string(), reason))
}

fn tokenizer(
    stats: &CorpusStatistics,
    units: [TokenUnit; 2],
    (vocab_size, usual): (u64, u64),
) -> Vec<Setting> {
    let why = |unit: TokenUnit, side: &SideStatistics| match unit {
        TokenUnit::Subword => "frequent words whole, rare ones as subwords".to_owned(),
        TokenUnit::Word => format!("there are only {} different words", side.kinds),
        TokenUnit::Character if is_string(stats, side) => {
            "lines are single words, so letters are the tokens".to_owned()
        }
        TokenUnit::Character => "too little text to learn subwords from".to_owned(),
    };
    let [source, target] = &stats.sides;
    let mut settings = vec![setting("tokenizer.kind", quoted(units[0].name()), why(units[0], source))];
    if units[0] == units[1] {
        let reason = "one vocabulary for both sides, so that all embeddings share one table";
        settings.push(setting("tokenizer.sides", "\"shared\"", reason));
    } else {
        let reason = "the two sides have different kinds of tokens";
        settings.push(setting("tokenizer.target_kind", quoted(units[1].name()), why(units[1], target)));
        settings.push(setting("tokenizer.sides", "\"separate\"", reason));
    }
    let reason = match vocab_size {
        0 => "all that occur in the text".to_owned(),
        size if size < usual => {
            "about the number of repeated words; the text has hardly more subwords".to_owned()
        }
        _ => format!("usual for {} pairs: each token is frequent enough to be learned", stats.pairs),
    };
    settings.push(setting("tokenizer.vocab_size", vocab_size.to_string(), reason));
    settings
}

fn model(units: [TokenUnit; 2], size: &SizeClass, model_use: ModelUse) -> Vec<Setting> {
    let SizeClass { preset, why_preset, dropout, .. } = size;
    let mut settings = vec![setting("model.preset", quoted(preset), *why_preset)];
    if model_use == ModelUse::Marian {
        let reason = "Marian's classes have no other";
        settings.push(setting("model.norm_order", "\"post\"", reason));
        settings.push(setting("model.activation", "\"swish\"", "as in Marian's OPUS-MT models"));
        let position = "{ kind = \"sinusoidal\", layout = \"concatenated\" }";
        settings.push(setting("model.position", position, reason));
        if units[0] == units[1] {
            let reason = "one table for source, target and output, as in OPUS-MT models";
            settings.push(setting("model.tie", "\"all\"", reason));
        }
    } else if *preset != "base" {
        let reason =
            "stable at high learning rates (Xiong et al. 2020); polyhead init --for marian takes \"post\"";
        settings.push(setting("model.norm_order", "\"pre\"", reason));
        settings.push(setting("model.final_norm", "true", "needed with \"pre\""));
    }
    if units[0] != units[1] {
        settings.push(setting("model.tie", "\"target_output\"", "two vocabularies cannot share one table"));
    }
    let reason = "the less text, the more dropout, against memorising";
    let value =
        format!("{{ embedding = {dropout}, residual = {dropout}, attention = 0.0, activation = 0.0 }}");
    settings.push(setting("model.dropout", value, reason));
    settings
}

fn schedule(size: &SizeClass, steps: u64, model_use: ModelUse) -> Vec<Setting> {
    // A tenth of the run, rounded.
    let warmup = (steps * size.epochs / 10).clamp(50, 4000);
    let round = if warmup >= 1000 { 500 } else { 50 };
    let (peak, reason) = match model_use {
        ModelUse::Polyhead => {
            (size.peak, "narrow models take a higher learning rate; lower it if the loss diverges")
        }
        ModelUse::Marian => (size.post_norm_peak, "post-norm is unstable at higher learning rates"),
    };
    vec![
        setting("schedule.curve", "\"inverse_sqrt\"", "linear warm-up, then decay with 1/√step"),
        setting("schedule.peak", peak, reason),
        setting("schedule.warmup_steps", (warmup / round * round).to_string(), "about a tenth of the run"),
    ]
}

fn train(stats: &CorpusStatistics, size: &SizeClass, max_tokens: u64, valid: Option<u64>) -> Vec<Setting> {
    let SizeClass { accumulate, epochs, .. } = size;
    let mut settings = vec![setting(
        "train.max_tokens",
        max_tokens.to_string(),
        if stats.pairs < 5000 {
            "small batches, so that an epoch has enough steps"
        } else {
            "tokens per batch"
        },
    )];
    if *accumulate > 1 {
        let reason = format!(
            "{accumulate} batches per step: {} tokens, as in Vaswani et al. 2017",
            accumulate * max_tokens
        );
        settings.push(setting("train.accumulate", accumulate.to_string(), reason));
    }
    settings.push(setting("train.label_smoothing", "0.1", "keeps the model from being overconfident"));
    let reason = match valid {
        Some(_) => "at most; validation.patience ends the run earlier if the score stops improving",
        None => "nothing else ends the run",
    };
    settings.push(setting("train.max_epochs", epochs.to_string(), reason));
    settings
}

/// Minimum number of steps between two validations, since translating takes time.
const MIN_INTERVAL: u64 = 50;
/// Steps per epoch above which validation is more frequent than once per epoch.
const LONG_EPOCH: u64 = 5000;

fn validation(
    stats: &CorpusStatistics,
    units: [TokenUnit; 2],
    size: &SizeClass,
    (steps, valid): (u64, u64),
) -> Vec<Setting> {
    let target = &stats.sides[1];
    let without_spaces = target.chars > 15 * target.words;
    let (metric, reason) = if is_exact(stats) {
        ("errors", "share of outputs that are not exactly right")
    } else if units[1] == TokenUnit::Character || without_spaces {
        ("chrf", "compares characters: BLEU says little for few words or text without spaces")
    } else {
        ("bleu", "of decoded translations")
    };
    let mut settings = vec![setting("validation.metric", quoted(metric), reason)];
    if steps > LONG_EPOCH {
        let reason = format!("an epoch has about {steps} steps, too many to wait for");
        settings.push(setting("validation.every_steps", (LONG_EPOCH / 2).to_string(), reason));
    } else {
        let epochs = MIN_INTERVAL.div_ceil(steps.max(1)).min(10);
        let reason = format!("an epoch has about {steps} steps");
        settings.push(setting("validation.every_epochs", epochs.to_string(), reason));
    }
    if valid > 2000 {
        let reason = format!("of {valid}: enough to compare checkpoints");
        settings.push(setting("validation.max_pairs", "2000", reason));
    }
    let reason = "validations without a better score after which the run ends";
    settings.push(setting("validation.patience", size.patience.to_string(), reason));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(pairs: u64) -> CorpusStatistics {
        let kinds = (pairs / 2).min(300_000);
        let side = SideStatistics {
            words: 12 * pairs,
            chars: 70 * pairs,
            longest: 300,
            kinds,
            once: kinds / 2,
            repeated: kinds / 2,
        };
        CorpusStatistics { pairs, sides: [side.clone(), side] }
    }

    fn with_valid(pairs: u64) -> ChoiceOptions {
        ChoiceOptions { valid: Some(pairs), ..ChoiceOptions::default() }
    }

    fn value(settings: &[Setting], key: &str) -> Option<String> {
        settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone())
    }

    #[test]
    fn more_text_gets_a_larger_model_and_vocabulary() {
        let found = |key: &str| {
            [800, 4_000, 30_000, 300_000, 3_000_000, 30_000_000]
                .map(|pairs| value(&choose(&sentences(pairs), with_valid(100)), key).unwrap())
        };
        assert_eq!(found("model.preset"), ["tiny", "tiny", "tiny", "small", "base", "base"].map(quoted));
        assert_eq!(found("tokenizer.vocab_size"), ["0", "900", "6700", "16000", "32000", "32000"]);
        let [few, .., many] = found("tokenizer.kind");
        assert_eq!([few, many], ["character", "bpe"].map(quoted));
        let [few, second, .., many] = found("validation.metric");
        assert_eq!([few, second, many], ["chrf", "bleu", "bleu"].map(quoted));
        assert_eq!(found("schedule.warmup_steps")[5], "4000");
    }

    #[test]
    fn spellings_and_phonemes_have_separate_vocabularies() {
        let spellings =
            SideStatistics { words: 8000, chars: 60_000, longest: 20, kinds: 8000, once: 8000, repeated: 0 };
        let phonemes =
            SideStatistics { words: 50_000, chars: 110_000, longest: 50, kinds: 40, once: 0, repeated: 0 };
        let settings =
            choose(&CorpusStatistics { pairs: 8000, sides: [spellings, phonemes] }, with_valid(1000));
        let found =
            ["tokenizer.kind", "tokenizer.target_kind", "tokenizer.sides", "model.tie", "validation.metric"]
                .map(|key| value(&settings, key).unwrap());
        assert_eq!(found, ["character", "word", "separate", "target_output", "errors"].map(quoted));
        assert_eq!(value(&settings, "data.max_length").unwrap(), "51");
    }

    #[test]
    fn without_validation_text_there_are_no_validation_settings() {
        let settings = choose(&sentences(30_000), ChoiceOptions::default());
        assert!(settings.iter().all(|setting| !setting.key.starts_with("validation.")));
        assert_eq!(value(&settings, "checkpoint.final").unwrap(), "\"average_last\"");
    }

    #[test]
    fn every_setting_has_its_reason() {
        let settings = choose(&sentences(3_000_000), with_valid(5000));
        let silent: Vec<_> = settings.iter().filter(|setting| setting.reason.is_empty()).collect();
        assert_eq!(silent.len(), 1, "{silent:?}");
        assert_eq!(value(&settings, "validation.max_pairs").unwrap(), "2000");
    }
}
