//! Queue, workers, cache and models: every answer is that of the translator, whoever else asks.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use polyhead_serve::Error;
use polyhead_serve::server::{Answered, Ask, Client, Desk, DeskOptions, ModelFolder, Wanted};
use polyhead_translate::{Evidence, TranslateOptions, Translation};

use crate::{engine, golden};

const TEXTS: &[&str] = &[
    "The teacher reads a book today.",
    "Nobody slept well!  The garden is old.\n\nThe students sing a song in the kitchen.",
    "",
    "  \t",
    "Our neighbour drinks tea. Ayşe writes a letter. 42. The old house.",
];

fn options() -> DeskOptions {
    let model = ModelFolder { name: "golden".into(), folder: golden() };
    DeskOptions { models: vec![model], threads: 2, ..DeskOptions::default() }
}

fn ask(texts: &[&str], to: Option<&str>) -> Ask {
    Ask {
        client: Client::Key("somebody".into()),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        from: None,
        to: to.map(str::to_owned),
        model: None,
        wanted: Wanted::default(),
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn directly(texts: &[&str], options: &TranslateOptions) -> Vec<Translation> {
    engine().translate(texts, options).unwrap()
}

#[test]
fn answers_are_those_of_the_translator() {
    let wanted = [
        Wanted::default(),
        Wanted { beam_size: Some(3), n_best: 3, evidence: Evidence::Alignment },
        Wanted { beam_size: Some(1), n_best: 1, evidence: Evidence::None },
    ];
    // What is remembered is the same as what is translated.
    let desk = Arc::new(Desk::open(DeskOptions { cache_bytes: 1 << 20, ..options() }).unwrap());
    for _ in 0..2 {
        for wanted in wanted {
            let Wanted { beam_size, n_best, evidence } = wanted;
            for to in ["tur", "fra"] {
                let to_option = Some(to.to_owned());
                let options = TranslateOptions {
                    beam_size,
                    n_best,
                    evidence,
                    to: to_option,
                    ..TranslateOptions::default()
                };
                let found = run(desk.translate(Ask { wanted, ..ask(TEXTS, Some(to)) })).unwrap();
                assert_eq!(found.model, "golden");
                assert_eq!(found.translations, directly(TEXTS, &options), "{wanted:?} {to}");
            }
        }
    }
    let gauges = desk.gauges();
    assert!(gauges.remembered >= gauges.sentences && gauges.cache_bytes > 0, "{gauges:?}");
}

#[test]
fn many_clients_at_once_get_their_own_answers() {
    let desk = Arc::new(Desk::open(DeskOptions { cache_bytes: 0, batch_tokens: 64, ..options() }).unwrap());
    let expected: Vec<String> =
        directly(TEXTS, &TranslateOptions { to: Some("tur".into()), ..TranslateOptions::default() })
            .iter()
            .map(|found| found.text().to_owned())
            .collect();
    run(async {
        let mut tasks = Vec::new();
        for client in 0..24 {
            let desk = desk.clone();
            tasks.push(tokio::spawn(async move {
                let place = client % TEXTS.len();
                let ask = Ask {
                    client: Client::Key(client.to_string().into()),
                    ..ask(&TEXTS[place..=place], Some("tur"))
                };
                (place, desk.translate(ask).await.unwrap().translations[0].text().to_owned())
            }));
        }
        for task in tasks {
            let (place, text) = task.await.unwrap();
            assert_eq!(text, expected[place]);
        }
    });
    let gauges = desk.gauges();
    assert!(gauges.batches < gauges.sentences, "sentences of several share batches: {gauges:?}");
    assert_eq!((gauges.waiting, gauges.remembered), (0, 0));
}

#[test]
fn sentences_are_heard_of_in_order() {
    let desk = Desk::open(options()).unwrap();
    let mut heard = Vec::new();
    let found = run(desk.translate_watched(ask(TEXTS, Some("tur")), |own| heard.push(own))).unwrap();
    let places: Vec<(usize, usize)> = heard.iter().map(|own| (own.text, own.sentence)).collect();
    assert!(places.is_sorted() && places.len() == 7, "{places:?}");
    assert_eq!(
        (heard[0].source.as_str(), heard[0].translation.as_str()),
        (TEXTS[0], found.translations[0].text())
    );
    assert!(heard.iter().all(|own| found.translations[own.text].text().contains(&own.translation)));
}

/// What comes of requests that all begin before the first is done.
fn together(desk: &Desk, asks: Vec<Ask>) -> Vec<Result<Answered, Error>> {
    run(async {
        let mut waiting: Vec<_> = asks.into_iter().map(|ask| Box::pin(desk.translate(ask))).collect();
        let mut found = Vec::new();
        std::future::poll_fn(|context| {
            waiting.retain_mut(|asked| match asked.as_mut().poll(context) {
                Poll::Ready(own) => {
                    found.push(own);
                    false
                }
                Poll::Pending => true,
            });
            if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        found
    })
}

#[test]
fn what_is_too_much_is_refused_and_what_waits_goes_on() {
    let options = DeskOptions { waiting: 8, threads: 1, cache_bytes: 0, ..options() };
    let desk = Desk::open(options).unwrap();
    // It takes the model longer than all of them take to come in.
    let slow = format!(
        "{}. Nobody slept well!",
        "The old doctor is waiting for the train near the river and ".repeat(8)
    );
    for (clients, status) in [(20, 503), (1, 429)] {
        let named = |number: usize| Client::Key((number % clients).to_string().into());
        let asks = (0..20).map(|number| Ask { client: named(number), ..ask(&[&slow], Some("tur")) });
        let (answered, refused): (Vec<_>, Vec<_>) =
            together(&desk, asks.collect()).into_iter().partition(Result::is_ok);
        assert!(!answered.is_empty() && !refused.is_empty(), "{} answered", answered.len());
        for error in refused.into_iter().map(Result::unwrap_err) {
            assert_eq!((error.status().as_u16(), error.retry_after()), (status, Some(1)), "{error}");
        }
    }
}

#[test]
fn a_text_of_more_sentences_than_may_wait_comes_in_slices() {
    let desk = Desk::open(DeskOptions { waiting: 8, cache_bytes: 0, ..options() }).unwrap();
    let long = "Nobody slept well! The garden is old. ".repeat(20);
    let mut asks = vec![ask(&[&long], Some("tur"))];
    asks.push(Ask { client: Client::Key("other".into()), ..ask(&TEXTS[..1], Some("tur")) });
    let found = together(&desk, asks);
    let text = |found: &Result<Answered, Error>| found.as_ref().unwrap().translations[0].text().to_owned();
    // The other one did not have to wait for all of it.
    assert_eq!(text(&found[0]), text(&Ok(run(desk.translate(ask(&TEXTS[..1], Some("tur")))).unwrap())));
    let options = TranslateOptions { to: Some("tur".into()), ..TranslateOptions::default() };
    assert_eq!(text(&found[1]), directly(&[&long], &options)[0].text());
}

#[test]
fn whoever_goes_away_frees_a_long_sentence_too() {
    let desk = Desk::open(DeskOptions { cache_bytes: 0, threads: 1, ..options() }).unwrap();
    // One sentence of many parts.
    let long = "the old doctor is waiting for the train near the river and ".repeat(400);
    let late = Ask { deadline: Instant::now() + Duration::from_millis(50), ..ask(&[&long], Some("tur")) };
    assert!(run(desk.translate(late)).is_err());
    let start = Instant::now();
    run(desk.translate(ask(&TEXTS[..1], Some("tur")))).unwrap();
    let waited = start.elapsed();
    let start = Instant::now();
    run(desk.translate(ask(&[&long], Some("tur")))).unwrap();
    assert!(waited * 4 < start.elapsed(), "{waited:?} of {:?}", start.elapsed());
}

#[test]
fn a_deadline_that_passes_is_said_and_frees_its_work() {
    let desk = Desk::open(DeskOptions { cache_bytes: 0, ..options() }).unwrap();
    let many: Vec<String> = (0..200).map(|number| format!("The garden number {number} is old.")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let late = Ask { deadline: Instant::now() + Duration::from_millis(40), ..ask(&many, Some("tur")) };
    let error = run(desk.translate(late)).unwrap_err();
    assert!(error.to_string().contains("deadline"), "{error}");
    let found = run(desk.translate(ask(&TEXTS[..1], Some("tur")))).unwrap();
    assert!(!found.translations[0].text().is_empty());
    assert!(desk.gauges().sentences < 200, "what nobody waited for was not translated");
}

#[test]
fn mistakes_are_the_clients_own() {
    let desk = Desk::open(options()).unwrap();
    let error = |ask: Ask| {
        let error = run(desk.translate(ask)).unwrap_err();
        assert_eq!(error.status().as_u16(), 400, "{error}");
        error.to_string()
    };
    assert!(error(ask(TEXTS, Some("xx"))).starts_with("language \"xx\""));
    let other = Ask { model: Some("other".into()), ..ask(TEXTS, None) };
    assert_eq!(error(other), "no model \"other\", expected one of golden");
    let wanted = Wanted { n_best: 3, beam_size: Some(2), ..Wanted::default() };
    assert!(error(Ask { wanted, ..ask(TEXTS, Some("tur")) }).contains('3'));
}

#[test]
fn models_are_loaded_on_demand_and_read_again() {
    let second = ModelFolder { name: "second".into(), folder: golden() };
    let mut options = options();
    options.models.push(second);
    let desk = Desk::open(options.clone()).unwrap();
    let loaded = |desk: &Desk| desk.models().iter().map(|model| model.is_loaded).collect::<Vec<_>>();
    assert_eq!(loaded(&desk), [true, false]);
    let named = Ask { model: Some("second".into()), ..ask(&TEXTS[..1], Some("tur")) };
    assert_eq!(run(desk.translate(named)).unwrap().model, "second");
    assert_eq!((loaded(&desk), desk.reload().unwrap()), (vec![true, true], 2));
    options.models[1].name = "golden".into();
    assert!(Desk::open(options).unwrap_err().to_string().contains("two models called \"golden\""));
}

#[test]
fn memory_that_cannot_be_enough_is_said_at_the_start() {
    let error = Desk::open(DeskOptions { max_memory: Some(1 << 20), ..options() }).unwrap_err();
    assert!(error.to_string().contains("expected at most 1 MiB"), "{error}");
}
