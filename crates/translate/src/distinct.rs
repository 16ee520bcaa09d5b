//! Several translations of a sentence have several texts: a model that writes words in more than one cut can fill a beam with
//! one text. What is short of other texts is searched again, past all texts that have been written.

use polyhead_models::decode::Hypothesis;

use crate::Result;
use crate::document::Part;
use crate::form::Form;
use crate::options::Mode;
use crate::request::Request;
use crate::search::{Job, Search};

impl Request<'_> {
    /// Whether of hypotheses with one text, in other pieces, only the best counts. Samples are as they were drawn.
    pub(crate) fn has_distinct_texts(&self) -> bool {
        self.options.n_best > 1 && self.options.mode == Mode::Guarded && self.options.sampling.is_none()
    }

    /// The hypotheses that have all kept things, and where they are to be distinct the first of each text.
    pub(crate) fn chosen(&self, form: Option<&Form>, found: Vec<Hypothesis>) -> Result<Vec<Hypothesis>> {
        let form = form.filter(|form| form.n_kept() > 0);
        let (mut chosen, mut texts) = (Vec::new(), Vec::new());
        for hypothesis in found {
            let text = self.engine.decode(&hypothesis.ids)?;
            let is_carried = form.is_none_or(|form| form.is_carried_by(&text));
            if is_carried && !(self.has_distinct_texts() && texts.contains(&text)) {
                texts.push(text);
                chosen.push(hypothesis);
            }
        }
        Ok(chosen)
    }

    /// Looks for other texts where there are fewer than asked for. The best stays the best, so that more than one
    /// translation never changes the first.
    pub(crate) fn find_others(&self, parts: &mut [&mut Part<'_>], search: &Search) -> Result<()> {
        let is_short = |part: &&mut &mut Part<'_>| {
            (1..self.options.n_best).contains(&part.found.len()) && part.job.is_some()
        };
        let mut short: Vec<&mut &mut Part<'_>> = parts.iter_mut().filter(is_short).collect();
        if short.is_empty() {
            return Ok(());
        }
        let jobs: Vec<Job> = short.iter().filter_map(|part| part.job.clone()).collect();
        let others = self.hypotheses(&jobs, &search.past_doubles(self.engine.spellings()))?;
        for (part, others) in short.iter_mut().zip(others) {
            let all = std::mem::take(&mut part.found).into_iter().chain(others).collect();
            let mut chosen = self.chosen(part.form.as_ref(), all)?;
            chosen[1..].sort_by(|a, b| b.score.total_cmp(&a.score));
            part.found = chosen;
        }
        Ok(())
    }
}
