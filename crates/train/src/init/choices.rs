//! Settings by the size of a corpus. Nothing here is exact science: small corpora want small vocabularies and models, much
//! dropout and many epochs (Sennrich & Zhang 2019, "Revisiting low-resource neural machine translation").

use super::facts::{Facts, SideFacts};

/// Below so many pairs a model mostly learns by heart.
pub const FEW_PAIRS: u64 = 1000;
/// Fewest pieces for which subwords are worth their while.
const FEWEST_PIECES: u64 = 500;
/// A side with at most so many different words, each seen again and again, has a closed set of them.
const CLOSED: u64 = 1000;
/// Most tokens that a model is made for by default, with one to spare for the end.
const LONGEST: u64 = 1000;

/// One line of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Section and key, as in `model.preset`.
    pub key: &'static str,
    /// The value as TOML.
    pub value: String,
    /// Why.
    pub reason: String,
}

/// What the pieces of a side are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Subword,
    Word,
    Character,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Subword => "bpe",
            Self::Word => "word",
            Self::Character => "character",
        }
    }

    /// Tokens of a side, the ends of sentences included.
    fn tokens(self, side: &SideFacts, pairs: u64) -> u64 {
        pairs
            + match self {
                // A piece has four characters or so.
                Self::Subword => side.chars / 4,
                Self::Word => side.words,
                Self::Character => side.chars,
            }
    }
}

/// Whether the run validates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Yes,
    No,
}

/// Settings that go together.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// For corpora of fewer pairs than this.
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
}

const TINY: &str = "3 + 3 layers, 128 wide: a larger model would learn so little text by heart";
const SMALL: &str = "3 + 3 layers, 256 wide: enough for some hundred thousand pairs";
const BASE: &str =
    "6 + 6 layers, 512 wide, the base model of the Transformer paper; \"big\" where time is no matter";

#[rustfmt::skip]
const SIZES: [Size; 5] = [
    Size { below: 5_000, vocab_size: 2_000, preset: "tiny", why_preset: TINY, dropout: "0.3", max_tokens: 1024,
           accumulate: 1, epochs: 150, patience: 15, peak: "0.002" },
    Size { below: 50_000, vocab_size: 8_000, preset: "tiny", why_preset: TINY, dropout: "0.3", max_tokens: 4096,
           accumulate: 1, epochs: 80, patience: 12, peak: "0.003" },
    Size { below: 500_000, vocab_size: 16_000, preset: "small", why_preset: SMALL, dropout: "0.2", max_tokens: 4096,
           accumulate: 1, epochs: 40, patience: 8, peak: "0.001" },
    Size { below: 5_000_000, vocab_size: 32_000, preset: "base", why_preset: BASE, dropout: "0.1", max_tokens: 8192,
           accumulate: 3, epochs: 15, patience: 8, peak: "0.0007" },
    Size { below: u64::MAX, vocab_size: 32_000, preset: "base", why_preset: BASE, dropout: "0.1", max_tokens: 8192,
           accumulate: 3, epochs: 5, patience: 8, peak: "0.0007" },
];

/// The settings for a corpus; `valid` is the number of pairs to validate on, where there are any.
pub fn choose(facts: &Facts, valid: Option<u64>) -> Vec<Setting> {
    let size = SIZES.iter().find(|size| facts.pairs < size.below).unwrap_or(&SIZES[SIZES.len() - 1]);
    let (units, vocab_size) = units(facts, size);
    let judged = if valid.is_some() { Judged::Yes } else { Judged::No };
    let (max_length, length_setting) = max_length(facts, units);
    let max_tokens = size.max_tokens.max(max_length);
    let tokens = |side: usize| units[side].tokens(&facts.sides[side], facts.pairs);
    let steps = tokens(0).max(tokens(1)).div_ceil(max_tokens * size.accumulate);
    let mut settings = vec![length_setting];
    settings.extend(tokenizer(facts, units, (vocab_size, size.vocab_size)));
    settings.extend(model(units, size));
    settings.extend(schedule(size, steps));
    settings.extend(train(facts, size, max_tokens, judged));
    settings.extend(valid.into_iter().flat_map(|valid| validation(facts, units, size, (steps, valid))));
    settings.push(if judged == Judged::Yes {
        let reason = "the mean of the five best checkpoints is mostly better than each of them";
        setting("checkpoint.final", "\"average_best\"", reason)
    } else {
        setting("checkpoint.final", "\"average_last\"", "without validation none is known as the best")
    });
    settings.push(setting("checkpoint.average", "5", ""));
    settings.push(setting(
        "checkpoint.beam_size",
        "5",
        "hypotheses followed when the finished model translates",
    ));
    settings
}

fn setting(key: &'static str, value: impl Into<String>, reason: impl Into<String>) -> Setting {
    Setting { key, value: value.into(), reason: reason.into() }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// What the pieces are, and how many; 0 for all.
fn units(facts: &Facts, size: &Size) -> ([Unit; 2], u64) {
    let units = [0, 1].map(|side| {
        let side = &facts.sides[side];
        if is_closed(side) {
            Unit::Word
        } else if is_string(facts, side) {
            Unit::Character
        } else {
            Unit::Subword
        }
    });
    if !units.contains(&Unit::Subword) {
        return (units, 0);
    }
    // Every word that occurs again could become a piece, and one side has at least so many; a tenth less, since a
    // tokeniser may see some of them as the same.
    let most = facts.sides.iter().map(|side| side.repeated).max().unwrap_or(0) * 9 / 1000 * 100;
    if most < FEWEST_PIECES {
        ([Unit::Character; 2], 0)
    } else {
        ([Unit::Subword; 2], size.vocab_size.min(most))
    }
}

/// Few different words, all seen often: phonemes, labels, digits.
fn is_closed(side: &SideFacts) -> bool {
    side.kinds <= CLOSED && side.once * 20 <= side.kinds && side.words >= 20 * side.kinds
}

/// Lines of one short word: spellings, numbers.
fn is_string(facts: &Facts, side: &SideFacts) -> bool {
    facts.mean(side.words) <= 1.2 && facts.mean(side.chars) <= 30.0
}

/// Whether lines are right or wrong as a whole, rather than better or worse translations.
fn is_exact(facts: &Facts) -> bool {
    facts.sides.iter().all(|side| is_closed(side) || is_string(facts, side))
}

fn max_length(facts: &Facts, units: [Unit; 2]) -> (u64, Setting) {
    let longest = facts.sides.iter().map(|side| side.longest).max().unwrap_or(0);
    let (length, reason) = if units == [Unit::Subword; 2] {
        (
            256,
            format!(
                "in pieces; the longest line has {longest} characters, longer pairs are skipped and counted"
            ),
        )
    } else {
        ((longest + 1).clamp(32, LONGEST), format!("the longest line has {longest} characters"))
    };
    (length, setting("data.max_length", length.to_string(), reason))
}

fn tokenizer(facts: &Facts, units: [Unit; 2], (vocab_size, usual): (u64, u64)) -> Vec<Setting> {
    let why = |unit: Unit, side: &SideFacts| match unit {
        Unit::Subword => "frequent words whole, rare ones in parts".to_owned(),
        Unit::Word => format!("there are only {} different words", side.kinds),
        Unit::Character if is_string(facts, side) => {
            "lines are single words, so letters are the pieces".to_owned()
        }
        Unit::Character => "too little text to learn subwords from".to_owned(),
    };
    let [source, target] = &facts.sides;
    let mut settings = vec![setting("tokenizer.kind", quoted(units[0].name()), why(units[0], source))];
    if units[0] == units[1] {
        let reason = "one vocabulary for both, so that all embeddings are one table";
        settings.push(setting("tokenizer.sides", "\"shared\"", reason));
    } else {
        let reason = "the two sides have pieces of different kinds";
        settings.push(setting("tokenizer.target_kind", quoted(units[1].name()), why(units[1], target)));
        settings.push(setting("tokenizer.sides", "\"separate\"", reason));
    }
    let reason = match vocab_size {
        0 => "all that occur".to_owned(),
        size if size < usual => {
            "about as many as there are words that occur again; the text yields few more".to_owned()
        }
        _ => format!("usual for {} pairs: each piece is seen often enough to be learned", facts.pairs),
    };
    settings.push(setting("tokenizer.vocab_size", vocab_size.to_string(), reason));
    settings
}

fn model(units: [Unit; 2], size: &Size) -> Vec<Setting> {
    let Size { preset, why_preset, dropout, .. } = size;
    let mut settings = vec![setting("model.preset", quoted(preset), *why_preset)];
    if *preset != "base" {
        let reason = "before each layer they bear high rates (Xiong et al. 2020); \"post\", the default, is what Marian's models have";
        settings.push(setting("model.norm_order", "\"pre\"", reason));
        settings.push(setting("model.final_norm", "true", "goes with it"));
    }
    if units[0] != units[1] {
        settings.push(setting("model.tie", "\"target_output\"", "two vocabularies cannot have one table"));
    }
    let reason = "the less text, the more is hidden from the model, so that it learns no pair by heart";
    let value =
        format!("{{ embedding = {dropout}, residual = {dropout}, attention = 0.0, activation = 0.0 }}");
    settings.push(setting("model.dropout", value, reason));
    settings
}

fn schedule(size: &Size, steps: u64) -> Vec<Setting> {
    // A tenth of the run, in round numbers.
    let warmup = (steps * size.epochs / 10).clamp(50, 4000);
    let round = if warmup >= 1000 { 500 } else { 50 };
    vec![
        setting("schedule.curve", "\"inverse_sqrt\"", "rises while it warms up, then falls with 1/√step"),
        setting(
            "schedule.peak",
            size.peak,
            "narrow models stand a higher rate; lower it if the loss explodes",
        ),
        setting("schedule.warmup_steps", (warmup / round * round).to_string(), "about a tenth of the run"),
    ]
}

fn train(facts: &Facts, size: &Size, max_tokens: u64, judged: Judged) -> Vec<Setting> {
    let Size { accumulate, epochs, .. } = size;
    let mut settings = vec![setting(
        "train.max_tokens",
        max_tokens.to_string(),
        if facts.pairs < 5000 {
            "small batches, so that an epoch has enough steps"
        } else {
            "tokens of a batch"
        },
    )];
    if *accumulate > 1 {
        let reason = format!(
            "{accumulate} batches make a step of {} tokens, as in the paper",
            accumulate * max_tokens
        );
        settings.push(setting("train.accumulate", accumulate.to_string(), reason));
    }
    settings.push(setting("train.label_smoothing", "0.1", "keeps the model from being too sure"));
    let reason = match judged {
        Judged::Yes => "at most; validation.patience ends the run before, when nothing gets better",
        Judged::No => "nothing else ends the run",
    };
    settings.push(setting("train.max_epochs", epochs.to_string(), reason));
    settings
}

/// Steps between two validations, at least: translating costs time.
const APART: u64 = 50;
/// Steps of an epoch from which on validations come more often.
const LONG_EPOCH: u64 = 5000;

fn validation(facts: &Facts, units: [Unit; 2], size: &Size, (steps, valid): (u64, u64)) -> Vec<Setting> {
    let target = &facts.sides[1];
    let without_spaces = target.chars > 15 * target.words;
    let (metric, reason) = if is_exact(facts) {
        ("errors", "share of outputs that are not right as a whole")
    } else if units[1] == Unit::Character || without_spaces {
        ("chrf", "compares characters: BLEU says little where words are few or not divided by spaces")
    } else {
        ("bleu", "of real translations")
    };
    let mut settings = vec![setting("validation.metric", quoted(metric), reason)];
    if steps > LONG_EPOCH {
        let reason = format!("an epoch has about {steps} steps, too many to wait for");
        settings.push(setting("validation.every_steps", (LONG_EPOCH / 2).to_string(), reason));
    } else {
        let epochs = APART.div_ceil(steps.max(1)).min(10);
        let reason = format!("an epoch has about {steps} steps");
        settings.push(setting("validation.every_epochs", epochs.to_string(), reason));
    }
    if valid > 2000 {
        let reason = format!("of {valid}: more would cost more time than they tell");
        settings.push(setting("validation.max_pairs", "2000", reason));
    }
    let reason = "validations without a better score after which the run ends";
    settings.push(setting("validation.patience", size.patience.to_string(), reason));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(pairs: u64) -> Facts {
        let kinds = (pairs / 2).min(300_000);
        let side = SideFacts {
            words: 12 * pairs,
            chars: 70 * pairs,
            longest: 300,
            kinds,
            once: kinds / 2,
            repeated: kinds / 2,
        };
        Facts { pairs, sides: [side.clone(), side] }
    }

    fn value(settings: &[Setting], key: &str) -> Option<String> {
        settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone())
    }

    #[test]
    fn more_text_more_of_everything() {
        let found = |key: &str| {
            [800, 4_000, 30_000, 300_000, 3_000_000, 30_000_000]
                .map(|pairs| value(&choose(&sentences(pairs), Some(100)), key).unwrap())
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
    fn spellings_and_phonemes_have_vocabularies_of_their_own() {
        let spellings =
            SideFacts { words: 8000, chars: 60_000, longest: 20, kinds: 8000, once: 8000, repeated: 0 };
        let phonemes =
            SideFacts { words: 50_000, chars: 110_000, longest: 50, kinds: 40, once: 0, repeated: 0 };
        let settings = choose(&Facts { pairs: 8000, sides: [spellings, phonemes] }, Some(1000));
        let found =
            ["tokenizer.kind", "tokenizer.target_kind", "tokenizer.sides", "model.tie", "validation.metric"]
                .map(|key| value(&settings, key).unwrap());
        assert_eq!(found, ["character", "word", "separate", "target_output", "errors"].map(quoted));
        assert_eq!(value(&settings, "data.max_length").unwrap(), "51");
    }

    #[test]
    fn a_run_without_validation_judges_nothing() {
        let settings = choose(&sentences(30_000), None);
        assert!(settings.iter().all(|setting| !setting.key.starts_with("validation.")));
        assert_eq!(value(&settings, "checkpoint.final").unwrap(), "\"average_last\"");
    }

    #[test]
    fn every_line_that_matters_has_its_reason() {
        let settings = choose(&sentences(3_000_000), Some(5000));
        let silent: Vec<_> = settings.iter().filter(|setting| setting.reason.is_empty()).collect();
        assert_eq!(silent.len(), 1, "{silent:?}");
        assert_eq!(value(&settings, "validation.max_pairs").unwrap(), "2000");
    }
}
