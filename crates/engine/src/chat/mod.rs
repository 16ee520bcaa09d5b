//! Chat templates: the text of a conversation as a model was trained on it, written by the Jinja program of its folder.
//!
//! A template gets what `apply_chat_template` of transformers gives it: `messages`, `add_generation_prompt`, the special tokens
//! (`bos_token`, …), `raise_exception` and `strftime_now`, Python's methods of strings and dictionaries, and its `tojson`.
//! Blocks are trimmed as there. It may compute for a limited time only.

mod dates;
mod python;

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::value::Value as TemplateValue;
use minijinja::{Environment, ErrorKind};
use polyhead_text::whole;
use serde_json::Value;

use crate::generate::tokenizer::object;
use crate::{Error, Result};

/// Instructions that a template may execute; real ones need some hundred for a message.
const FUEL: u64 = 10_000_000;

/// A chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    /// The file it was read from.
    name: String,
    environment: Environment<'static>,
    special: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// The template of a model folder: `chat_template.jinja`, or `chat_template` of `chat_template.json` or
    /// `tokenizer_config.json`; `None` if there is none. `special` has special tokens by their names.
    ///
    /// # Errors
    /// If a file cannot be read, or the template is not valid.
    pub fn load(folder: &Path, special: &BTreeMap<String, String>) -> Result<Option<Self>> {
        let own = folder.join("chat_template.jinja");
        if own.exists() {
            let bytes = whole::read(&own, whole::MAX_SETTINGS)
                .map_err(|error| polyhead_text::Error::io(&own, "read", error))?;
            let source = String::from_utf8_lossy(&bytes).into_owned();
            return Self::new(source, &own.display().to_string(), special).map(Some);
        }
        for name in ["chat_template.json", "tokenizer_config.json"] {
            let path = folder.join(name);
            if let Some(source) = object(&path)?.get("chat_template").and_then(default_template) {
                return Self::new(source, &path.display().to_string(), special).map(Some);
            }
        }
        Ok(None)
    }

    /// A template from its source; `name` is its place in messages.
    ///
    /// # Errors
    /// If the template is not valid.
    pub fn new(source: impl Into<String>, name: &str, special: &BTreeMap<String, String>) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(python::method);
        environment.add_filter("tojson", python::to_json);
        environment.add_function(
            "raise_exception",
            |message: String| -> std::result::Result<(), minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, message).with_source(Refusal))
            },
        );
        environment.add_function("strftime_now", |format: String| dates::now(&format));
        let template = Self {
            source: without_generation_tags(&source.into()),
            name: name.to_owned(),
            environment,
            special: special.clone(),
        };
        template.environment.template_from_str(&template.source).map_err(|error| template.wrong(&error))?;
        Ok(template)
    }

    /// The text of `messages`, JSON objects with at least `role` and `content`, up to the place where the answer begins.
    ///
    /// # Errors
    /// If the template refuses the messages, or fails.
    pub fn render(&self, messages: &[Value]) -> Result<String> {
        let mut context: BTreeMap<&str, TemplateValue> = BTreeMap::from([
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", true.into()),
        ]);
        context.extend(self.special.iter().map(|(name, token)| (name.as_str(), token.as_str().into())));
        let context: TemplateValue = context.into_iter().collect();
        self.environment.render_str(&self.source, context).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &minijinja::Error) -> Error {
        let detail = error.detail().unwrap_or("an error").trim_end();
        if is_refusal(error) {
            let hint = "the template of the model decides which roles may follow each other";
            return Error::request(format!("the chat template refuses the messages: {detail}"), hint);
        }
        let line = error.line().map_or(String::new(), |line| format!(", line {line} of the template"));
        let message = format!("{}: {detail}{line}", error.kind());
        Error::at(&self.name, message, "correct chat_template, or fetch the file again")
    }
}

/// A message with its role first, as people write it: templates may print all keys.
fn message(message: &Value) -> TemplateValue {
    let Some(fields) = message.as_object() else { return TemplateValue::from_serialize(message) };
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| (*key != "role", *key != "content"));
    fields.into_iter().map(|(key, value)| (key.clone(), TemplateValue::from_serialize(value))).collect()
}

/// Marks an error as that of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("the template refuses the messages")]
struct Refusal;

fn is_refusal(error: &minijinja::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<Refusal>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// The template itself, or the one named `default` of several.
fn default_template(value: &Value) -> Option<String> {
    let list = match value {
        Value::String(source) => return Some(source.clone()),
        value => value.as_array()?,
    };
    let named = |entry: &&Value| entry["name"].as_str() == Some("default");
    list.iter().find(named).or(list.first())?["template"].as_str().map(str::to_owned)
}

/// The template without the tags that mark the model's own text for training.
fn without_generation_tags(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some((before, tag, after)) = next_tag(rest) {
        out += before;
        let name = tag.trim_matches(['-', '+']).trim();
        match name {
            "generation" => out += &format!("{{%{}%}}", tag.replace("generation", "if true")),
            "endgeneration" => out += &format!("{{%{}%}}", tag.replace("endgeneration", "endif")),
            _ => out += &format!("{{%{tag}%}}"),
        }
        rest = after;
    }
    out + rest
}

/// The text before the first `{% … %}`, what is inside, and the text after.
fn next_tag(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{%")?;
    let (tag, after) = rest.split_once("%}")?;
    Some((before, tag, after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, messages: &Value) -> Result<String> {
        let special = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
        ChatTemplate::new(source, "test", &special)?.render(messages.as_array().unwrap())
    }

    #[test]
    fn templates_use_pythons_methods() {
        let messages = json!([{ "role": "user", "content": "  Hello there.\n" }]);
        for (source, expected) in [
            ("{{ messages[0]['content'].strip() }}", "Hello there."),
            ("{{ messages[0].content.strip().split(' ')[1] }}", "there."),
            ("{{ messages[0].content.lstrip().startswith('Hello') }}", "True"),
            ("{{ messages[0].content | trim | upper }}", "HELLO THERE."),
            ("{{ messages[0].role.title() + messages[0].role.upper() }}", "UserUSER"),
            ("{{ 'a-b-c'.split('-', 1) | join('+') }}", "a+b-c"),
            ("{{ 'abca'.replace('a', 'x').find('c') }}", "2"),
            ("{{ messages[0].get('name', 'nobody') }}", "nobody"),
            ("{% for key, value in {'k': 'v'}.items() %}{{ key }}={{ value }}{% endfor %}", "k=v"),
            ("{{ {'b': [1, 'é<', none, true]} | tojson }}", "{\"b\": [1, \"é<\", null, true]}"),
            ("{{ {'b': [1], 'c': {}} | tojson(indent=2) }}", "{\n  \"b\": [\n    1\n  ],\n  \"c\": {}\n}"),
            ("{{ bos_token }}{{ add_generation_prompt }}{{ eos_token }}", "<s>True"),
            ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
            ("a{%- generation %}b{% endgeneration %}", "ab"),
            ("{%- set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}", "2"),
            ("{{ messages[1:] | length }}{{ messages[0].tool_calls is defined }}", "0False"),
        ] {
            assert_eq!(render(source, &messages).unwrap(), expected, "{source}");
        }
        let year = render("{{ strftime_now('%Y') }}", &messages).unwrap();
        assert!(year.parse::<u32>().unwrap() >= 2025, "{year}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let none = json!([]);
        let error = render("{{ raise_exception('roles must alternate') }}", &none).unwrap_err();
        assert_eq!(error.to_string(), "the chat template refuses the messages: roles must alternate");
        assert!(error.is_misuse());
        let error = render("a\n{% if %}", &none).unwrap_err();
        assert!(error.to_string().contains("line 2 of the template"), "{error}");
        let error = render("{{ messages[0].content.nothing() }}", &json!([{ "content": "x" }])).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
        let error = render(endless, &none).unwrap_err();
        assert!(error.to_string().contains("fuel"), "{error}");
    }

    #[test]
    fn of_several_templates_the_default_is_taken() {
        let several =
            json!([{ "name": "tool_use", "template": "t" }, { "name": "default", "template": "d" }]);
        assert_eq!(default_template(&several).as_deref(), Some("d"));
        assert_eq!(default_template(&json!("own")).as_deref(), Some("own"));
        assert_eq!(default_template(&json!(null)), None);
    }
}
