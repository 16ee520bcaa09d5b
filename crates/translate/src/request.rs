//! What is asked of a model in one step: texts become parts, and parts get their hypotheses.

use std::ops::Range;

use polyhead_models::decode::Hypothesis;
use polyhead_text::tokenizer::Encoding;

use crate::alphabet::Alphabet;
use crate::cut::cut;
use crate::document::{Document, Part, Repetition};
use crate::form::{Case, Form, Languages};
use crate::kept::{self, Kept, Kind};
use crate::numbers::numbers;
use crate::options::{Mode, TranslateOptions};
use crate::repetition::{NO_REPEAT_NGRAM, REPETITION_PENALTY};
use crate::route::Leg;
use crate::search::{Job, Search};
use crate::split::{Sentence, Split, split};
use crate::translation::{Note, shortened};
use crate::{Engine, Error, Result, batch};

/// Sentences of more pieces than this are cut, whatever the model can take: few sentences are as long in training.
const MAX_PIECES: usize = 256;
/// Unknown pieces, or kept things, that a note names.
pub(crate) const MAX_NAMED: usize = 20;
/// Characters of the longest number that is never cut; what is longer might be too long for the model.
const LONGEST_NUMBER: usize = 40;
/// Sentences of so few pieces are never cut.
const FEWEST_PIECES: usize = 8;

/// A text to take through the model.
#[derive(Clone, Copy)]
pub(crate) struct Errand<'t> {
    pub(crate) text: &'t str,
    pub(crate) leg: &'t Leg,
    /// Whether the prefix stands before its translation.
    pub(crate) is_first: bool,
}

/// How a sentence, or a part of one, is to be read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) leg: &'a Leg,
    pub(crate) case: Case,
}

/// What is asked for, checked against the model.
pub(crate) struct Request<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) options: &'a TranslateOptions,
    pub(crate) search: Search,
    /// Whether somebody still waits.
    go_on: &'a (dyn Fn() -> bool + Sync),
    prefix: Vec<u32>,
    /// Pieces that a sentence may have.
    limit: usize,
}

impl<'a> Request<'a> {
    pub(crate) fn new(engine: &'a Engine, options: &'a TranslateOptions) -> Result<Self> {
        Self::while_wanted(engine, options, &|| true)
    }

    /// The same; work ends with an error as soon as `go_on` says no.
    pub(crate) fn while_wanted(
        engine: &'a Engine,
        options: &'a TranslateOptions,
        go_on: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        let search = Search::new(engine.generation(), options, engine.model.max_len())?;
        let prefix = engine.tokenizers.encode_target(&options.prefix)?.ids;
        if prefix.len() >= search.max_length() {
            let message =
                format!("a prefix of {} tokens, expected less than {}", prefix.len(), search.max_length());
            return Err(Error::request(message, "shorten it or raise the maximum length"));
        }
        // Translations may be twice as long as their sources.
        let limit = MAX_PIECES.min(engine.model.max_len() / 2).max(FEWEST_PIECES);
        Ok(Self { engine, options, search, go_on, prefix, limit })
    }

    pub(crate) fn alphabet(&self) -> &Alphabet {
        &self.engine.alphabet
    }

    /// A text in parts, encoded.
    pub(crate) fn document<'t>(&self, errand: Errand<'t>) -> Result<Document<'t>> {
        let mut document = match self.options.mode {
            Mode::Raw => self.whole(errand)?,
            Mode::Guarded => self.split(errand)?,
        };
        if !document.unknown.is_empty() {
            document.notes.push(Note::Unknown { pieces: std::mem::take(&mut document.unknown) });
        }
        Ok(document)
    }

    /// A text as one sentence.
    fn whole<'t>(&self, Errand { text, leg, .. }: Errand<'t>) -> Result<Document<'t>> {
        let mut document = Document::new(text, "", leg);
        let encoding = self.encode(text)?;
        self.add_unknown(text, &encoding, &mut document.unknown);
        let job = self.job(encoding.ids, leg);
        let (length, max_len) = (job.source.len(), self.engine.model.max_len());
        if length > max_len {
            let message = format!("{:?} has {length} tokens, expected {max_len} at most", shortened(text));
            return Err(Error::request(message, "leave out --raw: then it is translated in parts"));
        }
        document.parts.push(Part::new(Sentence { text, separator: "" }, None, job));
        Ok(document)
    }

    /// A text in sentences, the long ones in parts.
    fn split<'t>(&self, Errand { text, leg, is_first }: Errand<'t>) -> Result<Document<'t>> {
        let Split { lead, sentences } = split(text);
        let mut document = Document::new(text, lead, leg);
        let n_sentences = sentences.len();
        let mut n_cut = 0;
        let whole = |sentence| (sentence, Case::Seen);
        let mut waiting: Vec<(Sentence<'t>, Case)> = sentences.into_iter().rev().map(whole).collect();
        while let Some((sentence, case)) = waiting.pop() {
            let reading = Reading { leg, case };
            let kept = self.kept(sentence.text, reading);
            if !self.has_text(sentence.text, &kept) {
                if kept.iter().any(|kept| kept.kind == Kind::Foreign) {
                    document.notes.push(Note::Unspelled { sentence: shortened(sentence.text) });
                }
                document.parts.push(Part::copied(sentence));
                continue;
            }
            let form = self.form(sentence.text, &kept, reading);
            let case = Case::of(form.as_ref());
            let few = self.before_too_many(sentence, form.as_ref());
            if !few.is_empty() {
                waiting.extend(few.into_iter().rev().map(|part| (part, case)));
                continue;
            }
            let encoding = self.encode_form(sentence.text, form.as_ref())?;
            let parts = cut(sentence, &encoding, self.limit, &self.uncut(sentence.text, form.as_ref()));
            if parts.len() > 1 {
                n_cut += parts.len() - 1;
                waiting.extend(parts.into_iter().rev().map(|part| (part, case)));
                continue;
            }
            self.add_unknown(sentence.text, &encoding, &mut document.unknown);
            let job = self.job(encoding.ids, leg);
            document.parts.push(Part::new(sentence, form, job));
        }
        // Only the beginning of a text is given.
        let jobs = document.parts.iter_mut().filter_map(|part| part.job.as_mut());
        jobs.skip(usize::from(is_first)).for_each(|job| job.prefix.clear());
        if n_sentences > 1 {
            document.notes.push(Note::Split { sentences: n_sentences });
        }
        if n_cut > 0 {
            document.notes.push(Note::Cut { parts: n_sentences + n_cut });
        }
        Ok(document)
    }

    /// A part of a sentence; it is copied where it has nothing to translate.
    pub(crate) fn part<'t>(
        &self,
        sentence: Sentence<'t>,
        kept: &[Kept],
        reading: Reading<'_>,
        prefix: &mut Vec<u32>,
    ) -> Result<Part<'t>> {
        if !self.has_text(sentence.text, kept) {
            return Ok(Part::copied(sentence));
        }
        let form = self.form(sentence.text, kept, reading);
        let mut job = self.job(self.encode_form(sentence.text, form.as_ref())?.ids, reading.leg);
        job.prefix = std::mem::take(prefix);
        Ok(Part::new(sentence, form, job))
    }

    /// What a sentence keeps; nothing where the model has no placeholders.
    pub(crate) fn kept(&self, sentence: &str, Reading { leg, case }: Reading<'_>) -> Vec<Kept> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let has = |letter: char| self.alphabet().has(letter, &self.engine.tokenizers);
        // Capitals are going to be read as small letters.
        let is_lowered = leg.languages.is_some() && case.is_capitals(sentence);
        kept::find(sentence, &|letter| has(letter) || (is_lowered && letter.to_lowercase().all(has)))
    }

    /// Whether there is something to translate.
    pub(crate) fn has_text(&self, sentence: &str, kept: &[Kept]) -> bool {
        if self.alphabet().n_placeholders() == 0 {
            return sentence.contains(char::is_alphanumeric);
        }
        // Both are in order, so that one walk is enough.
        let mut rest = kept.iter().peekable();
        sentence.char_indices().any(|(at, letter)| {
            while rest.next_if(|kept| kept.range.end <= at).is_some() {}
            letter.is_alphabetic() && !rest.peek().is_some_and(|kept| kept.range.contains(&at))
        })
    }

    /// What the model reads in place of a sentence; none where it reads the sentence.
    fn form(&self, sentence: &str, kept: &[Kept], Reading { leg, case }: Reading<'_>) -> Option<Form> {
        let languages = leg.languages.as_ref().map(|(from, to)| Languages { from, to });
        let n_pieces =
            |word: &str| self.engine.tokenizers.source().encode(word).map_or(usize::MAX, |found| found.len());
        let form = Form::new(sentence, kept, (languages.as_ref(), case), &n_pieces);
        (!form.is_plain(sentence)).then_some(form)
    }

    /// A sentence that keeps more things than there are placeholders, in parts that do not; none where it does not either.
    fn before_too_many<'t>(&self, sentence: Sentence<'t>, form: Option<&Form>) -> Vec<Sentence<'t>> {
        let kept = form.map_or(&[][..], Form::kept);
        let starts = kept.iter().step_by(self.alphabet().n_placeholders().max(1)).skip(1);
        let mut starts: Vec<usize> = starts.map(|range| range.start).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([sentence.text.len()]);
        let part = |(start, end): (&usize, usize)| {
            let whole = &sentence.text[*start..end];
            let text = whole.trim_end();
            let is_last = end == sentence.text.len();
            Sentence { text, separator: if is_last { sentence.separator } else { &whole[text.len()..] } }
        };
        starts.iter().zip(ends).map(part).collect()
    }

    /// The ranges of a sentence that are never cut: what is kept, and numbers, which could not be found again.
    pub(crate) fn uncut(&self, sentence: &str, form: Option<&Form>) -> Vec<Range<usize>> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let short = numbers(sentence).into_iter().filter(|number| number.len() <= LONGEST_NUMBER);
        form.map_or_else(Vec::new, |form| form.untouched(sentence)).into_iter().chain(short).collect()
    }

    /// The ids of what the model reads, with places in the sentence.
    pub(crate) fn encode_form(&self, sentence: &str, form: Option<&Form>) -> Result<Encoding> {
        let Some(form) = form else { return self.encode(sentence) };
        let mut encoding = self.encode(&form.text)?;
        encoding.offsets.iter_mut().for_each(|span| *span = form.origin.map(span));
        Ok(encoding)
    }

    fn encode(&self, text: &str) -> Result<Encoding> {
        self.engine.tokenizers.encode_source(text, self.engine.model.special_ids().end_id)
    }

    fn job(&self, mut source: Vec<u32>, leg: &Leg) -> Job {
        source.splice(0..0, leg.tag);
        Job { source, prefix: self.prefix.clone() }
    }

    /// Adds what the model does not know of `text` to `pieces`.
    fn add_unknown(&self, text: &str, encoding: &Encoding, pieces: &mut Vec<String>) {
        let unknown = self.engine.tokenizers.source().unknown_id();
        for (id, span) in encoding.ids.iter().zip(&encoding.offsets) {
            if Some(*id) == unknown {
                let piece = shortened(text[span.clone()].trim());
                if pieces.len() == MAX_NAMED {
                    pieces.push("…".into());
                }
                if pieces.len() > MAX_NAMED {
                    return;
                }
                if !piece.is_empty() && !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
    }

    /// Gives parts their hypotheses; a part whose kept things no hypothesis has gets none.
    pub(crate) fn decode(&self, parts: &mut [&mut Part<'_>], search: &Search) -> Result<()> {
        let jobs: Vec<Job> = parts.iter().filter_map(|part| part.job.clone()).collect();
        let n_kept = |part: &Part<'_>| part.form.as_ref().map_or(0, Form::n_kept);
        let is_chosen = self.has_distinct_texts() || parts.iter().any(|part| n_kept(part) > 0);
        let found = match (self.has_distinct_texts(), is_chosen) {
            (true, _) => self.hypotheses(&jobs, &search.as_for_one())?,
            (false, true) => self.hypotheses(&jobs, &search.all_beams())?,
            (false, false) => self.hypotheses(&jobs, search)?,
        };
        for (part, found) in parts.iter_mut().filter(|part| part.job.is_some()).zip(found) {
            part.found = if is_chosen { self.chosen(part, found)? } else { found };
        }
        if self.has_distinct_texts() {
            self.find_others(parts, search)?;
        }
        for part in parts {
            part.found.truncate(self.options.n_best);
        }
        Ok(())
    }

    /// The hypotheses of some jobs, best first.
    pub(crate) fn hypotheses(&self, jobs: &[Job], search: &Search) -> Result<Vec<Vec<Hypothesis>>> {
        batch::decode(self.engine, search, jobs, self.options.batch_tokens, self.go_on)
    }

    /// Decodes what loops a second time; the less bad result stays.
    pub(crate) fn decode_loops_again(&self, parts: &mut [&mut Part<'_>]) -> Result<()> {
        // What was halved already found no end that way.
        let is_looping = |part: &&mut Part<'_>| part.halvings == 0 && part.severity() > 0;
        let mut looping: Vec<&mut Part<'_>> =
            parts.iter_mut().map(|part| &mut **part).filter(is_looping).collect();
        let before: Vec<(usize, Vec<Hypothesis>)> =
            looping.iter_mut().map(|part| (part.severity(), std::mem::take(&mut part.found))).collect();
        let search = self.search.against_repetition(NO_REPEAT_NGRAM, REPETITION_PENALTY);
        self.decode(&mut looping, &search)?;
        for (part, (severity, found)) in looping.into_iter().zip(before) {
            let again = if part.found.is_empty() { severity } else { part.severity() };
            part.repetition = Some(if again == 0 { Repetition::Cured } else { Repetition::Left });
            if again >= severity {
                part.found = found;
            }
        }
        Ok(())
    }
}
