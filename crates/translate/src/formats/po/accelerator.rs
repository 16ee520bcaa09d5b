//! Accelerators: the mark before the letter of a menu entry that a key chooses (`_File`, `E&xit`, `~Edit`).
//!
//! The translator reads the message without the mark. In the translation it comes before a word with the same letter, or
//! else before the same letter inside a word, or else before the first letter.

/// Marks of GTK, of Qt and Windows, and of LibreOffice.
const MARKS: [char; 3] = ['_', '&', '~'];

/// A message without its accelerator, and the accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accelerator {
    mark: char,
    /// The letter behind the mark.
    letter: char,
}

/// The message without its mark, and its accelerator; none for other messages.
pub(super) fn taken(message: &str) -> Option<(String, Accelerator)> {
    MARKS.into_iter().find_map(|mark| {
        let at = message.find(mark)?;
        let (before, behind) = (&message[..at], &message[at + mark.len_utf8()..]);
        let letter = behind.chars().next().filter(|letter| letter.is_alphabetic())?;
        let left: String = before.chars().rev().take_while(|letter| letter.is_alphanumeric()).collect();
        let right: String = behind.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        let is_word_start =
            left.is_empty() && !before.ends_with(['_', '&', '~', '/', '.', ':', '$', '%', '@', '<']);
        // E_xit and Pre&ferences, but not my_var, MY_VAR, AT&T.
        let is_inside =
            left.chars().next_back().is_some_and(char::is_uppercase) && right.chars().all(char::is_lowercase);
        let is_reference = mark == '&' && behind[right.len()..].starts_with(';');
        let is_name = behind[right.len()..].starts_with(['_', '(', '/', '.', '='])
            && !behind[right.len()..].starts_with("...");
        let is_one = !behind.contains(mark);
        let is_accelerator = is_one && !is_reference && !is_name && (is_word_start || is_inside);
        // A word in lower case is the name of something (_file, ~user), unless a message begins with it.
        let is_entry = is_inside || letter.is_uppercase() || (at == 0 && message.contains(' '));
        (is_accelerator && is_entry).then(|| (format!("{before}{behind}"), Accelerator { mark, letter }))
    })
}

impl Accelerator {
    /// A translation with the mark.
    pub(super) fn placed(self, text: &str) -> String {
        let is_same = |letter: char| letter.to_lowercase().eq(self.letter.to_lowercase());
        let letters = || text.char_indices().filter(|(_, letter)| letter.is_alphabetic());
        let begins = |at: &usize| !text[..*at].ends_with(char::is_alphanumeric);
        let same = || letters().filter(|(_, letter)| is_same(*letter)).map(|(at, _)| at);
        let at = same().find(begins).or_else(|| same().next()).or_else(|| letters().next().map(|(at, _)| at));
        match at {
            Some(at) => format!("{}{}{}", &text[..at], self.mark, &text[at..]),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_from_menu_entries() {
        let cases = [
            ("_File", "File"),
            ("Save _As…", "Save As…"),
            ("E_xit", "Exit"),
            ("Pre&ferences...", "Preferences..."),
            ("&Open", "Open"),
            ("~Edit", "Edit"),
            ("_open a file", "open a file"),
        ];
        for (message, plain) in cases {
            let (found, accelerator) = taken(message).unwrap();
            assert_eq!(found, plain);
            assert_eq!(accelerator.placed(plain), message, "{plain}");
        }
        let others = [
            "my_var",
            "MY_VAR",
            "AT&T",
            "R&D",
            "a & b",
            "&amp; more",
            "_init_",
            "see ~user",
            "~/bin",
            "x_",
            "File",
            "%_d",
        ];
        for message in others {
            assert_eq!(taken(message), None, "{message}");
        }
    }

    #[test]
    fn marks_are_placed_by_their_letter() {
        let file = Accelerator { mark: '_', letter: 'F' };
        assert_eq!(file.placed("Datei"), "_Datei");
        assert_eq!(file.placed("Eine Fassung"), "Eine _Fassung");
        assert_eq!(file.placed("Schrift auf"), "Schri_ft auf");
        assert_eq!(file.placed("123"), "123");
    }
}
