//! A request on its way: its documents as texts for the desk, in portions that leave room for others.

use std::time::Instant;

use polyhead_translate::{Evidence, Translation};

use super::desk::{Ask, Client, Desk, Finished, Wanted};
use super::documents::{Document, Guessing};
use super::spoken::Spoken;
use crate::Result;

/// Bytes of text that are asked for at once. A long file takes its turn like everybody else.
const PORTION: usize = 32 << 10;

/// A guess that a text is in the very language that it is to be translated into must be as sure as this, in percent.
const ALREADY: f64 = 80.0;

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) client: Client,
    pub(crate) documents: Vec<Document>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) wanted: Wanted,
    pub(crate) deadline: Instant,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    /// The model that did it.
    pub(crate) model: String,
    /// For each document, those of its texts.
    pub(crate) found: Vec<Vec<Translation>>,
}

/// Texts that are asked for together.
struct Portion {
    from: Option<String>,
    texts: Vec<String>,
    /// The document of each.
    owners: Vec<usize>,
}

impl Job {
    /// Does it; `watcher` hears of every sentence in order, with the index of its document and its place in that.
    ///
    /// # Errors
    /// Those of the desk.
    pub(crate) async fn run(
        &self,
        desk: &Desk,
        spoken: &Spoken,
        mut watcher: impl FnMut(Finished) + Send,
    ) -> Result<Done> {
        let mut found: Vec<Vec<Translation>> = self.documents.iter().map(|_| Vec::new()).collect();
        let mut counts = vec![0; self.documents.len()];
        let mut model = self.model.clone();
        let mut wanted = self.wanted;
        if self.documents.iter().any(Document::needs_alignment) {
            wanted.evidence = Evidence::Alignment;
        }
        for Portion { from, texts, owners } in self.portions(spoken) {
            let ask = Ask {
                client: self.client.clone(),
                texts,
                from,
                to: self.to.clone(),
                model: self.model.clone(),
                wanted,
                deadline: self.deadline,
            };
            let answered = desk.translate_watched(ask, |finished| {
                let text = owners[finished.text];
                watcher(Finished { text, sentence: counts[text], ..finished });
                counts[text] += 1;
            });
            let answered = answered.await?;
            model.get_or_insert(answered.model);
            for (owner, translation) in owners.into_iter().zip(answered.translations) {
                found[owner].push(translation);
            }
        }
        let first = || desk.models().into_iter().next().map_or_else(String::new, |own| own.name);
        Ok(Done { model: model.unwrap_or_else(first), found })
    }

    fn portions(&self, spoken: &Spoken) -> Vec<Portion> {
        let mut portions: Vec<Portion> = Vec::new();
        let mut bytes = 0;
        for (owner, document) in self.documents.iter().enumerate() {
            let from = self.from.clone().or_else(|| self.guess(document, spoken));
            for text in document.texts() {
                let is_room = bytes + text.len() <= PORTION;
                if let Some(last) = portions.last_mut().filter(|last| is_room && last.from == from) {
                    bytes += text.len();
                    last.texts.push(text.to_owned());
                    last.owners.push(owner);
                } else {
                    bytes = text.len();
                    let (texts, owners) = (vec![text.to_owned()], vec![owner]);
                    portions.push(Portion { from: from.clone(), texts, owners });
                }
            }
        }
        portions
    }

    /// The language of a whole document, where it is guessed so and can be.
    fn guess(&self, document: &Document, spoken: &Spoken) -> Option<String> {
        if document.guessing() == Guessing::Each {
            return None;
        }
        let mut guesses = spoken.guesses(&document.texts().join("\n")).into_iter();
        let best = guesses.next().filter(|own| own.confidence > 0.0)?;
        let is_doubtful = Some(&best.language) == self.to.as_ref() && best.confidence < ALREADY;
        Some(guesses.next().filter(|_| is_doubtful).unwrap_or(best).language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::shelf::LanguageAnswer;
    use polyhead_translate::formats::Format;

    fn spoken() -> Spoken {
        let language =
            |code: &str| LanguageAnswer { code: code.into(), name: String::new(), targets: Vec::new() };
        Spoken::new(["en", "de", "fr", "tr"].map(language).into())
    }

    fn job(documents: Vec<Document>) -> Job {
        Job {
            client: Client::Key("a".into()),
            documents,
            from: None,
            to: Some("en".into()),
            model: None,
            wanted: Wanted::default(),
            deadline: Instant::now(),
        }
    }

    #[test]
    fn documents_are_guessed_whole_and_texts_by_the_translator() {
        let html = |text| Document::read(Format::Html, text).unwrap();
        let plain = Document::read(Format::Text, "Ja. Das ist ein Haus.").unwrap();
        let job = job(vec![
            html("<p>OK</p><p>Der Hund schläft auf dem alten Sofa.</p>"),
            html("<p>Das ist gut.</p>"),
            html("<p>La maison est très petite.</p>"),
            plain,
        ]);
        let portions = job.portions(&spoken());
        let seen: Vec<(Option<&str>, &[usize])> =
            portions.iter().map(|own| (own.from.as_deref(), own.owners.as_slice())).collect();
        assert_eq!(seen, [(Some("de"), &[0, 0, 1][..]), (Some("fr"), &[2][..]), (None, &[3][..])]);
    }

    #[test]
    fn long_files_come_in_portions() {
        let text = "The cat ate the mouse in the garden.\n".repeat(3000);
        let job = job(vec![Document::read_file(Format::Text, &text).unwrap()]);
        let portions = job.portions(&spoken());
        assert!(portions.len() > 3, "{}", portions.len());
        assert!(portions.iter().all(|own| own.texts.iter().map(String::len).sum::<usize>() <= PORTION));
        assert_eq!(portions.iter().map(|own| own.texts.len()).sum::<usize>(), 3000);
        assert!(portions.iter().all(|own| own.from.as_deref() == Some("en")));
    }
}
