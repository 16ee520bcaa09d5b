//! Translations of segments joined to that of their text, with the separators of the source.

use super::Sentence;
use super::split::is_full_width_end;
use crate::translation::Candidate;

/// A translation that grows segment by segment.
pub(crate) struct Joiner {
    candidate: Candidate,
    scores: Vec<f64>,
}

/// The scores of a decoded segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    pub(crate) score: f64,
    pub(crate) log_probability: f64,
    pub(crate) tokens: usize,
}

impl Joiner {
    /// A translation that begins with the white space before the first sentence.
    pub(crate) fn new(lead: &str) -> Self {
        Self { candidate: Candidate { text: lead.to_owned(), ..Candidate::default() }, scores: Vec::new() }
    }

    /// Appends the translation of a segment and the separator of its source; returns the byte where it begins. `scores`
    /// is none for text that the model did not decode.
    pub(crate) fn push(&mut self, source: Sentence<'_>, target: &str, scores: Option<Scores>) -> usize {
        let joined = &mut self.candidate.text;
        let start = joined.len();
        joined.push_str(target);
        joined.push_str(source.separator);
        if let Some(Scores { score, log_probability, tokens }) = scores {
            self.candidate.log_probability += log_probability;
            self.candidate.tokens += tokens;
            self.scores.push(score);
        }
        start
    }

    /// Appends a space where another segment follows and the marks of the target need one, unlike those of the source.
    pub(crate) fn space_after(&mut self, source: Sentence<'_>) {
        let is_close = source.separator.is_empty() && ends_full_width(source.text);
        if is_close && !ends_full_width(&self.candidate.text) {
            self.candidate.text.push(' ');
        }
    }

    /// The translation. Its score is the mean over the segments: as each falls with the rank, so does the mean. One
    /// segment keeps the bits of its score.
    pub(crate) fn finish(mut self) -> Candidate {
        self.candidate.score = self.scores.iter().sum::<f64>() / self.scores.len().max(1) as f64;
        self.candidate
    }
}

/// True if a text ends with a mark that needs no space after it.
fn ends_full_width(text: &str) -> bool {
    let text = text.trim_end_matches(['」', '』', '）', '”', '’']);
    text.ends_with(|mark| is_full_width_end(mark) || matches!(mark, '，' | '、' | '；' | '：'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_come_back_and_scores_are_means() {
        let scores = |score| Some(Scores { score, log_probability: 2.0 * score, tokens: 3 });
        let sources = [("你好。", ""), ("再见。", " "), ("123", "")];
        let [first, second, third] = sources.map(|(text, separator)| Sentence { text, separator });
        let mut joiner = Joiner::new("\t");
        let mut starts = vec![joiner.push(first, "Hello.", scores(-1.0))];
        joiner.space_after(first);
        starts.push(joiner.push(second, "Goodbye.", scores(-2.0)));
        joiner.space_after(second);
        starts.push(joiner.push(third, "123", None));
        let expected =
            Candidate { text: "\tHello. Goodbye. 123".into(), score: -1.5, log_probability: -6.0, tokens: 6 };
        assert_eq!((joiner.finish(), starts), (expected, vec![1, 8, 17]));
    }
}
