//! From texts to translations: split, cut, encode, decode, decode loops again, join.

use polyhead_models::decode::Hypothesis;
use polyhead_text::tokenizer::Encoding;
use rayon::prelude::*;

use crate::alignment::{self, Place};
use crate::cut::cut;
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::repetition::{NO_REPEAT_NGRAM, REPETITION_PENALTY, severity};
use crate::search::{Job, Search};
use crate::split::{Sentence, Split, is_full_width_end, split};
use crate::translation::{Candidate, Note, Translation, shortened};
use crate::{Engine, Error, Result, batch};

/// Sentences of more pieces than this are cut, whatever the model can take: few sentences are as long in training.
const MAX_PIECES: usize = 256;
/// Unknown pieces that a note names.
const MAX_UNKNOWN: usize = 20;
/// Sentences of so few pieces are never cut.
const FEWEST_PIECES: usize = 8;

/// A text on its way.
struct Document<'a> {
    text: &'a str,
    lead: &'a str,
    parts: Vec<Part<'a>>,
    notes: Vec<Note>,
    /// What the model has no entry for.
    unknown: Vec<String>,
    /// The id that chooses the target language.
    tag: Option<u32>,
}

impl<'a> Document<'a> {
    fn new(text: &'a str, lead: &'a str, tag: Option<u32>) -> Self {
        Self { text, lead, parts: Vec::new(), notes: Vec::new(), unknown: Vec::new(), tag }
    }
}

/// What the model sees at once.
struct Part<'a> {
    sentence: Sentence<'a>,
    /// What is decoded; none for what is only copied.
    job: Option<Job>,
    /// Its hypotheses, best first.
    found: Vec<Hypothesis>,
    /// What became of a loop.
    repetition: Option<Repetition>,
}

/// What became of a loop when it was decoded again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Cured,
    Left,
}

impl Engine {
    /// Translates texts; the result has one translation for each, in order. An empty text stays empty.
    ///
    /// # Errors
    /// If the options make no sense for this model.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        let request = Request::new(self, options)?;
        let mut documents =
            texts.par_iter().map(|text| request.document(text)).collect::<Result<Vec<Document<'_>>>>()?;
        let mut parts: Vec<&mut Part<'_>> =
            documents.iter_mut().flat_map(|document| &mut document.parts).collect();
        request.decode(&mut parts, &request.search)?;
        if options.mode == Mode::Guarded {
            request.decode_loops_again(&mut parts)?;
        }
        documents.into_par_iter().map(|document| request.translation(document)).collect()
    }
}

/// What is asked for, checked against the model.
struct Request<'a> {
    engine: &'a Engine,
    options: &'a TranslateOptions,
    search: Search,
    /// The id that chooses the target language.
    tag: Option<u32>,
    prefix: Vec<u32>,
    /// Pieces that a sentence may have.
    limit: usize,
}

impl<'a> Request<'a> {
    fn new(engine: &'a Engine, options: &'a TranslateOptions) -> Result<Self> {
        let config = engine.model.config();
        let search = Search::new(engine.generation(), options, config.max_len)?;
        if let Some(from) = &options.from {
            engine.languages().check_source(from)?;
        }
        let tag = match &options.to {
            Some(to) => engine.languages().target(to)?.map(|language| language.id),
            None => None,
        };
        let prefix = engine.tokenizers.encode_target(&options.prefix)?.ids;
        if prefix.len() >= search.max_length() {
            let message =
                format!("a prefix of {} tokens, expected less than {}", prefix.len(), search.max_length());
            return Err(Error::request(message, "shorten it or raise the maximum length"));
        }
        // Translations may be twice as long as their sources.
        let limit = MAX_PIECES.min(config.max_len / 2).max(FEWEST_PIECES);
        Ok(Self { engine, options, search, tag, prefix, limit })
    }

    /// A text in parts, encoded.
    fn document<'t>(&self, text: &'t str) -> Result<Document<'t>> {
        let mut document = match self.options.mode {
            Mode::Raw => self.whole(text)?,
            Mode::Guarded => self.split(text)?,
        };
        if !document.unknown.is_empty() {
            document.notes.push(Note::Unknown { pieces: std::mem::take(&mut document.unknown) });
        }
        Ok(document)
    }

    /// A text as one sentence.
    fn whole<'t>(&self, text: &'t str) -> Result<Document<'t>> {
        let mut document = Document::new(text, "", self.tag);
        let encoding = self.encode(text)?;
        self.add_unknown(text, &encoding, &mut document.unknown);
        let job = self.job(encoding.ids, self.tag);
        let (length, max_len) = (job.source.len(), self.engine.model.config().max_len);
        if length > max_len {
            let message = format!("{:?} has {length} tokens, expected {max_len} at most", shortened(text));
            return Err(Error::request(message, "leave out --raw: then it is translated in parts"));
        }
        let sentence = Sentence { text, separator: "" };
        document.parts.push(Part::new(sentence, Some(job)));
        Ok(document)
    }

    /// A text in sentences, the long ones in parts.
    fn split<'t>(&self, text: &'t str) -> Result<Document<'t>> {
        let (tag, body) = match self.engine.languages().tag_of(text) {
            Some((language, rest)) => (self.tag.or(Some(language.id)), rest),
            None => (self.tag, text),
        };
        let Split { lead, sentences } = split(body);
        let mut document = Document::new(text, lead, tag);
        let n_sentences = sentences.len();
        let mut waiting: Vec<Sentence<'t>> = sentences.into_iter().rev().collect();
        while let Some(sentence) = waiting.pop() {
            if !sentence.text.contains(char::is_alphanumeric) {
                document.parts.push(Part::new(sentence, None));
                continue;
            }
            let encoding = self.encode(sentence.text)?;
            let mut parts = cut(sentence, &encoding, self.limit);
            if parts.len() > 1 {
                parts.reverse();
                waiting.append(&mut parts);
                continue;
            }
            self.add_unknown(sentence.text, &encoding, &mut document.unknown);
            let job = self.job(encoding.ids, tag);
            document.parts.push(Part::new(sentence, Some(job)));
        }
        // Only the beginning of a text is given.
        let jobs = document.parts.iter_mut().filter_map(|part| part.job.as_mut());
        jobs.skip(1).for_each(|job| job.prefix.clear());
        if n_sentences > 1 {
            document.notes.push(Note::Split { sentences: n_sentences });
        }
        if document.parts.len() > n_sentences {
            document.notes.push(Note::Cut { parts: document.parts.len() });
        }
        Ok(document)
    }

    fn encode(&self, text: &str) -> Result<Encoding> {
        self.engine.tokenizers.encode_source(text, self.engine.model.config().end_id)
    }

    fn job(&self, mut source: Vec<u32>, tag: Option<u32>) -> Job {
        source.splice(0..0, tag);
        Job { source, prefix: self.prefix.clone() }
    }

    /// Adds what the model does not know of `text` to `pieces`.
    fn add_unknown(&self, text: &str, encoding: &Encoding, pieces: &mut Vec<String>) {
        let unknown = self.engine.tokenizers.source().unknown_id();
        for (id, span) in encoding.ids.iter().zip(&encoding.offsets) {
            if Some(*id) == unknown {
                let piece = shortened(text[span.clone()].trim());
                if pieces.len() == MAX_UNKNOWN {
                    pieces.push("…".into());
                }
                if pieces.len() > MAX_UNKNOWN {
                    return;
                }
                if !piece.is_empty() && !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
    }

    /// Gives parts their hypotheses.
    fn decode(&self, parts: &mut [&mut Part<'_>], search: &Search) -> Result<()> {
        let jobs: Vec<Job> = parts.iter().filter_map(|part| part.job.clone()).collect();
        let found = batch::decode(self.engine, search, &jobs, self.options.batch_tokens)?;
        for (part, found) in parts.iter_mut().filter(|part| part.job.is_some()).zip(found) {
            part.found = found;
        }
        Ok(())
    }

    /// Decodes what loops a second time; the less bad result stays.
    fn decode_loops_again(&self, parts: &mut [&mut Part<'_>]) -> Result<()> {
        let mut looping: Vec<&mut Part<'_>> =
            parts.iter_mut().map(|part| &mut **part).filter(|part| part.severity() > 0).collect();
        let before: Vec<(usize, Vec<Hypothesis>)> =
            looping.iter_mut().map(|part| (part.severity(), std::mem::take(&mut part.found))).collect();
        let search = self.search.against_repetition(NO_REPEAT_NGRAM, REPETITION_PENALTY);
        self.decode(&mut looping, &search)?;
        for (part, (severity, found)) in looping.into_iter().zip(before) {
            let again = part.severity();
            part.repetition = Some(if again == 0 { Repetition::Cured } else { Repetition::Left });
            if again >= severity {
                part.found = found;
            }
        }
        Ok(())
    }

    /// The parts put together again.
    fn translation(&self, mut document: Document<'_>) -> Result<Translation> {
        self.note_results(&mut document);
        let n_best = document.parts.iter().map(|part| part.found.len()).max().unwrap_or(0).max(1);
        let mut candidates = Vec::with_capacity(n_best);
        let mut places = Vec::new();
        for rank in 0..n_best {
            let (candidate, found) = self.candidate(&document, rank)?;
            candidates.push(candidate);
            if rank == 0 {
                places = found;
            }
        }
        for place in places.iter().filter(|place| place.target.is_empty() && !place.source.is_empty()) {
            let sentence = shortened(&document.text[place.source.clone()]);
            document.notes.push(Note::Empty { sentence });
        }
        let alignment = match self.options.evidence {
            Evidence::None => None,
            Evidence::Alignment => Some(alignment::of_texts(
                self.engine,
                document.tag,
                document.text,
                &candidates[0].text,
                &places,
            )?),
        };
        let source_tokens =
            document.parts.iter().filter_map(|part| part.job.as_ref()).map(|job| job.source.len()).sum();
        Ok(Translation { n_best: candidates, alignment, notes: document.notes, source_tokens })
    }

    fn note_results(&self, document: &mut Document<'_>) {
        let unknown = self.engine.tokenizers.target().unknown_id();
        let mut written = 0;
        for part in &document.parts {
            let Some(best) = part.found.first() else { continue };
            if let Some(repetition) = part.repetition {
                let (sentence, is_cured) = (shortened(part.sentence.text), repetition == Repetition::Cured);
                document.notes.push(Note::Repetition { sentence, is_cured });
            }
            written += best.ids.iter().filter(|id| Some(**id) == unknown).count();
            if best.ids.len() >= self.search.max_length() {
                let (sentence, tokens) = (shortened(part.sentence.text), best.ids.len());
                document.notes.push(Note::Limit { sentence, tokens });
            }
        }
        if written > 0 {
            document.notes.push(Note::UnknownWritten { tokens: written });
        }
    }

    /// The translation that takes the hypothesis of this rank of every part, and where its parts stand.
    fn candidate(&self, document: &Document<'_>, rank: usize) -> Result<(Candidate, Vec<Place>)> {
        let mut candidate = Candidate { text: document.lead.to_owned(), ..Candidate::default() };
        let mut places = Vec::new();
        let mut scores = Vec::new();
        for (index, part) in document.parts.iter().enumerate() {
            let start = candidate.text.len();
            match part.found.get(rank).or(part.found.last()) {
                None => candidate.text.push_str(part.sentence.text),
                Some(hypothesis) => {
                    candidate.text.push_str(&self.engine.decode(&hypothesis.ids)?);
                    candidate.log_probability += hypothesis.log_probability;
                    candidate.tokens += hypothesis.ids.len();
                    scores.push(hypothesis.score);
                    let source_start = part.sentence.text.as_ptr() as usize - document.text.as_ptr() as usize;
                    places.push(Place {
                        source: source_start..source_start + part.sentence.text.len(),
                        target: start..candidate.text.len(),
                    });
                }
            }
            candidate.text.push_str(part.sentence.separator);
            if part.needs_space() && index + 1 < document.parts.len() && !ends_full_width(&candidate.text) {
                candidate.text.push(' ');
            }
        }
        // The mean of the sentences: as each falls with the rank, so does it. One sentence keeps the bits of its score.
        candidate.score = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        Ok((candidate, places))
    }
}

impl<'a> Part<'a> {
    fn new(sentence: Sentence<'a>, job: Option<Job>) -> Self {
        Self { sentence, job, found: Vec::new(), repetition: None }
    }

    /// How badly its best hypothesis loops.
    fn severity(&self) -> usize {
        match (&self.job, self.found.first()) {
            (Some(job), Some(best)) => severity(&job.source, &best.ids),
            _ => 0,
        }
    }

    /// Whether the next part follows at once because the marks of the source need no space.
    fn needs_space(&self) -> bool {
        self.sentence.separator.is_empty() && ends_full_width(self.sentence.text)
    }
}

fn ends_full_width(text: &str) -> bool {
    let text = text.trim_end_matches(['」', '』', '）', '”', '’']);
    text.ends_with(|mark| is_full_width_end(mark) || matches!(mark, '，' | '、' | '；' | '：'))
}
