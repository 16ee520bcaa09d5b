//! Several translations of a sentence have several texts: a model that writes words in more than one cut can fill a beam with
//! one text. What is short of other texts is searched again, past all texts that have been written.

use polyhead_models::decode::Hypothesis;

use crate::Result;
use crate::document::Part;
use crate::options::Mode;
use crate::request::Request;
use crate::search::{Job, Search};

impl Request<'_> {
    /// Whether of hypotheses with one text, in other pieces, only the best counts. Samples are as they were drawn.
    pub(crate) fn has_distinct_texts(&self) -> bool {
        self.options.n_best > 1 && self.options.mode == Mode::Guarded && self.options.sampling.is_none()
    }

    /// The hypotheses of a part that have all kept things, and where they are to be distinct the first of each text.
    pub(crate) fn chosen(&self, part: &Part<'_>, found: Vec<Hypothesis>) -> Result<Vec<Hypothesis>> {
        let form = part.form.as_ref();
        let (mut chosen, mut texts) = (Vec::new(), Vec::new());
        for hypothesis in found {
            let mut text = self.engine.decode(&hypothesis.ids)?;
            if let Some(form) = form {
                if form.n_kept() > 0 && !form.is_carried_by(&text) {
                    continue;
                }
                // As people will read it: a sentence in capitals has one text in either case.
                text = form.restore(part.sentence.text, &text).text;
            }
            let text = text.trim().to_owned();
            if !(self.has_distinct_texts() && texts.contains(&text)) {
                texts.push(text);
                chosen.push(hypothesis);
            }
        }
        Ok(chosen)
    }

    /// Looks for other texts where there are fewer than asked for. More than one translation never changes the first: what
    /// only this search finds comes after it, and what would come before it is left out.
    pub(crate) fn find_others(&self, parts: &mut [&mut Part<'_>], search: &Search) -> Result<()> {
        let spellings = self.engine.spellings();
        if spellings.is_none() && !search.is_widened() {
            return Ok(());
        }
        let is_short =
            |part: &&mut Part<'_>| (1..self.options.n_best).contains(&part.found.len()) && part.job.is_some();
        let mut short: Vec<&mut Part<'_>> =
            parts.iter_mut().map(|part| &mut **part).filter(is_short).collect();
        if short.is_empty() {
            return Ok(());
        }
        let jobs: Vec<Job> = short.iter().filter_map(|part| part.job.clone()).collect();
        let others = self.hypotheses(&jobs, &search.past_doubles(spellings))?;
        for (part, others) in short.iter_mut().zip(others) {
            let mut all = std::mem::take(&mut part.found);
            let best = all[0].score;
            all.extend(others.into_iter().filter(|other| other.score <= best));
            let mut chosen = self.chosen(part, all)?;
            chosen.sort_by(|a, b| b.score.total_cmp(&a.score));
            part.found = chosen;
        }
        Ok(())
    }
}
