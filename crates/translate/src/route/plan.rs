//! Planning a route: the target language, the detected source language, the hops between them.

use polyhead_text::language::Identifier;

use super::{Hop, Route};
use crate::languages::detect::{self, DetectedLanguage};
use crate::languages::other::note_other;
use crate::languages::{Language, Languages, name, short};
use crate::options::{Mode, TranslateOptions};
use crate::translation::Note;
use crate::{Error, Result};

/// The route of one text.
#[derive(Debug, Clone)]
pub(crate) struct RoutePlan<'t> {
    /// The text without a tag before it.
    pub(crate) body: &'t str,
    /// None, one or two; a text without hops is copied.
    pub(crate) hops: Vec<Hop>,
    pub(crate) route: Option<Route>,
    pub(crate) notes: Vec<Note>,
}

impl<'t> RoutePlan<'t> {
    fn new(body: &'t str, hops: Vec<Hop>) -> Self {
        Self { body, hops, route: None, notes: Vec::new() }
    }
}

/// A text and the language to translate it into, where the options or a tag before it name one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRequest<'t, 'l> {
    body: &'t str,
    to: Option<&'l Language>,
}

/// Plans the routes of a request.
pub(crate) struct Router<'a> {
    languages: &'a Languages,
    options: &'a TranslateOptions,
    /// The target language of the options.
    to: Option<&'a Language>,
    /// The two-letter code of the source language of the options.
    from: Option<String>,
    /// True if all source languages of the model can be told apart.
    is_detectable: bool,
}

impl<'a> Router<'a> {
    /// Checks the languages of the options.
    ///
    /// # Errors
    /// If the model does not know them, or in raw mode was not trained on the direction.
    pub(crate) fn new(languages: &'a Languages, options: &'a TranslateOptions) -> Result<Self> {
        if let Some(from) = &options.from {
            languages.check_source(from)?;
        }
        let to = options.to.as_ref().map(|to| languages.target(to)).transpose()?.flatten();
        if options.mode == Mode::Raw {
            check_raw(languages, options)?;
        }
        let from = options.from.as_deref().map(short);
        let mut router = Self { languages, options, to, from, is_detectable: false };
        if !router.is_direct() {
            let sources = languages.sources();
            router.is_detectable =
                sources.iter().all(|code| Identifier::four().codes().any(|known| known == *code));
        }
        Ok(router)
    }

    /// True if every text takes one hop into the language of its tag: raw mode, or a model that states no directions.
    fn is_direct(&self) -> bool {
        self.options.mode == Mode::Raw || self.languages.directions().is_empty()
    }

    /// A text without its tag, and its target language; in raw mode a tag stays in the text.
    pub(crate) fn request<'t>(&self, text: &'t str) -> RouteRequest<'t, 'a> {
        if self.options.mode == Mode::Raw {
            return RouteRequest { body: text, to: self.to };
        }
        let (tag, body) = self.languages.tag_of(text).map_or((None, text), |(tag, body)| (Some(tag), body));
        RouteRequest { body, to: self.to.or(tag) }
    }

    /// Detects the language of each text where none is given, and checks the given one otherwise.
    pub(crate) fn detect(&self, requests: &[RouteRequest<'_, '_>]) -> Vec<DetectedLanguage> {
        if self.is_direct() || !self.is_detectable {
            return vec![DetectedLanguage::None; requests.len()];
        }
        let sources = self.languages.sources();
        let bodies: Vec<&str> = requests.iter().map(|request| request.body).collect();
        if let Some(from) = &self.from {
            return detect::contradictions(&bodies, &sources, from);
        }
        let targets = requests.iter().map(|request| request.to.map(|to| short(&to.code)));
        detect::detect_each(&bodies, &sources, &targets.collect::<Vec<_>>(), self.options)
    }

    /// The route of one text.
    ///
    /// # Errors
    /// If the model has no route between the languages, or the target language is neither given nor a default.
    pub(crate) fn plan<'t>(
        &self,
        request: RouteRequest<'t, '_>,
        detected: DetectedLanguage,
    ) -> Result<RoutePlan<'t>> {
        let RouteRequest { body, to } = request;
        if self.is_direct() {
            let hop = Hop { tag: to.map(|to| to.id), languages: None };
            return Ok(RoutePlan::new(body, vec![hop]));
        }
        let to = to.map(|to| short(&to.code));
        let mut plan = RoutePlan::new(body, Vec::new());
        plan.notes.extend(note_other(body, &self.languages.known()));
        let (from, is_detected) = match (self.from.as_deref(), detected) {
            (Some(given), DetectedLanguage::Contradicts(code)) => {
                // Whoever names both languages wants a translation.
                let is_believed = to.as_ref().is_none_or(|to| self.languages.has_route(&code, to));
                plan.notes.push(Note::LooksLike { language: code.clone(), is_believed });
                if is_believed { (code, true) } else { (given.to_owned(), false) }
            }
            (Some(from), _) => (from.to_owned(), false),
            (None, DetectedLanguage::Detected(code)) => (code, true),
            (None, _) => return self.plan_undetected(plan, to),
        };
        let english_to = self.options.english_to.as_deref().map(short);
        let default = || self.languages.default_target(&from, english_to.as_deref()).map(str::to_owned);
        let is_default = to.is_none();
        let Some(to) = to.or_else(default) else {
            let message = format!("no target language for {}", name(&from));
            return Err(Error::request(message, "choose one with --to"));
        };
        let mut route = Route { from, to, through: None, guessed: is_detected, is_default };
        if route.from == route.to {
            plan.notes.push(Note::Same { language: route.to.clone() });
        } else if self.languages.is_trained(&route.from, &route.to) {
            plan.hops.push(self.hop(&route.from, &route.to)?);
        } else {
            let middle = self.languages.between(&route.from, &route.to)?;
            plan.hops = vec![self.hop(&route.from, middle)?, self.hop(middle, &route.to)?];
            plan.notes.push(Note::Through { language: middle.to_owned() });
            route.through = Some(middle.to_owned());
        }
        plan.route = Some(route);
        Ok(plan)
    }

    /// The route of a text whose language is unknown: one hop into `to`, if given. A text without letters is copied.
    fn plan_undetected<'t>(&self, mut plan: RoutePlan<'t>, to: Option<String>) -> Result<RoutePlan<'t>> {
        if let Some(to) = to {
            let tag = self.languages.target(&to)?.map(|language| language.id);
            plan.hops.push(Hop { tag, languages: None });
        } else if !self.is_detectable && plan.body.contains(char::is_alphabetic) {
            let sources = self.languages.sources().join(", ");
            let message = format!("the language of the text cannot be detected among {sources}");
            return Err(Error::request(message, "name it with --from, or the target language with --to"));
        }
        Ok(plan)
    }

    fn hop(&self, from: &str, to: &str) -> Result<Hop> {
        let tag = self.languages.target(to)?.map(|language| language.id);
        Ok(Hop { tag, languages: Some((from.to_owned(), to.to_owned())) })
    }
}

/// Checks that raw decoding, which is one hop, can translate between the languages of the options.
fn check_raw(languages: &Languages, options: &TranslateOptions) -> Result<()> {
    let (Some(from), Some(to)) = (&options.from, &options.to) else { return Ok(()) };
    let (from, to) = (short(from), languages.target(to)?.map_or_else(String::new, |to| short(&to.code)));
    if languages.directions().is_empty() || languages.is_trained(&from, &to) {
        return Ok(());
    }
    let message = format!("the model was not trained from {} into {}", name(&from), name(&to));
    Err(Error::request(message, "leave out --raw to go via a third language"))
}
