//! Stop strings: a text ends before the first of them, wherever the borders of tokens lie.

/// A text in which stop strings are looked for while it grows.
#[derive(Debug, Clone, Default)]
pub(super) struct StopMatcher {
    stops: Vec<String>,
    /// The end of the text that may be the beginning of a stop string.
    held: String,
}

impl StopMatcher {
    /// None of `stops` is empty.
    pub(super) fn new(stops: &[String]) -> Self {
        Self { stops: stops.to_vec(), held: String::new() }
    }

    /// Appends text; returns the text that is certain now, and true if a stop string follows it.
    pub(super) fn push(&mut self, text: &str) -> (String, bool) {
        if self.stops.is_empty() {
            return (text.to_owned(), false);
        }
        self.held += text;
        if let Some(start) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(start);
            return (std::mem::take(&mut self.held), true);
        }
        let may_begin = |&start: &usize| {
            let tail = &self.held[start..];
            self.stops.iter().any(|stop| stop.starts_with(tail))
        };
        let certain =
            self.held.char_indices().map(|(start, _)| start).find(may_begin).unwrap_or(self.held.len());
        let rest = self.held.split_off(certain);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The rest of the text, where no more follows.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], parts: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
        let mut matcher = StopMatcher::new(&stops);
        let mut texts = Vec::new();
        for part in parts {
            let (text, is_stopped) = matcher.push(part);
            texts.push(text);
            if is_stopped {
                return (texts, true);
            }
        }
        texts.push(matcher.finish());
        (texts, false)
    }

    #[test]
    fn a_text_ends_before_a_stop_string_across_borders() {
        assert_eq!(
            run(&["END"], &["a E", "N", "D b"]),
            (vec!["a ".into(), String::new(), String::new()], true)
        );
        assert_eq!(run(&["END"], &["a E", "Nd"]), (vec!["a ".into(), "ENd".into(), String::new()], false));
        assert_eq!(run(&["aab"], &["aa", "ab"]).0.concat(), "a");
        assert_eq!(run(&["\n\n", "é!"], &["x\n", "é", "\n", "é!y"]).0.concat(), "x\né\n");
        // The first stop string ends the text, whatever their order.
        assert_eq!(run(&["d", "b"], &["abcd"]), (vec!["a".into()], true));
        assert_eq!(run(&[], &["ab", "c"]).0.concat(), "abc");
        // What may begin a stop string is text after all when nothing follows.
        assert_eq!(run(&["END"], &["EN"]), (vec![String::new(), "EN".into()], false));
    }
}
