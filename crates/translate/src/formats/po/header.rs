//! The header of a catalogue: the message with an empty `msgid`, lines such as `Language: de`.

/// `Plural-Forms` of languages: as gettext's manual has them.
const PLURALS: [(&str, &str); 12] = [
    ("de", "nplurals=2; plural=(n != 1);"),
    ("en", "nplurals=2; plural=(n != 1);"),
    ("es", "nplurals=2; plural=(n != 1);"),
    ("fr", "nplurals=2; plural=(n > 1);"),
    ("it", "nplurals=2; plural=(n != 1);"),
    ("ja", "nplurals=1; plural=0;"),
    ("ko", "nplurals=1; plural=0;"),
    ("nl", "nplurals=2; plural=(n != 1);"),
    ("pt", "nplurals=2; plural=(n != 1);"),
    ("sv", "nplurals=2; plural=(n != 1);"),
    ("tr", "nplurals=2; plural=(n > 1);"),
    ("zh", "nplurals=1; plural=0;"),
];

/// A header in a language: `Language` is set, and what a template leaves open, the character set and the plural forms.
/// Other lines stay.
pub(super) fn in_language(header: &str, language: &str) -> String {
    let line = |line: &str| {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let end = if line.ends_with('\n') { "\n" } else { "" };
        match field.to_ascii_lowercase().as_str() {
            "language" => format!("{field}: {language}{end}"),
            "content-type" => line.replace("charset=CHARSET", "charset=UTF-8"),
            "plural-forms" if value.contains("INTEGER") => {
                let forms = PLURALS.iter().find(|(code, _)| *code == language);
                forms.map_or(line.to_owned(), |(_, forms)| format!("{field}: {forms}{end}"))
            }
            _ => line.to_owned(),
        }
    };
    header.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_leaves_open_is_set() {
        let header = "Project-Id-Version: x\nLanguage: \nContent-Type: text/plain; charset=CHARSET\n\
            Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n";
        let expected = "Project-Id-Version: x\nLanguage: fr\nContent-Type: text/plain; charset=UTF-8\n\
            Plural-Forms: nplurals=2; plural=(n > 1);\n";
        assert_eq!(in_language(header, "fr"), expected);
        assert_eq!(in_language(expected, "de"), expected.replace("Language: fr", "Language: de"));
        assert_eq!(in_language("Plural-Forms: INTEGER", "tlh"), "Plural-Forms: INTEGER");
    }
}
