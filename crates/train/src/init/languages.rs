//! Languages of a corpus: from file names (`train.en`, `corpus.en-de.tsv.gz`, `train.eng-deu.tsv`), or detected in the text.

use std::path::Path;

use polyhead_text::corpus::Corpus;
use polyhead_translate::languages::detect_corpus;

use crate::Result;

/// ISO 639-1 and ISO 639-3 codes in pairs. Only known codes count as languages, since file names contain other short words.
const CODES: &str = "\
af afr am amh ar ara az aze be bel bg bul bn ben bs bos ca cat cs ces cy cym da dan de deu el ell en eng eo epo es spa et \
est eu eus fa fas fi fin fr fra ga gle gl glg gu guj ha hau he heb hi hin hr hrv hu hun hy hye id ind ig ibo is isl it ita \
ja jpn ka kat kk kaz km khm kn kan ko kor ku kur ky kir la lat lo lao lt lit lv lav mg mlg mk mkd ml mal mn mon mr mar ms \
msa mt mlt my mya nb nob ne nep nl nld nn nno no nor pa pan pl pol ps pus pt por ro ron ru rus sd snd si sin sk slk sl slv \
so som sq sqi sr srp sv swe sw swa ta tam te tel tg tgk th tha tk tuk tl tgl tr tur tt tat ug uig uk ukr ur urd uz uzb vi \
vie xh xho yi yid yo yor zh zho zu zul";

/// Extensions that are not languages.
const ENDINGS: [&str; 6] = ["gz", "txt", "tsv", "jsonl", "json", "tok"];

/// Source and target language as two-letter codes, if the file names contain both.
pub fn languages_from_names(corpus: &Corpus) -> Option<[String; 2]> {
    let found = match corpus {
        Corpus::LineFiles { source, target } => {
            [last_code(source).or_else(|| pair(source)?.into_iter().next())?, last_code(target)?]
        }
        // A recipe for several sources is written by hand.
        Corpus::SeveralFiles { .. } | Corpus::SeveralColumns { .. } => return None,
        Corpus::Tsv { path, .. }
        | Corpus::Csv { path, .. }
        | Corpus::Conll { path, .. }
        | Corpus::TokensJsonl { path, .. }
        | Corpus::Text { path } => pair(path)?,
        Corpus::Jsonl { path, source_field, target_field } => {
            match (code(source_field), code(target_field)) {
                (Some(source), Some(target)) => [source, target],
                _ => pair(path)?,
            }
        }
    };
    (found[0] != found[1]).then(|| found.map(str::to_owned))
}

/// Pairs whose languages are detected.
const DETECTED_PAIRS: usize = 1000;

/// Source and target language as two-letter codes, detected in the first 1,000 pairs; each is `None` if it is not clear.
///
/// # Errors
/// If the corpus cannot be read.
pub fn detected_languages(corpus: &Corpus) -> Result<[Option<String>; 2]> {
    let (mut pairs, mut sides) = (corpus.pairs()?, [Vec::new(), Vec::new()]);
    while let Some(pair) = pairs.next_pair()?
        && sides[0].len() < DETECTED_PAIRS
    {
        for (side, text) in sides.iter_mut().zip([pair.source, pair.target]) {
            side.push(text.to_owned());
        }
    }
    Ok(sides.map(|side| detect_corpus(side.iter().map(String::as_str))))
}

/// The two-letter code of a two- or three-letter code.
fn code(text: &str) -> Option<&'static str> {
    let mut codes = CODES.split_whitespace();
    while let (Some(two), Some(three)) = (codes.next(), codes.next()) {
        if text.eq_ignore_ascii_case(two) || text.eq_ignore_ascii_case(three) {
            return Some(two);
        }
    }
    None
}

/// The language at the end of a file name: `train.lc.en.gz`.
fn last_code(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let last = name.rsplit('.').find(|part| !ENDINGS.contains(part))?;
    code(last)
}

/// Two languages in a part of a file name: `eng-deu`, `en_de`.
fn pair(path: &Path) -> Option<[&'static str; 2]> {
    let name = path.file_name()?.to_str()?;
    name.split('.').find_map(|part| {
        let words: Vec<&str> = part.split(['-', '_']).collect();
        words.windows(2).find_map(|two| Some([code(two[0])?, code(two[1])?]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_two_languages_or_none() {
        let lines =
            |source: &str, target: &str| Corpus::LineFiles { source: source.into(), target: target.into() };
        let tsv = |path: &str| Corpus::Tsv { path: path.into(), source_column: 0, target_column: 1 };
        let jsonl = |fields: [&str; 2]| Corpus::Jsonl {
            path: "pairs.jsonl".into(),
            source_field: fields[0].into(),
            target_field: fields[1].into(),
        };
        let cases = [
            (lines("data/train.en", "data/train.de"), Some(["en", "de"])),
            (lines("train.lc.norm.tok.en.gz", "train.lc.norm.tok.fr.gz"), Some(["en", "fr"])),
            (lines("train.eng.txt", "train.tur.txt"), Some(["en", "tr"])),
            (lines("train.source", "train.target"), None),
            (lines("a.en", "b.en"), None),
            (tsv("tatoeba/train.eng-deu.tsv.gz"), Some(["en", "de"])),
            (tsv("en_tr.tsv"), Some(["en", "tr"])),
            (tsv("my-corpus-de-en.tsv"), Some(["de", "en"])),
            (tsv("dev-set.tsv"), None),
            (jsonl(["en", "DE"]), Some(["en", "de"])),
            (jsonl(["source", "target"]), None),
        ];
        for (corpus, expected) in cases {
            assert_eq!(
                languages_from_names(&corpus),
                expected.map(|two| two.map(str::to_owned)),
                "{corpus:?}"
            );
        }
    }

    #[test]
    fn codes_come_in_pairs() {
        let codes: Vec<&str> = CODES.split_whitespace().collect();
        assert!(codes.chunks(2).all(|two| two.len() == 2 && two[0].len() == 2 && two[1].len() == 3));
    }
}
