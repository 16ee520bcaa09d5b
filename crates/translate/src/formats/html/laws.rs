//! Property tests of pages: no tag and no word is lost, and a balanced page stays balanced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::tokens::{TokenKind, tokens};
use super::{entities, names};
use crate::formats::{Format, Layout, TranslatedText};

/// Pages of words and tags, all of them closed.
fn balanced() -> impl Strategy<Value = String> {
    let space = prop_oneof![Just(""), Just(" "), Just("\n  ")];
    let word = prop_oneof![
        "[a-c]{1,3}",
        "[a-c]{1,2}[.,!]",
        Just("(x)".to_owned()),
        Just("&uuml;b".to_owned()),
        Just("&foo;".to_owned()),
        Just("a&nbsp;b".to_owned()),
        Just("<img src='>'>".to_owned()),
        Just("<!-- <b> -->".to_owned()),
        Just("<br>".to_owned()),
        Just("<script>a < b</script>".to_owned()),
        Just("<wbr/>".to_owned()),
    ];
    let leaf = (space.clone(), word, space.clone())
        .prop_map(|(before, word, after)| format!("{before}{word}{after}"));
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let names =
            prop_oneof![Just("b"), Just("i"), Just("a"), Just("span"), Just("x-y"), Just("p"), Just("div")];
        (names, prop::collection::vec(inner, 0..6), space.clone()).prop_map(|(name, inside, space)| {
            format!("<{name} id='{}'>{}</{name}>{space}", inside.len(), inside.concat())
        })
    })
}

/// Anything made of the parts of pages.
fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("<b>"),
        Just("</b>"),
        Just("<i a=\""),
        Just("\">"),
        Just("</i>"),
        Just("<p>"),
        Just("</p"),
        Just(">"),
        Just("<"),
        Just("&"),
        Just("&amp;"),
        Just("&#0;"),
        Just("<!--"),
        Just("-->"),
        Just("<![CDATA["),
        Just("<code>"),
        Just("</code>"),
        Just("<script>"),
        Just("</script>"),
        Just("<title>"),
        Just("</title>"),
        Just("<pre>"),
        Just("</pre>"),
        Just("a"),
        Just("b."),
        Just(" "),
        Just("\n"),
        Just("ü"),
        Just("\u{a0}"),
        Just("<br/>"),
        Just("<svg>"),
        Just("</svg>"),
        Just("<q translate=no>"),
        Just("</q>"),
        Just("?>"),
        Just("<?"),
        Just("</>"),
    ];
    prop_oneof![prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat()), any::<String>()]
}

/// The number of occurrences of each token that is not text.
fn tags(page: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for token in tokens(page).into_iter().filter(|token| token.kind != TokenKind::Text) {
        *counts.entry(&page[token.range]).or_default() += 1;
    }
    counts
}

fn is_balanced(page: &str) -> bool {
    let mut open = Vec::new();
    for token in tokens(page) {
        match token.kind {
            TokenKind::Open { name, is_closed } if !is_closed && !names::is_void(&name) => open.push(name),
            TokenKind::Close { name } if open.pop().as_ref() != Some(&name) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Tags and parts of words in order.
fn parts(page: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for token in tokens(page) {
        let text = &page[token.range];
        if token.kind == TokenKind::Text {
            parts.extend(
                entities::decode(text, &mut BTreeSet::default()).split_whitespace().map(str::to_owned),
            );
        } else {
            parts.push(text.to_owned());
        }
    }
    parts
}

/// Translations of texts: other words in another order, some aligned, some not, some the same.
fn translations(texts: &[&str], mut seed: u64) -> Vec<(String, Vec<(usize, usize)>)> {
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    let mut translate = |text: &&str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (mut target, mut pairs) = (Vec::new(), Vec::new());
        for place in 0..=next(words.len() + 2) {
            let from = next(words.len());
            let mark = ["", "", ".", ",", "<&"][next(5)];
            target.push(if next(4) == 0 { words[from].to_owned() } else { format!("w{place}{mark}") });
            if next(4) > 0 {
                pairs.push((from, place));
            }
        }
        (target.join(" "), pairs)
    };
    texts.iter().map(&mut translate).collect()
}

fn borrowed(translated: &[(String, Vec<(usize, usize)>)]) -> Vec<TranslatedText<'_>> {
    translated.iter().map(|(text, alignment)| TranslatedText { text, alignment }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn unchanged_texts_give_the_page(page in prop_oneof![balanced(), hostile()]) {
        let layout = Layout::read(Format::Html, &page).unwrap();
        let written = layout.write(&[]);
        prop_assert_eq!(parts(&written), parts(&page));
        let again = Layout::read(Format::Html, &written).unwrap();
        let words = |layout: &Layout| -> Vec<Vec<String>> {
            let texts = layout.texts().into_iter();
            texts.map(|text| text.split_whitespace().map(str::to_owned).collect()).collect()
        };
        prop_assert_eq!(words(&again), words(&layout));
    }

    #[test]
    fn no_tag_and_no_word_is_lost(page in balanced(), seed: u64) {
        prop_assert!(is_balanced(&page));
        let layout = Layout::read(Format::Html, &page).unwrap();
        let translated = translations(&layout.texts(), seed);
        let written = layout.write(&borrowed(&translated));
        prop_assert_eq!(tags(&written), tags(&page));
        prop_assert!(is_balanced(&written), "{}", written);
        // Read again, the texts are the translations.
        let again = Layout::read(Format::Html, &written).unwrap();
        let found: Vec<String> = again.texts().into_iter().map(str::to_owned).collect();
        let expected: Vec<String> = translated.into_iter().map(|(text, _)| text).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn literals_come_back(pages in prop::collection::vec((balanced(), 0..4_usize), 1..4), seed: u64) {
        let raw = ["<code>a  b</code>", "<pre>\n a <b>\n</pre>", "<kbd>x</kbd>", "<i translate=no>a<b>b</b>.</i>"];
        let page: String = pages.iter().map(|(page, which)| format!("{page}{} ", raw[*which])).collect();
        let layout = Layout::read(Format::Html, &page).unwrap();
        let translated = translations(&layout.texts(), seed);
        let written = layout.write(&borrowed(&translated));
        prop_assert_eq!(tags(&written), tags(&page));
        for raw in raw {
            prop_assert_eq!(written.matches(raw).count(), page.matches(raw).count(), "{} {}", page, written);
        }
    }

    #[test]
    fn any_text_is_a_page(page in hostile(), seed: u64) {
        let layout = Layout::read(Format::Html, &page).unwrap();
        let translated = translations(&layout.texts(), seed);
        let written = layout.write(&borrowed(&translated));
        prop_assert_eq!(tags(&written), tags(&page));
        prop_assert!(!is_balanced(&page) || is_balanced(&written), "{}", written);
    }
}

#[test]
fn time_is_linear() {
    let parts = [
        "<b>",
        "<",
        "&",
        "</b>",
        "<b>a ",
        "<!--",
        "<![CDATA[",
        "<a b=\"",
        "</",
        "<?",
        "&a;",
        "<title>",
        "<script>",
        "<code>",
        "<code>a</code>",
        "<code>a b</code> c ",
        "<i>a</i>",
        "<b>a</b> <img> ",
        "<q translate=no>",
        "a<p>",
        "<b></i>a ",
        "<img> ",
        "a. ",
        "<svg>",
    ];
    // Each takes less than half a second; quadratic time would take minutes.
    for part in parts {
        let many = part.repeat(1_000_000 / part.len());
        for page in [many.clone(), format!("{many}x{}", "</b>".repeat(100_000))] {
            let start = Instant::now();
            let layout = Layout::read(Format::Html, &page).unwrap();
            let translated = translations(&layout.texts(), 1);
            let written = layout.write(&borrowed(&translated));
            assert!(written.len() >= 100_000 || page.len() > written.len());
            assert!(start.elapsed() < Duration::from_secs(5), "{part}: {:?}", start.elapsed());
        }
    }
}
