//! Words that end with a full stop without ending a sentence, in lower case and without it: English, German, French,
//! Spanish, Turkish. Only those that something nearly always follows: *etc.* may end a sentence and is not here.

const ABBREVIATIONS: &[&str] = &[
    // Titles and names
    "adm", "av", "bayan", "brig", "capt", "cmdr", "col", "cpl", "doç", "dr", "dra", "drs", "fr", "frl", "gen",
    "gov", "hon", "hr", "insp", "lt", "maj", "messrs", "mgr", "mlle", "mm", "mme", "mmes", "mr", "mrs", "ms",
    "msgr", "ord", "pr", "pres", "prof", "pvt", "rep", "rev", "sen", "sgt", "sn", "sr", "sra", "srta", "st",
    "ste", "supt", "ver", "vet", "yrd", "öğr", // References and measures
    "abb", "abs", "al", "anm", "app", "approx", "art", "aufl", "bd", "bkz", "bzgl", "bzw", "ca", "cf", "ch",
    "chap", "cilt", "cm", "dept", "ed", "eds", "eg", "ehem", "env", "eq", "eqs", "evtl", "ex", "fig", "figs",
    "geb", "gegr", "ggf", "haz", "ie", "inkl", "jg", "jh", "kap", "krş", "max", "min", "mio", "mrd", "no",
    "nos", "nr", "op", "örn", "p", "par", "pg", "pp", "ref", "s", "sec", "sek", "sog", "sp", "str", "tab",
    "tel", "usw", "vb", "vd", "vgl", "viz", "vol", "vols", "vs", "yy", "zzgl", // Places, units, months
    "apr", "aug", "ave", "blvd", "cad", "dec", "déc", "feb", "févr", "janv", "jan", "jul", "juil", "jun",
    "mah", "mar", "mt", "nov", "oct", "okt", "rd", "sept", "sok", "univ",
];

/// Whether `word`, written before a full stop, is an abbreviation.
pub(crate) fn is_abbreviation(word: &str) -> bool {
    ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}
