//! English as people type it: *i dont know* is read as *I don't know*, *r u coming tmrw* as *are you coming tomorrow*.
//!
//! Without its apostrophe a contraction is a word that models have not seen, and its *not* is often lost. Contractions
//! whose letters are another word are left out: *wont*, *ill*, *its*, *were*, *lets*.

const CONTRACTIONS: &[(&str, &str)] = &[
    ("arent", "aren't"),
    ("cant", "can't"),
    ("couldnt", "couldn't"),
    ("didnt", "didn't"),
    ("doesnt", "doesn't"),
    ("dont", "don't"),
    ("hadnt", "hadn't"),
    ("hasnt", "hasn't"),
    ("havent", "haven't"),
    ("hes", "he's"),
    ("im", "I'm"),
    ("isnt", "isn't"),
    ("ive", "I've"),
    ("mustnt", "mustn't"),
    ("shes", "she's"),
    ("shouldnt", "shouldn't"),
    ("thats", "that's"),
    ("theres", "there's"),
    ("theyre", "they're"),
    ("theyve", "they've"),
    ("wasnt", "wasn't"),
    ("werent", "weren't"),
    ("weve", "we've"),
    ("whats", "what's"),
    ("wouldnt", "wouldn't"),
    ("youre", "you're"),
    ("youve", "you've"),
];

/// Abbreviations of chats; in lower case alone, since in capitals they are other words.
const CHAT: &[(&str, &str)] = &[
    ("btw", "by the way"),
    ("cuz", "because"),
    ("dunno", "don't know"),
    ("gimme", "give me"),
    ("gonna", "going to"),
    ("gotta", "have to"),
    ("idk", "I don't know"),
    ("lemme", "let me"),
    ("mins", "minutes"),
    ("msg", "message"),
    ("pls", "please"),
    ("plz", "please"),
    ("ppl", "people"),
    ("r", "are"),
    ("thx", "thanks"),
    ("tmrw", "tomorrow"),
    ("tonite", "tonight"),
    ("u", "you"),
    ("ur", "your"),
    ("wanna", "want to"),
];

/// The usual spelling of an English word before the character `next`; none if it is spelled so, or is no contraction.
pub(super) fn contraction(word: &str, next: Option<char>) -> Option<String> {
    if word == "i" {
        return (next != Some('.')).then(|| "I".into());
    }
    if let Some((_, found)) = CHAT.iter().find(|(short, _)| *short == word) {
        return (!matches!(next, Some('.' | '-' | '\'' | '’'))).then(|| (*found).into());
    }
    let (first, rest) = word.split_at_checked(1)?;
    let is_capitalised = first.bytes().all(|byte| byte.is_ascii_uppercase());
    if rest.contains(char::is_uppercase) {
        return None;
    }
    let small = word.to_ascii_lowercase();
    let found = CONTRACTIONS.iter().find(|(plain, _)| *plain == small)?.1;
    Some(if is_capitalised { found[..1].to_ascii_uppercase() + &found[1..] } else { found.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contractions_get_their_apostrophes() {
        for (word, expected) in [
            ("dont", "don't"),
            ("Dont", "Don't"),
            ("im", "I'm"),
            ("Im", "I'm"),
            ("i", "I"),
            ("thats", "that's"),
            ("u", "you"),
            ("tmrw", "tomorrow"),
        ] {
            assert_eq!(contraction(word, None).as_deref(), Some(expected));
        }
        for word in ["don", "DONT", "IM", "I", "wont", "ill", "its", "U", "R", "UR", "é", ""] {
            assert_eq!(contraction(word, Some(' ')), None, "{word}");
        }
        assert_eq!(contraction("i", Some('.')), None, "i.e.");
        assert_eq!(contraction("u", Some('-')), None, "u-boat");
    }
}
