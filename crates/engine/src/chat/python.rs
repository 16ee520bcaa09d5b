//! What Python's strings and dictionaries can do in a template, and its JSON.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// A method of a string or a dictionary.
pub(super) fn method(
    _: &State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let found = match value.as_str() {
        Some(text) => of_string(text, name, arguments),
        None => of_map(value, name, arguments),
    };
    found.unwrap_or_else(|| {
        let message = format!("{} has no method {name}", value.kind());
        Err(Error::new(ErrorKind::UnknownMethod, message))
    })
}

fn of_string(text: &str, name: &str, arguments: &[Value]) -> Option<Result<Value, Error>> {
    let argument = |index: usize| arguments.get(index).and_then(Value::as_str);
    let characters = argument(0).map(|all| all.chars().collect::<Vec<char>>());
    let strips = |c: char| match &characters {
        Some(all) => all.contains(&c),
        None => c.is_whitespace(),
    };
    let affixes = || -> Vec<String> {
        match arguments.first() {
            Some(one) if one.as_str().is_some() => vec![one.as_str().unwrap_or_default().to_owned()],
            Some(several) => {
                several.try_iter().into_iter().flatten().map(|affix| affix.to_string()).collect()
            }
            None => Vec::new(),
        }
    };
    let number = |index: usize| arguments.get(index).and_then(Value::as_i64);
    Some(Ok(match name {
        "strip" => text.trim_matches(strips).into(),
        "lstrip" => text.trim_start_matches(strips).into(),
        "rstrip" => text.trim_end_matches(strips).into(),
        "startswith" => affixes().iter().any(|affix| text.starts_with(affix)).into(),
        "endswith" => affixes().iter().any(|affix| text.ends_with(affix)).into(),
        "upper" => text.to_uppercase().into(),
        "lower" => text.to_lowercase().into(),
        "title" => titled(text).into(),
        "capitalize" => capitalised(text).into(),
        "splitlines" => text.lines().collect(),
        "split" => return Some(split(text, argument(0), number(1))),
        "replace" => {
            let (from, to) = (argument(0)?, argument(1)?);
            match number(2).and_then(|count| usize::try_from(count).ok()) {
                Some(count) => text.replacen(from, to, count).into(),
                None => text.replace(from, to).into(),
            }
        }
        "find" => {
            let at = text.find(argument(0)?).map(|at| text[..at].chars().count() as i64);
            at.unwrap_or(-1).into()
        }
        "count" => text.matches(argument(0)?).count().into(),
        "join" => {
            let parts: Vec<String> =
                arguments.first()?.try_iter().ok()?.map(|part| part.to_string()).collect();
            parts.join(text).into()
        }
        _ => return None,
    }))
}

fn split(text: &str, separator: Option<&str>, most: Option<i64>) -> Result<Value, Error> {
    // A negative maximum is none.
    let most = most.and_then(|most| usize::try_from(most).ok()).map(|most| most + 1);
    Ok(match (separator, most) {
        (Some(""), _) => return Err(Error::new(ErrorKind::InvalidOperation, "split by an empty separator")),
        (Some(separator), Some(most)) => text.splitn(most, separator).collect(),
        (Some(separator), None) => text.split(separator).collect(),
        (None, None) => text.split_whitespace().collect(),
        (None, Some(most)) => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_start());
            while !rest.is_empty() && parts.len() + 1 < most {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start();
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts.into_iter().collect()
        }
    })
}

/// Each word with a capital first.
fn titled(text: &str) -> String {
    let mut is_inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        is_inside = c.is_alphabetic();
    }
    out
}

/// The first character a capital, the others small.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

fn of_map(value: &Value, name: &str, arguments: &[Value]) -> Option<Result<Value, Error>> {
    let pairs = || -> Option<Vec<(Value, Value)>> {
        let keys = value.as_object()?.try_iter_pairs()?;
        Some(keys.collect())
    };
    let found = match name {
        "items" => pairs()?.into_iter().map(|(key, value)| Value::from(vec![key, value])).collect(),
        "keys" => pairs()?.into_iter().map(|(key, _)| key).collect(),
        "values" => pairs()?.into_iter().map(|(_, value)| value).collect(),
        "get" => {
            let found = value.as_object()?.get_value(arguments.first()?);
            found.or_else(|| arguments.get(1).cloned()).unwrap_or(Value::from(()))
        }
        _ => return None,
    };
    Some(Ok(found))
}

/// JSON as `json.dumps` of Python writes it, without escapes of characters outside ASCII.
#[expect(clippy::needless_pass_by_value, reason = "the signature that minijinja calls")]
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Accepted and without effect, as in most templates.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let mut out = String::new();
    write(value, indent, 0, &mut out)?;
    Ok(Value::from_safe_string(out))
}

fn write(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<(), Error> {
    let line =
        |depth: usize| indent.map_or(String::new(), |indent| format!("\n{}", " ".repeat(indent * depth)));
    let comma = if indent.is_some() { "," } else { ", " };
    let [open, close] = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => ['[', ']'],
        ValueKind::Map => ['{', '}'],
        _ => {
            let json = serde_json::to_string(value)
                .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            *out += &json;
            return Ok(());
        }
    };
    out.push(open);
    let mut is_empty = true;
    // The items of a map are its keys, in order.
    for item in value.try_iter()? {
        if !std::mem::replace(&mut is_empty, false) {
            *out += comma;
        }
        *out += &line(depth + 1);
        if open == '{' {
            *out += &serde_json::Value::from(item.to_string()).to_string();
            *out += ": ";
            write(&value.get_item(&item)?, indent, depth + 1, out)?;
        } else {
            write(&item, indent, depth + 1, out)?;
        }
    }
    if !is_empty {
        *out += &line(depth);
    }
    out.push(close);
    Ok(())
}
