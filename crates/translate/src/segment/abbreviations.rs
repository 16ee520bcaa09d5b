//! Abbreviations whose full stop does not end a sentence: English, German, French, Spanish, Turkish; in lower case,
//! without the full stop. Only those that nearly always precede another word: *etc.* may end a sentence and is left out.

/// The kind of word that follows an abbreviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follower {
    /// Anything.
    Anything,
    /// A number; before anything else it is an ordinary word, such as *no*.
    Number,
}

const BEFORE_ANYTHING: &[&str] = &[
    "abb", "adm", "anm", "approx", "av", "bkz", "brig", "bzgl", "bzw", "ca", "capt", "cf", "cmdr", "col",
    "cpl", "doç", "dr", "dra", "drs", "ed", "eds", "eg", "ehem", "env", "evtl", "fr", "frl", "geb", "gegr",
    "gen", "ggf", "gov", "haz", "hon", "hr", "ie", "inkl", "insp", "krş", "lt", "maj", "messrs", "mgr",
    "mlle", "mme", "mmes", "mr", "mrs", "ms", "msgr", "mt", "ord", "pr", "pres", "prof", "pvt", "rep", "rev",
    "sen", "sgt", "sn", "sog", "sr", "sra", "srta", "st", "ste", "supt", "univ", "vgl", "viz", "vs", "yrd",
    "zzgl", "öğr", "örn",
];

const BEFORE_NUMBERS: &[&str] = &[
    "abs", "app", "apr", "art", "aufl", "aug", "bd", "ch", "chap", "cilt", "dec", "déc", "eq", "eqs", "feb",
    "fig", "figs", "févr", "jan", "janv", "jg", "jh", "juil", "jul", "jun", "kap", "mar", "max", "min", "no",
    "nos", "nov", "nr", "oct", "okt", "op", "pg", "pp", "ref", "sec", "sek", "sept", "tab", "tel", "vol",
    "vols",
];

/// The word that follows `word` and its full stop; none if it is no abbreviation.
pub(super) fn abbreviation(word: &str) -> Option<Follower> {
    let word = word.to_lowercase();
    let word = word.as_str();
    if BEFORE_ANYTHING.contains(&word) {
        Some(Follower::Anything)
    } else {
        BEFORE_NUMBERS.contains(&word).then_some(Follower::Number)
    }
}
