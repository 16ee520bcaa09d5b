//! A loaded folder from the inside, for those who look at a model rather than use it.

use polyhead_models::SequenceToSequence;
use polyhead_models::decode::beam::BeamOptions;
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::Encoding;

use crate::languages::name;
use crate::route::{Leg, Route, journeys};
use crate::search::Search;
use crate::{Engine, Error, Result, TranslateOptions};

impl Engine {
    /// The model.
    pub fn model(&self) -> &SequenceToSequence {
        &self.model
    }

    /// Its values.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The pieces that the model reads for a text as one sentence: the tag of the language to translate into, the text, the
    /// end token; and the languages, where the folder tells them. Languages are named, read from a tag before the text,
    /// guessed or chosen as in translating. Tag and end stand for no part of the text.
    ///
    /// # Errors
    /// If the model does not know a language, or would go from one to the other in two steps.
    pub fn encode_source(
        &self,
        text: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<(Encoding, Option<Route>)> {
        let languages = self.languages();
        let [from, to] = [from, to].map(|language| language.map(str::to_owned));
        let options = TranslateOptions { from, to, ..TranslateOptions::default() };
        let journey = journeys(languages, &[text], &options)?.remove(0);
        let tag = match (journey.legs.as_slice(), &options.to) {
            ([Leg { tag, .. }], _) => *tag,
            // Nothing would be translated, but it can be looked at.
            ([], to) => to.as_ref().map(|to| languages.target(to)).transpose()?.flatten().map(|tag| tag.id),
            (_, _) => return Err(in_two_steps(journey.route.as_ref())),
        };
        let mut encoding = self.tokenizers.encode_source(journey.body, self.model.special_ids().end_id)?;
        let start = text.len() - journey.body.len();
        encoding.offsets.iter_mut().for_each(|span| *span = start + span.start..start + span.end);
        if let Some(tag) = tag {
            encoding.ids.insert(0, tag);
            encoding.pieces.insert(0, self.tokenizers.source().piece(tag).unwrap_or_default());
            encoding.offsets.insert(0, 0..0);
        }
        Ok((encoding, journey.route))
    }

    /// The pieces of a text as a translation, the end token last.
    pub fn encode_target(&self, text: &str) -> Result<Encoding> {
        let mut encoding = self.tokenizers.encode_target(text)?;
        let end_id = self.generation().end_id;
        encoding.ids.push(end_id);
        encoding.pieces.push(self.target_piece(end_id));
        encoding.offsets.push(text.len()..text.len());
        Ok(encoding)
    }

    /// How the target's vocabulary spells an id.
    pub fn target_piece(&self, id: u32) -> String {
        self.tokenizers.target().piece(id).unwrap_or_else(|| format!("#{id}"))
    }

    /// The search that `options` ask for, the folder's own settings below.
    ///
    /// # Errors
    /// If they make no sense for this model.
    pub fn beam_options(&self, options: &TranslateOptions) -> Result<BeamOptions> {
        Ok(Search::new(self.generation(), options, self.model.max_len())?.into_beam())
    }
}

fn in_two_steps(route: Option<&Route>) -> Error {
    let route = route.map_or_else(String::new, |route| {
        let through = route
            .through
            .as_deref()
            .map_or_else(String::new, |through| format!(" only through {}", name(through)));
        format!(": the model translates {} into {}{through}", name(&route.from), name(&route.to))
    });
    Error::request(
        format!("two steps{route}, expected one"),
        "look at one step: choose another --to, or another text",
    )
}
