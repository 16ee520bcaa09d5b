//! The language of the user's locale, from the variables of POSIX.

/// The variables that name the language of messages; the first that is set counts.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// The two-letter code of the language of the locale, such as `de` of `de_DE.UTF-8`; none for `C` and `POSIX`.
pub(crate) fn language() -> Option<String> {
    language_of(|name| std::env::var(name).ok())
}

fn language_of(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let locale = VARIABLES.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))?;
    let code = locale.split(['_', '.', '@', '-']).next().unwrap_or_default();
    let is_code = matches!(code.len(), 2 | 3) && code.bytes().all(|letter| letter.is_ascii_lowercase());
    is_code.then(|| polyhead_translate::languages::short(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_language() {
        let language = |values: [&str; 3]| {
            language_of(|name| {
                let index = VARIABLES.iter().position(|known| *known == name)?;
                Some(values[index].to_owned())
            })
        };
        assert_eq!(language(["", "", "de_DE.UTF-8"]).as_deref(), Some("de"));
        assert_eq!(language(["", "fr_FR@euro", "de_DE"]).as_deref(), Some("fr"));
        assert_eq!(language(["tur", "fr", "de"]).as_deref(), Some("tr"));
        for none in ["", "C", "POSIX", "C.UTF-8", "../de", "Deutsch"] {
            assert_eq!(language(["", "", none]), None, "{none}");
        }
        assert_eq!(language(["C", "de", "de"]), None);
        assert_eq!(language_of(|_| None), None);
    }
}
