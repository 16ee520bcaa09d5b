//! The way of a text from its language into another: one step where the model was trained on it, else two.
//!
//! Only a folder that says what its model was trained on has routes; any other translates as its tag says.

use polyhead_text::language::Identifier;
use serde::Serialize;

use crate::guess::{self, Reading};
use crate::languages::{Language, Languages, name, short};
use crate::options::{Mode, TranslateOptions};
use crate::translation::Note;
use crate::{Error, Result};

/// From which language into which a text went; two-letter codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The language of the text.
    pub from: String,
    /// The language of the translation.
    pub to: String,
    /// The language between them, where the model was not trained to translate directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// Whether `from` was guessed.
    pub guessed: bool,
    /// Whether `to` was chosen because nobody said.
    #[serde(skip)]
    pub is_default: bool,
}

impl Route {
    /// Whether it is other than what was asked for word by word: guessed, chosen or in two steps.
    pub fn is_notable(&self) -> bool {
        self.guessed || self.is_default || self.through.is_some()
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let guessed = if self.guessed { " (guessed)" } else { "" };
        write!(f, "from {}{guessed}, into {}", name(&self.from), name(&self.to))?;
        match &self.through {
            Some(through) => write!(f, ", through {}", name(through)),
            None => Ok(()),
        }
    }
}

/// One step of a text through the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leg {
    /// The id that chooses the target language.
    pub(crate) tag: Option<u32>,
    /// The languages, where they are known.
    pub(crate) languages: Option<(String, String)>,
}

/// What happens to a text.
#[derive(Debug, Clone)]
pub(crate) struct Journey<'t> {
    /// The text without a tag before it.
    pub(crate) body: &'t str,
    /// None, one or two; a text that has none is copied.
    pub(crate) legs: Vec<Leg>,
    pub(crate) route: Option<Route>,
    pub(crate) notes: Vec<Note>,
}

/// The ways of all texts.
pub(crate) fn journeys<'t>(
    languages: &Languages,
    texts: &[&'t str],
    options: &TranslateOptions,
) -> Result<Vec<Journey<'t>>> {
    if let Some(from) = &options.from {
        languages.check_source(from)?;
    }
    let asked = options.to.as_ref().map(|to| languages.target(to)).transpose()?.flatten();
    if options.mode == Mode::Raw {
        check_raw(languages, options)?;
        return Ok(texts.iter().map(|text| Journey::one(text, asked)).collect());
    }
    let tagged = texts.iter().map(|text| {
        let (tag, body) = languages.tag_of(text).map_or((None, *text), |(tag, body)| (Some(tag), body));
        (asked.or(tag), body)
    });
    let tagged: Vec<(Option<&Language>, &str)> = tagged.collect();
    if languages.directions().is_empty() {
        return Ok(tagged.into_iter().map(|(tag, body)| Journey::one(body, tag)).collect());
    }
    let (targets, bodies): (Vec<Option<String>>, Vec<&str>) =
        tagged.into_iter().map(|(tag, body)| (tag.map(|tag| short(&tag.code)), body)).unzip();
    let (from, sources) = (options.from.as_deref().map(short), languages.sources());
    let identifier = Identifier::four();
    let is_guessable = sources.iter().all(|code| identifier.codes().any(|known| known == *code));
    let readings = match &from {
        Some(from) if is_guessable => guess::doubts(identifier, &bodies, &sources, from),
        None if is_guessable => guess::languages(identifier, &bodies, &sources, &targets, options),
        _ => vec![Reading::None; bodies.len()],
    };
    let planner = Planner { languages, from: from.as_deref(), is_guessable };
    let texts = bodies.into_iter().zip(targets).zip(readings);
    texts.map(|((body, to), reading)| planner.journey(body, to, reading)).collect()
}

/// The model's own decoding knows one step.
fn check_raw(languages: &Languages, options: &TranslateOptions) -> Result<()> {
    let (Some(from), Some(to)) = (&options.from, &options.to) else { return Ok(()) };
    let (from, to) = (short(from), languages.target(to)?.map_or_else(String::new, |to| short(&to.code)));
    if languages.directions().is_empty() || languages.is_trained(&from, &to) {
        return Ok(());
    }
    let message = format!("the model was not trained from {} into {}", name(&from), name(&to));
    Err(Error::request(message, "leave out --raw: then it goes through a third language"))
}

impl<'t> Journey<'t> {
    /// One step, into the language of a tag.
    fn one(body: &'t str, tag: Option<&Language>) -> Self {
        let leg = Leg { tag: tag.map(|tag| tag.id), languages: None };
        Self { body, legs: vec![leg], route: None, notes: Vec::new() }
    }
}

struct Planner<'a> {
    languages: &'a Languages,
    /// The language that texts are said to be in.
    from: Option<&'a str>,
    /// Whether all languages that the model reads can be told apart.
    is_guessable: bool,
}

impl Planner<'_> {
    /// The way of one text into `to`, if that is said.
    fn journey<'t>(&self, body: &'t str, to: Option<String>, reading: Reading) -> Result<Journey<'t>> {
        let mut journey = Journey { body, legs: Vec::new(), route: None, notes: Vec::new() };
        let (from, guessed) = match (self.from, reading) {
            (Some(said), Reading::Doubt(code)) => {
                // Who names both languages wants a translation.
                let is_believed = to.as_ref().is_none_or(|to| self.languages.has_way(&code, to));
                journey.notes.push(Note::LooksLike { language: code.clone(), is_believed });
                if is_believed { (code, true) } else { (said.to_owned(), false) }
            }
            (Some(from), _) => (from.to_owned(), false),
            (None, Reading::Guess(code)) => (code, true),
            (None, _) => return self.unread(journey, to),
        };
        let default = || self.languages.default_target(&from).map(str::to_owned);
        let is_default = to.is_none();
        let Some(to) = to.or_else(default) else {
            let message = format!("no language to translate {} into", name(&from));
            return Err(Error::request(message, "choose one with --to"));
        };
        let mut route = Route { from, to, through: None, guessed, is_default };
        if route.from == route.to {
            journey.notes.push(Note::Same { language: route.to.clone() });
        } else if self.languages.is_trained(&route.from, &route.to) {
            journey.legs.push(self.leg(&route.from, &route.to)?);
        } else {
            let middle = self.languages.between(&route.from, &route.to)?;
            journey.legs = vec![self.leg(&route.from, middle)?, self.leg(middle, &route.to)?];
            journey.notes.push(Note::Through { language: middle.to_owned() });
            route.through = Some(middle.to_owned());
        }
        journey.route = Some(route);
        Ok(journey)
    }

    /// The way of a text whose language is unknown: straight into `to`, if that is said. Without letters it may stay as it is.
    fn unread<'t>(&self, mut journey: Journey<'t>, to: Option<String>) -> Result<Journey<'t>> {
        if let Some(to) = to {
            let tag = self.languages.target(&to)?.map(|language| language.id);
            journey.legs.push(Leg { tag, languages: None });
        } else if !self.is_guessable && journey.body.contains(char::is_alphabetic) {
            let sources = self.languages.sources().join(", ");
            let message = format!("no language of the text, which cannot be guessed among {sources}");
            return Err(Error::request(message, "say it with --from, or what to translate into with --to"));
        }
        Ok(journey)
    }

    fn leg(&self, from: &str, to: &str) -> Result<Leg> {
        let tag = self.languages.target(to)?.map(|language| language.id);
        Ok(Leg { tag, languages: Some((from.to_owned(), to.to_owned())) })
    }
}
