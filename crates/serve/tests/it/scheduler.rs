//! Queue, workers, cache and model registry: every translation equals the translator's, whatever other clients ask for.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use polyhead_serve::Error;
use polyhead_serve::server::{
    Client, ModelFolder, RequestOptions, Scheduler, SchedulerOptions, TranslationRequest, TranslationResult,
};
use polyhead_translate::{Evidence, TranslateOptions, Translation};

use crate::{engine, golden};

const TEXTS: &[&str] = &[
    "The teacher reads a book today.",
    "Nobody slept well!  The garden is old.\n\nThe students sing a song in the kitchen.",
    "",
    "  \t",
    "Our neighbour drinks tea. Ayşe writes a letter. 42. The old house.",
];

fn options() -> SchedulerOptions {
    let model = ModelFolder { name: "golden".into(), folder: golden() };
    SchedulerOptions { models: vec![model], threads: 2, ..SchedulerOptions::default() }
}

fn request(texts: &[&str], to: Option<&str>) -> TranslationRequest<String> {
    TranslationRequest {
        client: Client::Key("client".into()),
        inputs: texts.iter().map(|text| (*text).to_owned()).collect(),
        from: None,
        to: to.map(str::to_owned),
        model: None,
        options: RequestOptions::default(),
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
fn translations_equal_the_translators() {
    let all = [
        RequestOptions::default(),
        RequestOptions {
            beam_size: Some(3),
            n_best: 3,
            evidence: Evidence::Alignment,
            ..RequestOptions::default()
        },
        RequestOptions { beam_size: Some(1), ..RequestOptions::default() },
    ];
    // Cached translations equal new ones.
    let scheduler =
        Arc::new(Scheduler::open(SchedulerOptions { cache_bytes: 1 << 20, ..options() }).unwrap());
    for _ in 0..2 {
        for options in all.clone() {
            let RequestOptions { beam_size, n_best, evidence, .. } = options;
            for to in ["tur", "fra"] {
                let to_option = Some(to.to_owned());
                let directly_options = TranslateOptions {
                    beam_size,
                    n_best,
                    evidence,
                    to: to_option,
                    ..TranslateOptions::default()
                };
                let asked = TranslationRequest { options: options.clone(), ..request(TEXTS, Some(to)) };
                let found = run(scheduler.translate(asked)).unwrap();
                assert_eq!(found.model, "golden");
                assert_eq!(found.translations, directly(TEXTS, &directly_options), "{options:?} {to}");
            }
        }
    }
    let gauges = scheduler.gauges();
    assert!(gauges.cache_hits >= gauges.sentences && gauges.cache_bytes > 0, "{gauges:?}");
}

#[test]
fn many_clients_at_once_get_their_own_answers() {
    let scheduler = Arc::new(
        Scheduler::open(SchedulerOptions { cache_bytes: 0, batch_tokens: 64, ..options() }).unwrap(),
    );
    let expected: Vec<String> =
        directly(TEXTS, &TranslateOptions { to: Some("tur".into()), ..TranslateOptions::default() })
            .iter()
            .map(|found| found.text().to_owned())
            .collect();
    run(async {
        let mut trequests = Vec::new();
        for client in 0..24 {
            let scheduler = scheduler.clone();
            trequests.push(tokio::spawn(async move {
                let index = client % TEXTS.len();
                let request = TranslationRequest {
                    client: Client::Key(client.to_string().into()),
                    ..request(&TEXTS[index..=index], Some("tur"))
                };
                (index, scheduler.translate(request).await.unwrap().translations[0].text().to_owned())
            }));
        }
        for task in trequests {
            let (index, text) = task.await.unwrap();
            assert_eq!(text, expected[index]);
        }
    });
    let gauges = scheduler.gauges();
    assert!(gauges.batches < gauges.sentences, "sentences of several clients share batches: {gauges:?}");
    assert_eq!((gauges.waiting, gauges.cache_hits), (0, 0));
}

#[test]
fn sentences_are_reported_in_order() {
    let scheduler = Scheduler::open(options()).unwrap();
    let mut finished = Vec::new();
    let found =
        run(scheduler.translate_watched(request(TEXTS, Some("tur")), |own| finished.push(own))).unwrap();
    let positions: Vec<(usize, usize)> = finished.iter().map(|own| (own.text, own.sentence)).collect();
    assert!(positions.is_sorted() && positions.len() == 7, "{positions:?}");
    assert_eq!(
        (finished[0].source.as_str(), finished[0].translation.as_str()),
        (TEXTS[0], found.translations[0].text())
    );
    assert!(finished.iter().all(|own| found.translations[own.text].text().contains(&own.translation)));
}

/// The results of requests that all begin before the first is finished.
fn together(
    scheduler: &Scheduler,
    requests: Vec<TranslationRequest<String>>,
) -> Vec<Result<TranslationResult, Error>> {
    run(async {
        let mut waiting: Vec<_> =
            requests.into_iter().map(|request| Box::pin(scheduler.translate(request))).collect();
        let mut found = Vec::new();
        std::future::poll_fn(|context| {
            waiting.retain_mut(|own| match own.as_mut().poll(context) {
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
fn a_full_queue_refuses_and_queued_requests_finish() {
    let options = SchedulerOptions { waiting: 8, threads: 1, cache_bytes: 0, ..options() };
    let scheduler = Scheduler::open(options).unwrap();
    // The model takes longer for it than all requests take to arrive.
    let slow = format!(
        "{}. Nobody slept well!",
        "The old doctor is waiting for the train near the river and ".repeat(8)
    );
    for (clients, status) in [(20, 503), (1, 429)] {
        let named = |number: usize| Client::Key((number % clients).to_string().into());
        let requests = (0..20)
            .map(|number| TranslationRequest { client: named(number), ..request(&[&slow], Some("tur")) });
        let (answered, refused): (Vec<_>, Vec<_>) =
            together(&scheduler, requests.collect()).into_iter().partition(Result::is_ok);
        assert!(!answered.is_empty() && !refused.is_empty(), "{} answered", answered.len());
        for error in refused.into_iter().map(Result::unwrap_err) {
            assert_eq!((error.status().as_u16(), error.retry_after()), (status, Some(1)), "{error}");
        }
    }
}

#[test]
fn a_text_with_more_sentences_than_the_queue_holds_is_queued_in_slices() {
    let scheduler = Scheduler::open(SchedulerOptions { waiting: 8, cache_bytes: 0, ..options() }).unwrap();
    let long = "Nobody slept well! The garden is old. ".repeat(20);
    let mut requests = vec![request(&[&long], Some("tur"))];
    requests.push(TranslationRequest {
        client: Client::Key("other".into()),
        ..request(&TEXTS[..1], Some("tur"))
    });
    let found = together(&scheduler, requests);
    let text =
        |found: &Result<TranslationResult, Error>| found.as_ref().unwrap().translations[0].text().to_owned();
    // The other request did not wait for all of it.
    assert_eq!(
        text(&found[0]),
        text(&Ok(run(scheduler.translate(request(&TEXTS[..1], Some("tur")))).unwrap()))
    );
    let options = TranslateOptions { to: Some("tur".into()), ..TranslateOptions::default() };
    assert_eq!(text(&found[1]), directly(&[&long], &options)[0].text());
}

#[test]
fn an_abandoned_long_sentence_frees_its_worker() {
    let scheduler = Scheduler::open(SchedulerOptions { cache_bytes: 0, threads: 1, ..options() }).unwrap();
    // One very long sentence.
    let long = "the old doctor is waiting for the train near the river and ".repeat(400);
    let late = TranslationRequest {
        deadline: Instant::now() + Duration::from_millis(50),
        ..request(&[&long], Some("tur"))
    };
    assert!(run(scheduler.translate(late)).is_err());
    let start = Instant::now();
    run(scheduler.translate(request(&TEXTS[..1], Some("tur")))).unwrap();
    let waited = start.elapsed();
    let start = Instant::now();
    run(scheduler.translate(request(&[&long], Some("tur")))).unwrap();
    assert!(waited * 4 < start.elapsed(), "{waited:?} of {:?}", start.elapsed());
}

#[test]
fn a_passed_deadline_is_reported_and_frees_its_work() {
    let scheduler = Scheduler::open(SchedulerOptions { cache_bytes: 0, ..options() }).unwrap();
    let many: Vec<String> = (0..200).map(|number| format!("The garden number {number} is old.")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let late = TranslationRequest {
        deadline: Instant::now() + Duration::from_millis(40),
        ..request(&many, Some("tur"))
    };
    let error = run(scheduler.translate(late)).unwrap_err();
    assert!(error.to_string().contains("deadline"), "{error}");
    let found = run(scheduler.translate(request(&TEXTS[..1], Some("tur")))).unwrap();
    assert!(!found.translations[0].text().is_empty());
    assert!(scheduler.gauges().sentences < 200, "abandoned sentences are not translated");
}

#[test]
fn invalid_requests_are_400() {
    let scheduler = Scheduler::open(options()).unwrap();
    let error = |request: TranslationRequest<String>| {
        let error = run(scheduler.translate(request)).unwrap_err();
        assert_eq!(error.status().as_u16(), 400, "{error}");
        error.to_string()
    };
    assert!(error(request(TEXTS, Some("xx"))).starts_with("language \"xx\""));
    let other = TranslationRequest { model: Some("other".into()), ..request(TEXTS, None) };
    assert_eq!(error(other), "no model \"other\", expected one of golden");
    let options = RequestOptions { n_best: 3, beam_size: Some(2), ..RequestOptions::default() };
    assert!(error(TranslationRequest { options, ..request(TEXTS, Some("tur")) }).contains('3'));
}

#[test]
fn models_are_loaded_on_demand_and_reloaded() {
    let second = ModelFolder { name: "second".into(), folder: golden() };
    let mut options = options();
    options.models.push(second);
    let scheduler = Scheduler::open(options.clone()).unwrap();
    let loaded =
        |scheduler: &Scheduler| scheduler.models().iter().map(|model| model.is_loaded).collect::<Vec<_>>();
    assert_eq!(loaded(&scheduler), [true, false]);
    let named = TranslationRequest { model: Some("second".into()), ..request(&TEXTS[..1], Some("tur")) };
    assert_eq!(run(scheduler.translate(named)).unwrap().model, "second");
    assert_eq!((loaded(&scheduler), scheduler.reload().unwrap()), (vec![true, true], 2));
    options.models[1].name = "golden".into();
    assert!(Scheduler::open(options).unwrap_err().to_string().contains("two models called \"golden\""));
}

#[test]
fn too_small_a_memory_limit_is_reported_at_the_start() {
    let error = Scheduler::open(SchedulerOptions { max_memory: Some(1 << 20), ..options() }).unwrap_err();
    assert!(error.to_string().contains("expected at most 1 MiB"), "{error}");
}
