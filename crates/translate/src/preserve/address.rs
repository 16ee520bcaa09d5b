//! Addresses: web and mail addresses, `@name`, `#tag`.

use super::run;

/// Top-level domains of host names without `http://` or `www.`; none that is a common word.
const DOMAINS: &[&str] = &[
    "ai", "app", "at", "au", "biz", "br", "ca", "ch", "cn", "com", "de", "dev", "edu", "es", "eu", "fr",
    "gov", "info", "int", "io", "jp", "mil", "net", "nl", "online", "org", "pl", "ru", "se", "shop", "site",
    "tr", "tv", "uk", "us", "xyz",
];

/// Bytes of the longest address that is preserved whole.
const LONGEST_ADDRESS: usize = 4096;

/// The length in bytes of the address that `text` begins with; 0 for none.
pub(super) fn address_len(text: &str) -> usize {
    // Without a limit, a very long word would be scanned again from each of its letters.
    let end = text.char_indices().find(|(at, letter)| letter.is_whitespace() || *at >= LONGEST_ADDRESS);
    let word = &text[..end.map_or(text.len(), |(at, _)| at)];
    if let Some(rest) = word.strip_prefix('@') {
        let name = name_len(rest);
        return if name == 0 { 0 } else { 1 + rest[..name].trim_end_matches('_').len() };
    }
    if let Some(rest) = word.strip_prefix('#') {
        let tag = name_len(rest);
        return if rest[..tag].contains(char::is_alphabetic) { 1 + tag } else { 0 };
    }
    if !word.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return 0;
    }
    let scheme = run(word, |character| character.is_ascii_alphanumeric() || "+-".contains(character));
    if word[scheme..].starts_with("://") && word[scheme + 3..].starts_with(char::is_alphanumeric) {
        return url_len(word);
    }
    if let Some(rest) = word.strip_prefix("mailto:") {
        return mail_len(rest).map_or(0, |length| length + "mailto:".len());
    }
    mail_len(word).or_else(|| host_len(word)).unwrap_or(0)
}

/// The length of `name@example.org` at the beginning of a word.
fn mail_len(word: &str) -> Option<usize> {
    let local = run(word, |character| character.is_ascii_alphanumeric() || "._%+-".contains(character));
    let rest = word[local..].strip_prefix('@')?;
    let domain = domain(rest);
    let (name, end) = domain.rsplit_once('.')?;
    let is_domain =
        !name.is_empty() && end.len() >= 2 && end.chars().all(|letter| letter.is_ascii_alphabetic());
    is_domain.then_some(local + 1 + domain.len())
}

/// The length of `www.example.org/page` or `example.org:80` at the beginning of a word.
fn host_len(word: &str) -> Option<usize> {
    let domain = domain(word);
    let (name, end) = domain.rsplit_once('.')?;
    let is_www = domain.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www.")) && domain.len() > 4;
    let rest = &word[domain.len()..];
    // With a path after it any top-level domain will do: `bit.ly/abc`.
    let has_long_path = rest.strip_prefix('/').is_some_and(|page| page.starts_with(char::is_alphanumeric))
        && name.len() >= 2
        && end.len() >= 2
        && end.chars().all(|letter| letter.is_ascii_lowercase());
    if name.is_empty() || !(is_www || has_long_path || DOMAINS.contains(&end)) {
        return None;
    }
    let port = rest.strip_prefix(':').map_or(0, |rest| run(rest, |digit| digit.is_ascii_digit()));
    let has_path = rest.starts_with('/') || port > 0;
    let is_ended = !rest.starts_with(|next: char| next.is_alphanumeric() || "_@".contains(next));
    is_ended.then(|| if has_path { url_len(word) } else { domain.len() })
}

/// The domain at the beginning of a word: letters, digits and hyphens between single full stops.
fn domain(word: &str) -> &str {
    let length = run(word, |character| character.is_ascii_alphanumeric() || "-.".contains(character));
    let domain = word[..length].trim_end_matches(['.', '-']);
    domain.find("..").map_or(domain, |end| &domain[..end])
}

/// The length of the address at the beginning of a word, without quotes and the punctuation of the sentence after it.
fn url_len(word: &str) -> usize {
    let end = run(word, |character| !"\"<>“”„«»‹›`{}|\\^'’‘…".contains(character));
    let mut url = &word[..end];
    loop {
        let shorter = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '*']);
        let is_open = |open: char, close: char| {
            shorter.ends_with(close) && shorter.matches(close).count() > shorter.matches(open).count()
        };
        let shorter =
            if is_open('(', ')') || is_open('[', ']') { &shorter[..shorter.len() - 1] } else { shorter };
        if shorter.len() == url.len() {
            return url.len();
        }
        url = shorter;
    }
}

/// The length of a name: letters, digits and underscores, and hyphens before small letters and digits (`tag-with-dash`; but
/// *#MeToo-Bewegung* is a tag and a word).
fn name_len(text: &str) -> usize {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    let mut end = run(text, is_name);
    while end > 0 {
        let Some(rest) = text[end..].strip_prefix('-') else { break };
        let is_small = rest.starts_with(|next: char| next.is_lowercase() || next.is_ascii_digit());
        if !is_small {
            break;
        }
        end += 1 + run(rest, is_name);
    }
    end
}
