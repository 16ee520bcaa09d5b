//! Generated sentences through the bundled model: amounts, times, numbers, addresses, tags, placeholders and names arrive
//! whole, or a note says what does not.
//!
//! `POLYHEAD_ALL_QUANTITIES=1` runs all cases; otherwise one of [`SAMPLE`].

use std::path::Path;
use std::sync::OnceLock;

use polyhead_translate::{Engine, LoadOptions, Note, TranslateOptions, Translation};

/// Cases of each kind: 204 in each direction.
const CASES: usize = 1224;
/// Of so many cases one is run by default.
const SAMPLE: usize = 29;

const DIRECTIONS: [(&str, &str); 6] =
    [("en", "de"), ("en", "fr"), ("en", "tr"), ("de", "en"), ("fr", "en"), ("tr", "en")];

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/default");
        Engine::load(folder, &LoadOptions::default()).unwrap()
    })
}

/// A sentence in a direction, and the forms of which the translation must have one.
struct Case {
    from: &'static str,
    to: &'static str,
    text: String,
    forms: Vec<String>,
}

/// Numbers that look arbitrary and are the same in every run.
fn number(index: usize, below: usize) -> usize {
    (index + 1).wrapping_mul(2_654_435_761) % 1_000_003 % below
}

/// Sentences around a gap, in each language.
fn sentence(language: &str, index: usize, gap: &str) -> String {
    let templates: [&str; 4] = match language {
        "en" => [
            "Yesterday I saw {} in the newspaper.",
            "The old man wrote {} on the wall and went home.",
            "Do you remember {} from last week?",
            "My brother told me about {}, but I did not listen.",
        ],
        "de" => [
            "Gestern sah ich {} in der Zeitung.",
            "Der alte Mann schrieb {} an die Wand und ging nach Hause.",
            "Erinnerst du dich an {} von letzter Woche?",
            "Mein Bruder erzählte mir von {}, aber ich hörte nicht zu.",
        ],
        "fr" => [
            "Hier, j'ai vu {} dans le journal.",
            "Le vieil homme a écrit {} sur le mur et il est rentré.",
            "Te souviens-tu de {} de la semaine dernière ?",
            "Mon frère m'a parlé de {}, mais je n'ai pas écouté.",
        ],
        _ => [
            "Dün gazetede {} gördüm.",
            "Yaşlı adam duvara {} yazdı ve eve gitti.",
            "Geçen haftadan {} hatırlıyor musun?",
            "Kardeşim bana {} hakkında bir şey anlattı ama dinlemedim.",
        ],
    };
    templates[index / 6 % 4].replace("{}", gap)
}

/// An integer with separated thousands.
fn grouped(integer: usize, language: &str) -> String {
    let mark = match language {
        "en" => ",",
        "fr" => "\u{a0}",
        _ => ".",
    };
    let digits = integer.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out += mark;
        }
        out.push(digit);
    }
    out
}

fn decimal(integer: usize, hundredths: usize, language: &str) -> String {
    let mark = if language == "en" { "." } else { "," };
    format!("{}{mark}{hundredths:02}", grouped(integer, language))
}

fn cases(make: impl Fn(usize, &str, &str) -> (String, Vec<String>)) -> Vec<Case> {
    let step = if std::env::var_os("POLYHEAD_ALL_QUANTITIES").is_some() { 1 } else { SAMPLE };
    // An offset that is no multiple of the directions takes each of them.
    let chosen = (0..CASES).filter(|index| (index + index / 6).is_multiple_of(step));
    let case = |index: usize| {
        let (from, to) = DIRECTIONS[index % 6];
        let (gap, forms) = make(index, from, to);
        Case { from, to, text: sentence(from, index, &gap), forms }
    };
    chosen.map(case).collect()
}

/// Translates all cases of a direction at once, greedily.
fn translate(cases: &[Case]) -> Vec<Translation> {
    let mut found: Vec<Option<Translation>> = cases.iter().map(|_| None).collect();
    for (from, to) in DIRECTIONS {
        let own: Vec<usize> =
            (0..cases.len()).filter(|index| (cases[*index].from, cases[*index].to) == (from, to)).collect();
        let texts: Vec<&str> = own.iter().map(|index| cases[*index].text.as_str()).collect();
        let options = TranslateOptions {
            from: Some(from.into()),
            to: Some(to.into()),
            beam_size: Some(1),
            ..TranslateOptions::default()
        };
        for (index, translation) in own.into_iter().zip(engine().translate(&texts, &options).unwrap()) {
            found[index] = Some(translation);
        }
    }
    found.into_iter().map(Option::unwrap).collect()
}

/// Checks that each case arrives in one of its forms, or carries a note that something may be missing.
fn check(kind: &str, cases: &[Case]) {
    let found = translate(cases);
    let mut wrong = Vec::new();
    let (mut n_lost, mut n_around) = (0, 0);
    for (case, translation) in cases.iter().zip(&found) {
        let text = translation.text().replace('\u{202f}', "\u{a0}");
        let is_lost = translation.notes.iter().any(|note| matches!(note, Note::Lost { .. }));
        n_lost += usize::from(is_lost);
        n_around += usize::from(translation.notes.iter().any(|note| matches!(note, Note::Around { .. })));
        if !is_lost && !case.forms.iter().any(|form| text.contains(form.as_str())) {
            wrong.push(format!(
                "{} → {}: {:?} → {text:?}, expected {:?}",
                case.from, case.to, case.text, case.forms
            ));
        }
    }
    println!("{kind}: {} cases, {n_around} in parts, {n_lost} with a note of loss", cases.len());
    assert!(wrong.is_empty(), "{kind}: {} of {} are lost\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    // A note must be the exception.
    assert!(10 * n_lost <= cases.len() + 9, "{kind}: {n_lost} of {} are noted as lost", cases.len());
}

#[test]
fn amounts_arrive() {
    let names = |sign: &str| -> &[&str] {
        match sign {
            "$" => &["Dollar", "dollar", "dolar", "USD", "US$"],
            "€" => &["Euro", "euro", "avro", "EUR"],
            _ => &["Pfund", "livre", "pound", "Pound", "sterlin", "GBP"],
        }
    };
    check(
        "amounts",
        &cases(|index, from, to| {
            let sign = ["$", "€", "£"][index / 24 % 3];
            let (integer, cents) =
                (number(index, [10, 100, 5000, 900_000][index / 6 % 4]) + 1, number(index, 100));
            let written = |language: &str| decimal(integer, cents, language);
            let source = if from == "en" {
                format!("{sign}{}", written(from))
            } else {
                format!("{} {sign}", written(from))
            };
            let own = written(to);
            let plain = own.replace(['\u{a0}', if to == "en" { ',' } else { '.' }], "");
            let spaced = own.replace('\u{a0}', " ");
            let mut forms = Vec::new();
            for number in [own, plain, spaced] {
                for gap in ["", " ", "\u{a0}"] {
                    forms.push(format!("{number}{gap}{sign}"));
                    forms.push(format!("{sign}{gap}{number}"));
                    forms.extend(names(sign).iter().map(|name| format!("{number}{gap}{name}")));
                }
            }
            (source, forms)
        }),
    );
}

#[test]
fn times_arrive() {
    check(
        "times",
        &cases(|index, from, to| {
            let (hour, minute) = (number(index, 24), number(index + 7, 60));
            let half = if hour < 12 { "a.m." } else { "p.m." };
            let twelve = (hour + 11) % 12 + 1;
            let source = match from {
                "en" => format!("{twelve}:{minute:02} {half}"),
                "de" => format!("{hour}:{minute:02} Uhr"),
                "fr" => format!("{hour}h{minute:02}"),
                _ => format!("saat {hour:02}.{minute:02}"),
            };
            let mut forms = Vec::new();
            for hour in [format!("{hour}"), format!("{hour:02}")] {
                forms.extend(
                    [":", ".", "h", " h", " h ", " Uhr "].map(|mark| format!("{hour}{mark}{minute:02}")),
                );
            }
            if to == "en" {
                let half = half.to_uppercase();
                let marks = [
                    half.to_lowercase(),
                    half.clone(),
                    half.replace('.', ""),
                    half.replace('.', "").to_lowercase(),
                ];
                forms.extend(marks.map(|half| format!("{twelve}:{minute:02} {half}")));
                // Turkish leaves the half of the day open.
                forms.push(format!("{}:{minute:02}", if from == "tr" { hour } else { 99 }));
            }
            if minute == 0 {
                forms.extend([format!("{hour} Uhr"), format!("{hour} heures"), format!("{hour} h")]);
            }
            // Twelve hours and a word for the half of the day are a time too.
            forms.extend(
                [":", "."]
                    .map(|mark| format!("{twelve}{mark}{minute:02}"))
                    .into_iter()
                    .filter(|_| to != "en"),
            );
            (source, forms)
        }),
    );
}

#[test]
fn numbers_arrive() {
    check(
        "numbers",
        &cases(|index, from, to| {
            let (integer, hundredths) = (number(index, 900_000) + 1000, number(index, 100));
            let written = |language: &str| match index / 24 % 3 {
                0 => grouped(integer, language),
                1 => decimal(integer % 1000, hundredths, language),
                _ => decimal(integer, hundredths, language),
            };
            let own = written(to);
            let plain = own.replace(['\u{a0}', if to == "en" { ',' } else { '.' }], "");
            (written(from), vec![own.replace('\u{a0}', " "), own, plain])
        }),
    );
}

#[test]
fn addresses_arrive() {
    check(
        "addresses",
        &cases(|index, _, _| {
            let address = match index / 24 % 4 {
                0 => format!(
                    "https://www.example.com/page{}/item-{index}?q={}",
                    number(index, 90),
                    number(index, 7)
                ),
                1 => format!("user{}@mail.example.org", number(index, 1000)),
                2 => format!("#tag-with-dash{}", number(index, 50)),
                _ => format!("report_v{}.pdf", number(index, 100)),
            };
            (address.clone(), vec![address])
        }),
    );
}

#[test]
fn placeholders_arrive() {
    check(
        "placeholders",
        &cases(|index, _, _| {
            let all = [
                "{name}",
                "%s",
                "%(count)d",
                "{0}",
                "${HOME}",
                "$HOME",
                "--output=FILE",
                "&nbsp;x&amp;",
                "%1$s",
                "{{ user }}",
            ];
            let placeholder = all[number(index, all.len())].to_owned();
            let form = placeholder.split('x').next().unwrap().to_owned();
            (placeholder, vec![form])
        }),
    );
}

#[test]
fn names_arrive() {
    check(
        "names",
        &cases(|index, from, _| {
            let first = ["Margaret", "Wolfram", "Thibault", "Yıldıray", "Olympia", "Bartholomew", "Ségolène"];
            let last = ["Kowalczyk", "Featherstone", "Öztürkmen", "Delacroix", "Wozniak", "Brzezinski"];
            let name =
                format!("{} {}", first[number(index, first.len())], last[number(index + 5, last.len())]);
            let title = if from == "de" { "Frau " } else { "" };
            (format!("{title}{name}"), vec![name])
        }),
    );
}

#[test]
fn the_parts_of_a_name_stay_together() {
    let case =
        |from, to, text: &str, name: &str| Case { from, to, text: text.into(), forms: vec![name.into()] };
    let cases = [
        case("tr", "en", "Geçen haftadan Olympia Brzezinski hatırlıyor musun?", "Olympia Brzezinski"),
        case(
            "de",
            "en",
            "Gestern sah ich Frau Bartholomew Öztürkmen in der Zeitung.",
            "Bartholomew Öztürkmen",
        ),
        case(
            "de",
            "en",
            "Mein Bruder erzählte mir von Frau Olympia Delacroix, aber ich hörte nicht zu.",
            "Olympia Delacroix",
        ),
    ];
    check("names in parts", &cases);
}

#[test]
fn tags_keep_their_words() {
    let words = |language: &str| match language {
        "en" => ["the house", "a friend", "the red car", "water"],
        "de" => ["das Haus", "einen Freund", "das rote Auto", "Wasser"],
        "fr" => ["la maison", "un ami", "la voiture rouge", "l'eau"],
        _ => ["evi", "bir arkadaşı", "kırmızı arabayı", "suyu"],
    };
    let tags = [
        ("<b>", "</b>"),
        ("<i>", "</i>"),
        ("<a href=\"x.html\">", "</a>"),
        ("<span class=\"k\">", "</span>"),
    ];
    let all = cases(|index, from, _| {
        let (open, close) = tags[index / 24 % 4];
        (format!("{open}{}{close}", words(from)[number(index, 4)]), vec![open.into(), close.into()])
    });
    let found = translate(&all);
    let mut n_around = 0;
    for (case, translation) in all.iter().zip(&found) {
        let text = translation.text();
        let [open, close] = [0, 1].map(|index| case.forms[index].as_str());
        let inside = text.split_once(open).and_then(|(_, rest)| Some(rest.split_once(close)?.0));
        assert!(
            inside.is_some_and(|inside| inside.contains(char::is_alphabetic)),
            "{:?} → {text:?}",
            case.text
        );
        n_around += usize::from(translation.notes.iter().any(|note| matches!(note, Note::Around { .. })));
    }
    println!("tags: {} cases, {n_around} in parts", all.len());
    assert!(10 * n_around <= all.len() + 9, "{n_around} of {} are translated in parts", all.len());
}
