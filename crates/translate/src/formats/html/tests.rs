//! Examples of pages.

use crate::formats::{Format, Layout, TranslatedText};

/// The page with these translations: a text, and pairs of words such as `0-0 1-2`.
fn written(page: &str, translated: &[(&str, &str)]) -> String {
    let number = |text: &str| text.parse::<usize>().unwrap();
    let pairs = |pairs: &str| -> Vec<(usize, usize)> {
        let pairs = pairs.split_whitespace().map(|pair| pair.split_once('-').unwrap());
        pairs.map(|(source, target)| (number(source), number(target))).collect()
    };
    let alignments: Vec<_> = translated.iter().map(|(_, alignment)| pairs(alignment)).collect();
    let texts = translated.iter().zip(&alignments);
    let texts: Vec<TranslatedText<'_>> =
        texts.map(|((text, _), alignment)| TranslatedText { text, alignment }).collect();
    Layout::read(Format::Html, page).unwrap().write(&texts)
}

fn texts(page: &str) -> Vec<String> {
    Layout::read(Format::Html, page).unwrap().texts().into_iter().map(str::to_owned).collect()
}

#[test]
fn texts_end_at_blocks() {
    let page = "<!DOCTYPE html><html lang=en><head><title>My &amp; <b>\n page</title><style>p > b {}</style></head>\n\
        <body><h1> Hello </h1>one<br>two<p>three <!-- no --> four<script>five()</script><pre>six\n  seven</pre>\n\
        <textarea>eight</textarea><p>&nbsp;</p><p>—</p><ul><li>nine<li>t&eacute;n</ul>";
    let expected = ["My & <b> page", "Hello", "one", "two", "three four", "nine", "tén"];
    assert_eq!(texts(page), expected);
    let upper: Vec<String> = expected.iter().map(|text| text.to_uppercase()).collect();
    let upper: Vec<(&str, &str)> = upper.iter().map(|text| (text.as_str(), "0-0 1-1")).collect();
    let expected = page
        .replace("My &amp; <b>\n page", "MY &amp; &lt;B&gt; PAGE")
        .replace(" Hello ", " HELLO ")
        .replace("one<br>two<p>three <!-- no --> four", "ONE<br>TWO<p>THREE <!-- no --> FOUR")
        .replace("nine<li>t&eacute;n", "NINE<li>TÉN");
    assert_eq!(written(page, &upper), expected);
}

#[test]
fn tags_follow_their_words() {
    let cases = [
        // Marks stay outside where they were outside.
        ("The <b>cat</b>.", "Die Katze.", "0-0 1-1", "Die <b>Katze</b>."),
        ("The <b>cat.</b>", "Die Katze.", "0-0 1-1", "Die <b>Katze.</b>"),
        (
            "The <b>cat</b> sleeps.",
            "Es schläft die Katze.",
            "0-2 1-3 2-1 2-0",
            "Es schläft die <b>Katze</b>.",
        ),
        (
            "<b>He saw it.</b> Yes.",
            "Er hat es gesehen. Ja.",
            "0-0 1-1 2-2 1-3 3-4",
            "<b>Er hat es gesehen.</b> Ja.",
        ),
        ("a (<i>b</i>) c", "C (B) A", "0-2 1-1 2-0", "C (<i>B</i>) A"),
        ("The <b>cat</b>.", "die katze .", "0-0 1-1 1-2", "die <b>katze</b> ."),
        // Elements change places, one in the other.
        ("<b>red</b> <i>house</i>", "maison rouge", "0-1 1-0", "<i>maison</i> <b>rouge</b>"),
        ("a <b>b <i>c</i></b>", "C B A", "0-2 1-1 2-0", "<b><i>C</i> B</b> A"),
        // Elements around everything stay there.
        ("<a><b>x y</b></a>", "q r s", "1-1", "<a><b>q r s</b></a>"),
        ("<i></i> Home", "Zu Hause", "0-1", "<i></i> Zu Hause"),
        // Empty elements stay next to their words.
        ("Press <img> now", "Jetzt drücken", "0-1 1-0", "Jetzt drücken <img>"),
        ("<b><img> a</b> b", "B A", "0-1 1-0", "B <b><img> A</b>"),
        ("see<sup>1</sup> it", "siehe1 es", "0-0 1-1", "siehe<sup>1</sup> es"),
        ("a note<a>[1]</a>.", "eine Notiz[1].", "0-0 1-1", "eine Notiz<a>[1]</a>."),
        ("H<sub>2</sub>O is wet", "nass ist H2O", "0-2 1-1 2-0", "nass ist H<sub>2</sub>O"),
        // Words without a counterpart.
        ("a <b>b</b> c", "A C", "0-0 2-1", "A<b></b> C"),
        ("a <b>b</b> c", "A B C", "0-0 2-2", "A <b>B</b> C"),
        ("a <b>b</b> c", "A B C", "", "A <b>B</b> C"),
        // Tags without their other half.
        ("a</i> b <b>c", "C B A", "0-2 1-1 2-0", "C B A</i><b>"),
        ("<p>a <b>b<p>c</b> d", "", "", "<p><b><p>c</b> d"),
    ];
    for (page, text, alignment, expected) in cases {
        assert_eq!(written(page, &[(text, alignment)]), expected, "{page}");
    }
}

#[test]
fn code_comes_back_as_it_is() {
    let cases = [
        ("Run <code>make  all</code> now.", "Jetzt make all aufrufen.", "0-3 1-1 2-2 3-0"),
        ("Run <code>make  all</code> now.", "Jetzt alles machen aufrufen.", "0-3 1-2 2-1 3-0"),
        ("Run <code>make  all</code> now.", "Jetzt aufrufen.", "0-1 3-0"),
        ("Run <code>make  all</code> now.", "Jetzt das alles machen aufrufen .", "0-4 1-1 1-2 2-3 3-0 3-5"),
        (
            "Run <span class='x notranslate'>make <b>all</b></span> now.",
            "Jetzt make all aufrufen.",
            "0-3 3-0",
        ),
    ];
    let expected = [
        "Jetzt <code>make  all</code> aufrufen.",
        "Jetzt <code>make  all</code> aufrufen.",
        "Jetzt aufrufen. <code>make  all</code>",
        "Jetzt das <code>make  all</code> aufrufen .",
        "Jetzt <span class='x notranslate'>make <b>all</b></span> aufrufen.",
    ];
    for ((page, text, alignment), expected) in cases.into_iter().zip(expected) {
        assert_eq!(texts(page), ["Run make all now."]);
        assert_eq!(written(page, &[(text, alignment)]), expected, "{page}");
    }
    assert!(
        texts("<p><code>x = 1</code></p><div translate=no>a <p>b</p></div><kbd><p>a</p></kbd>").is_empty()
    );
}

#[test]
fn unknown_references_come_back() {
    assert_eq!(written("a &foo; &amp;bar; b", &[("A &foo; &bar; < B", "")]), "A &foo; &amp;bar; &lt; B");
}

#[test]
fn only_tags_inside_need_an_alignment() {
    let needs = |page: &str| Layout::read(Format::Html, page).unwrap().needs_alignment();
    assert!(!needs("<p><b>a b</b> <img></p>") && needs("<p><b>a</b> b</p>") && needs("a <code>b</code>"));
}

#[test]
fn attributes_for_people_are_translated() {
    let page = "<html lang='en-GB' class=x><meta charset=utf-8><meta name=\"Description\" content='All &amp; more'>\
        <link title=\"Style one\"><p title=\"a &quot;tip&quot;\">one <img alt=cat src=cat.png> two \
        <input placeholder=' Your name ' value=keep><input type=submit value=Send></p><div translate=no title=no>\
        <b title=neither>x</b></div><i alt=\"\" title='42'></i>";
    assert_eq!(texts(page), ["one two", "All & more", "a \"tip\"", "cat", "Your name", "Send"]);
    let layout = Layout::read(Format::Html, page).unwrap();
    assert_eq!(layout.tagged(), [true, false, false, false, false, false]);
    let new = ["eins zwei", "Alles < \"viel\"", "ein Tipp", "Katze", "Ihr Name", "Senden"];
    let new = new.map(|text| TranslatedText { text, alignment: &[(0, 0), (1, 1)] });
    let written = layout.write_in(&new, Some("de"));
    let expected = page
        .replace("'en-GB'", "\"de\"")
        .replace("'All &amp; more'", "\"Alles &lt; &quot;viel&quot;\"")
        .replace("a &quot;tip&quot;", "ein Tipp")
        .replace("alt=cat", "alt=\"Katze\"")
        .replace("' Your name '", "\" Ihr Name \"")
        .replace("value=Send", "value=\"Senden\"")
        .replace("one ", "eins ")
        .replace(" two ", " zwei ");
    assert_eq!(written, expected);
    assert_eq!(layout.write(&[]), page);
}
