//! Access to model, parameters and tokens of a loaded folder, for inspection.

use polyhead_models::decode::beam::BeamOptions;
use polyhead_models::{SequenceToSequence, Shortlist};
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::{Encoding, UnknownWords};

use crate::languages::name;
use crate::route::{Hop, Route};
use crate::search::Search;
use crate::shortlist::ActiveShortlist;
use crate::{DecodedSegment, Engine, Error, Result, TranslateOptions};

impl Engine {
    /// The model.
    pub fn model(&self) -> &SequenceToSequence {
        &self.model
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokens that the model reads for a text as one sentence (tag of the target language, text, end token), and the
    /// route, where the folder states its directions. Languages are given, read from a tag before the text, detected or
    /// defaults, as in translation. The offsets of tag and end are empty.
    ///
    /// # Errors
    /// If the model does not know a language, or needs two hops.
    pub fn encode_source(
        &self,
        text: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<(Encoding, Option<Route>)> {
        let languages = self.languages();
        let [from, to] = [from, to].map(|language| language.map(str::to_owned));
        let options = TranslateOptions { from, to, ..TranslateOptions::default() };
        let plan = self.route(&[text], &options)?.remove(0);
        let tag = match (plan.hops.as_slice(), &options.to) {
            ([Hop { tag, .. }], _) => *tag,
            // Nothing would be translated, but the text can be inspected.
            ([], to) => to.as_ref().map(|to| languages.target(to)).transpose()?.flatten().map(|tag| tag.id),
            (_, _) => return Err(needs_two_hops(plan.route.as_ref())),
        };
        let mut encoding = self.tokenizers.encode_source(plan.body, self.model.special_ids().end_id)?;
        let start = text.len() - plan.body.len();
        encoding.offsets.iter_mut().for_each(|span| *span = start + span.start..start + span.end);
        if let Some(tag) = tag {
            self.insert_tag(&mut encoding, tag);
        }
        Ok((encoding, plan.route))
    }

    /// The tokens that the model read of a segment; offsets are bytes of `segment.read`, those of tag and end empty.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn encode_segment(&self, segment: &DecodedSegment) -> Result<Encoding> {
        let mut encoding = self.tokenizers.encode_source(&segment.read, self.model.special_ids().end_id)?;
        if let Some(tag) = segment.source.first().filter(|_| segment.source.len() > encoding.ids.len()) {
            self.insert_tag(&mut encoding, *tag);
        }
        Ok(encoding)
    }

    fn insert_tag(&self, encoding: &mut Encoding, tag: u32) {
        encoding.ids.insert(0, tag);
        encoding.pieces.insert(0, self.tokenizers.source().piece(tag).unwrap_or_default());
        encoding.offsets.insert(0, 0..0);
    }

    /// Runs `work` with the tokens that may be written for a source, as in translation; none means all.
    ///
    /// # Errors
    /// If the shortlist does not fit the model.
    pub fn with_shortlist<T>(
        &self,
        source: &[u32],
        prefix: &[u32],
        work: impl FnOnce(Option<&Shortlist>) -> T,
    ) -> Result<T> {
        match &self.shortlist {
            ActiveShortlist::Off => Ok(work(None)),
            ActiveShortlist::Fixed(shortlist) => Ok(work(Some(shortlist))),
            ActiveShortlist::Lexical(lexical) => match lexical.ids(source, prefix) {
                Some(ids) => Ok(work(Some(&Shortlist::of_sentences(&self.model, &self.parameters, &[ids])?))),
                None => Ok(work(None)),
            },
        }
    }

    /// The tokens of a text as a translation, the end token last.
    pub fn encode_target(&self, text: &str) -> Result<Encoding> {
        self.encode_target_of(text, &UnknownWords::default())
    }

    /// The tokens of a text as the translation of a source with these words, the end token last.
    pub fn encode_target_of(&self, text: &str, words: &UnknownWords) -> Result<Encoding> {
        let mut encoding = self.tokenizers.encode_target_of(text, words)?;
        let end_id = self.generation().end_id;
        encoding.ids.push(end_id);
        encoding.pieces.push(self.target_piece(end_id));
        encoding.offsets.push(text.len()..text.len());
        Ok(encoding)
    }

    /// The piece of an id in the source vocabulary.
    pub fn source_piece(&self, id: u32) -> String {
        self.tokenizers.source().piece(id).unwrap_or_else(|| format!("#{id}"))
    }

    /// The piece of an id in the target vocabulary.
    pub fn target_piece(&self, id: u32) -> String {
        self.tokenizers.target().piece(id).unwrap_or_else(|| format!("#{id}"))
    }

    /// The beam search of `options` over the folder's generation settings.
    ///
    /// # Errors
    /// If they are invalid for this model.
    pub fn beam_options(&self, options: &TranslateOptions) -> Result<BeamOptions> {
        Ok(Search::new(self.generation(), options, self.model.max_len())?.into_beam())
    }
}

fn needs_two_hops(route: Option<&Route>) -> Error {
    let route = route.map_or_else(
        || "the route has two hops".into(),
        |Route { from, to, through, .. }| {
            let via = through.as_deref().map_or_else(String::new, |middle| format!(" via {}", name(middle)));
            format!("{} → {} goes{via}", name(from), name(to))
        },
    );
    Error::request(
        format!("{route}, expected one hop"),
        "inspect one hop: choose another --to, or another text",
    )
}
