//! Fields and answers of completions, chats and models.

use super::*;
use crate::client::get;
use crate::golden;

const PROMPTS: [&str; 3] = ["the cat sat", "", "café 😀"];

#[test]
fn completions_are_the_generators_texts() {
    let (server, own) = (Running::tiny(), generator(&folder("gpt2")));
    for prompt in PROMPTS {
        let ids = own.encode(prompt).unwrap();
        let expected = &directly(&own, &ids, &options())[0];
        for given in [json!(prompt), json!([prompt]), json!(ids), json!([ids])] {
            let answer = server.complete(&fields(&json!({ "model": "gpt2", "prompt": given })));
            assert_eq!(texts(&answer), std::slice::from_ref(&expected.text), "{given}");
            let choice = &answer["choices"][0];
            assert_eq!((&choice["index"], &choice["logprobs"]), (&json!(0), &Value::Null));
            assert_eq!(choice["finish_reason"], expected.finish_reason.openai_name());
            let [prompt, completion] = [ids.len(), expected.ids.len()];
            let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
            assert_eq!(answer["usage"], usage);
            assert_eq!(
                (&answer["object"], &answer["model"], &answer["seed"]),
                (&json!("text_completion"), &json!("gpt2"), &json!(7))
            );
            assert!(
                answer["id"].as_str().unwrap().starts_with("cmpl-")
                    && answer["created"].as_u64() > Some(1_700_000_000)
            );
        }
    }
    // Two prompts, two texts for each, in order; the default is 16 tokens of the first model.
    let two =
        GenerateOptions { n_samples: 2, max_new_tokens: Some(16), temperature: 1.0, top_p: 1.0, ..options() };
    let answer = server.complete(&json!({ "prompt": [PROMPTS[0], PROMPTS[2]], "n": 2, "seed": 7 }));
    let expected = [PROMPTS[0], PROMPTS[2]].map(|prompt| directly(&own, &own.encode(prompt).unwrap(), &two));
    let expected: Vec<String> = expected.into_iter().flatten().map(|own| own.text).collect();
    assert_eq!(texts(&answer), expected);
    assert_ne!(expected[0], expected[1]);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn options_act_as_those_of_the_generator() {
    let (server, own) = (Running::tiny(), generator(&folder("gpt2")));
    let ids = own.encode(PROMPTS[0]).unwrap();
    let plain = directly(&own, &ids, &options()).remove(0);
    let stop = plain.text.chars().skip(3).take(2).collect::<String>();
    let base = options();
    for (more, options) in [
        (json!({ "stop": stop }), GenerateOptions { stop: vec![stop.clone()], ..base.clone() }),
        (json!({ "stop": ["never", stop] }), GenerateOptions { stop: vec![stop.clone()], ..base.clone() }),
        (json!({ "temperature": 0 }), GenerateOptions { temperature: 0.0, ..base.clone() }),
        (json!({ "top_k": 3, "min_p": 0.01 }), GenerateOptions { top_k: 3, min_p: 0.01, ..base.clone() }),
        (json!({ "repetition_penalty": 1.5 }), GenerateOptions { repetition_penalty: 1.5, ..base.clone() }),
        (json!({ "no_repeat_ngram": 2 }), GenerateOptions { no_repeat_ngram: 2, ..base.clone() }),
        (json!({ "max_tokens": 4000 }), GenerateOptions { max_new_tokens: Some(4000), ..base.clone() }),
        (json!({ "seed": -3 }), GenerateOptions { seed: -3_i64 as u64, ..base.clone() }),
    ] {
        let answer = server.complete(&fields(&{
            let mut body = more.clone();
            body["prompt"] = PROMPTS[0].into();
            body
        }));
        let expected = &directly(&own, &ids, &options)[0];
        let finish = expected.finish_reason.openai_name();
        assert_eq!(
            (texts(&answer)[0].as_str(), &answer["choices"][0]["finish_reason"]),
            (expected.text.as_str(), &json!(finish)),
            "{more}"
        );
    }
    let answer = server.complete(&fields(&json!({ "prompt": PROMPTS[0], "echo": true })));
    assert_eq!(texts(&answer), [format!("{}{}", PROMPTS[0], plain.text)]);
    // Without a seed another is drawn each time, and the answer names it.
    let body = json!({ "prompt": PROMPTS[0], "max_tokens": 30 });
    let [one, other] = [(); 2].map(|()| server.complete(&body));
    assert_ne!(one["seed"], other["seed"]);
    let again = server.complete(&json!({ "prompt": PROMPTS[0], "max_tokens": 30, "seed": one["seed"] }));
    assert_eq!(texts(&again), texts(&one));
}

#[test]
fn chats_are_written_by_the_template_of_the_model() {
    let (server, own) = (Running::tiny(), generator(&folder("llama")));
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Hello </s> there" },
        { "role": "assistant", "content": "Hello." },
        { "role": "user", "content": "how are you" },
    ]);
    let ids = own.encode_chat(messages.as_array().unwrap()).unwrap();
    let expected = &directly(&own, &ids, &options())[0];
    let mut parts = messages.clone();
    parts[0]["role"] = "developer".into();
    parts[1]["content"] =
        json!([{ "type": "text", "text": "Hello </s>" }, { "type": "text", "text": " there" }]);
    for given in [messages, parts] {
        let answer = server.chat(&fields(&json!({ "model": "chat", "messages": given })));
        assert_eq!(texts(&answer), std::slice::from_ref(&expected.text));
        assert_eq!(answer["object"], "chat.completion");
        assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
        assert_eq!(answer["usage"]["prompt_tokens"], ids.len());
        assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    }
    // Without a limit, the answer goes on to the end token or the end of the context.
    let user = json!([{ "role": "user", "content": "Hello" }]);
    let ids = own.encode_chat(user.as_array().unwrap()).unwrap();
    let all = GenerateOptions { max_new_tokens: None, seed: 3, ..own.options() };
    let answer = server.chat(&json!({ "model": "chat", "messages": user, "seed": 3 }));
    assert_eq!(texts(&answer), [directly(&own, &ids, &all)[0].text.clone()]);
    // The old and the new name of the limit.
    for field in ["max_tokens", "max_completion_tokens"] {
        let answer = server.chat(&json!({ "model": "chat", "messages": user, "seed": 3, field: 2 }));
        assert_eq!(answer["usage"]["completion_tokens"], 2);
    }
}

#[test]
fn a_stream_has_the_same_text() {
    let server = Running::tiny();
    for (path, more) in [
        ("/v1/completions", json!({ "prompt": "the cat sat", "n": 3 })),
        ("/v1/completions", json!({ "prompt": "café 😀", "stop": "e", "echo": true })),
        (
            "/v1/chat/completions",
            json!({ "model": "chat", "messages": [{ "role": "user", "content": "Hello" }], "n": 2 }),
        ),
    ] {
        let mut body = fields(&more);
        let whole = server.answered(path, &body);
        body["stream"] = true.into();
        let count = texts(&whole).len();
        let answer = post(server.port, path, &body);
        assert!(answer.headers.contains("content-type: text/event-stream"), "{}", answer.headers);
        assert_eq!(streamed(&answer.body, count), texts(&whole));
        body["stream_options"] = json!({ "include_usage": true });
        let answer = post(server.port, path, &body);
        let mut chunks: Vec<Value> =
            events(&answer.body).iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
        let last = chunks.pop().unwrap();
        assert_eq!((&last["usage"], &last["choices"]), (&whole["usage"], &json!([])));
        assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk["id"] == last["id"]));
        for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
            let own = chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|own| own["index"] == index);
            let reasons: Vec<&Value> = own.clone().map(|own| &own["finish_reason"]).collect();
            assert_eq!(reasons.last().unwrap(), &&choice["finish_reason"]);
            assert!(reasons[..reasons.len() - 1].iter().all(|reason| reason.is_null()));
            if path.contains("chat") {
                assert_eq!(own.clone().next().unwrap()["delta"]["role"], "assistant");
            }
        }
    }
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let (server, own) = (Running::tiny(), generator(&folder("gpt2")));
    let ids = own.encode("the cat sat").unwrap();
    let expected = &directly(&own, &ids, &GenerateOptions { temperature: 0.0, ..options() })[0];
    let body = fields(&json!({ "prompt": "the cat sat", "temperature": 0, "logprobs": 2, "echo": true }));
    let answer = server.complete(&body);
    let found = &answer["choices"][0]["logprobs"];
    let list = |name: &str| found[name].as_array().unwrap().clone();
    let sum: f64 = list("token_logprobs").iter().map(|own| own.as_f64().unwrap()).sum();
    assert!((sum - expected.log_probability).abs() < 1e-4, "{sum}, {}", expected.log_probability);
    assert_eq!(list("tokens").len(), expected.ids.len());
    assert_eq!(list("text_offset")[0], "the cat sat".len());
    for (index, best) in list("top_logprobs").iter().enumerate() {
        let best = best.as_object().unwrap();
        let token = list("tokens")[index].as_str().unwrap().to_owned();
        let most = best.values().map(|score| score.as_f64().unwrap()).fold(f64::NEG_INFINITY, f64::max);
        assert!(best.len() == 2 && best[&token].as_f64() == Some(most), "{best:?}");
    }
    // Streams have the same tokens.
    let mut stream = body.clone();
    stream["stream"] = true.into();
    let chunks = events(&post(server.port, "/v1/completions", &stream).body);
    let mut tokens = Vec::new();
    for chunk in chunks.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok()) {
        tokens.extend(chunk["choices"][0]["logprobs"]["tokens"].as_array().cloned().unwrap_or_default());
    }
    assert_eq!(tokens, list("tokens"));
    // Those of a chat have their bytes, which are the text; a stop string is not among them.
    let user = json!([{ "role": "user", "content": "Hello" }]);
    let body = fields(
        &json!({ "model": "chat", "messages": user, "logprobs": true, "top_logprobs": 1, "seed": 11 }),
    );
    let answer = server.chat(&body);
    let choice = &answer["choices"][0];
    let content = choice["logprobs"]["content"].as_array().unwrap();
    let text = choice["message"]["content"].as_str().unwrap();
    // Tokens of letters, which are no bytes of a broken character, are in the text in order.
    let mut rest = text;
    for token in content {
        let bytes: Vec<u8> =
            token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
        let word = String::from_utf8(bytes).unwrap_or_default();
        if word.len() > 1 && word.trim().chars().all(char::is_alphabetic) {
            let at = rest.find(word.trim()).unwrap_or_else(|| panic!("{word:?} in {rest:?}"));
            rest = &rest[at + word.trim().len()..];
        }
    }
    assert!(rest.len() < text.len());
    assert!(content.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 1));
    let stop = text.chars().skip(4).take(3).collect::<String>();
    let mut stopped = body;
    stopped["stop"] = json!([stop]);
    let answer = server.chat(&stopped);
    let kept = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(kept.len() < content.len() && content.starts_with(kept), "{kept:?}");
}

#[test]
fn what_cannot_be_done_is_refused_in_openais_shape() {
    let server = Running::tiny();
    let long = "a man ".repeat(60);
    let user = json!([{ "role": "user", "content": "Hello" }]);
    let completion = |more: Value| ("/v1/completions", fields(&more));
    let chat = |more: Value| ("/v1/chat/completions", more);
    for ((path, body), status, param, code, expected) in [
        (completion(json!({})), 400, "prompt", "invalid_value", "prompt: nothing, expected a text"),
        (completion(json!({ "prompt": [] })), 400, "prompt", "invalid_value", "an empty array"),
        (completion(json!({ "prompt": ["a", 1] })), 400, "prompt", "invalid_value", "texts and other values"),
        (completion(json!({ "prompt": [[1, -1]] })), 400, "prompt", "invalid_value", "expected a text"),
        (
            completion(json!({ "prompt": [5, 100_000] })),
            400,
            "prompt",
            "invalid_value",
            "token 100000, expected one below 360",
        ),
        (
            completion(json!({ "prompt": long })),
            400,
            "prompt",
            "context_length_exceeded",
            "tokens, expected at most 64, the context of the model",
        ),
        (
            completion(json!({ "prompt": "a", "model": "gpt-9" })),
            404,
            "model",
            "model_not_found",
            "no model \"gpt-9\", expected one of gpt2, chat",
        ),
        (completion(json!({ "prompt": "a", "n": 0 })), 400, "n", "invalid_value", "n: 0, expected 1 to 16"),
        (
            completion(json!({ "prompt": "a", "n": 1_000_000_000 })),
            400,
            "n",
            "invalid_value",
            "n: 1000000000, expected 1 to 16",
        ),
        (
            completion(json!({ "prompt": "a", "max_tokens": 1e15 })),
            400,
            "max_tokens",
            "invalid_value",
            "expected 1 to 4096",
        ),
        (
            completion(json!({ "prompt": "a", "max_tokens": 0 })),
            400,
            "max_tokens",
            "invalid_value",
            "expected 1 to 4096",
        ),
        (
            completion(json!({ "prompt": "a", "temperature": -1 })),
            400,
            "temperature",
            "invalid_value",
            "expected a number not below 0",
        ),
        (
            completion(json!({ "prompt": "a", "temperature": "hot" })),
            400,
            "temperature",
            "invalid_value",
            "expected a number",
        ),
        (
            completion(json!({ "prompt": "a", "top_p": 0 })),
            400,
            "top_p",
            "invalid_value",
            "above 0, at most 1",
        ),
        (
            completion(json!({ "prompt": "a", "stop": vec!["x"; 17] })),
            400,
            "stop",
            "invalid_value",
            "17 texts, expected at most 16",
        ),
        (completion(json!({ "prompt": "a", "stop": "" })), 400, "stop", "invalid_value", "an empty text"),
        (
            completion(json!({ "prompt": "a", "stop": "x".repeat(2000) })),
            400,
            "stop",
            "invalid_value",
            "2000 bytes",
        ),
        (
            completion(json!({ "prompt": "a", "logprobs": 21 })),
            400,
            "logprobs",
            "invalid_value",
            "expected 0 to 20",
        ),
        (completion(json!({ "prompt": "a", "best_of": 3 })), 400, "best_of", "invalid_value", "best_of is 3"),
        (
            completion(json!({ "prompt": "a", "presence_penalty": 0.5 })),
            400,
            "presence_penalty",
            "unsupported_field",
            "is not supported",
        ),
        (
            completion(json!({ "prompt": "a", "logit_bias": { "5": 1 } })),
            400,
            "logit_bias",
            "unsupported_field",
            "is not supported",
        ),
        (
            completion(json!({ "prompt": "a", "suffix": "b" })),
            400,
            "suffix",
            "unsupported_field",
            "is not supported",
        ),
        (
            completion(json!({ "prompt": "a", "stream_options": {} })),
            400,
            "stream_options",
            "invalid_value",
            "without stream",
        ),
        (
            completion(json!({ "prompt": vec!["a"; 100], "n": 16 })),
            400,
            "prompt",
            "invalid_value",
            "1600 texts, expected at most 256",
        ),
        (chat(json!({ "model": "gpt2", "messages": user })), 400, "", "", "without a chat template"),
        (
            chat(json!({ "model": "chat", "messages": [] })),
            400,
            "messages",
            "invalid_value",
            "expected an array of messages",
        ),
        (
            chat(json!({ "model": "chat", "messages": [{ "role": "king", "content": "a" }] })),
            400,
            "messages",
            "invalid_value",
            "message 1: role \"king\"",
        ),
        (
            chat(
                json!({ "model": "chat", "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }),
            ),
            400,
            "messages",
            "invalid_value",
            "expected content as a text",
        ),
        (
            chat(json!({ "model": "chat", "messages": [{ "role": "assistant", "content": "a" }] })),
            400,
            "",
            "",
            "must alternate",
        ),
        (
            chat(json!({ "model": "chat", "messages": user, "tools": [{}] })),
            400,
            "tools",
            "unsupported_field",
            "tools cannot be called",
        ),
        (
            chat(json!({ "model": "chat", "messages": user, "top_logprobs": 2 })),
            400,
            "top_logprobs",
            "invalid_value",
            "without logprobs",
        ),
    ] {
        for stream in [false, true] {
            let mut body = body.clone();
            if stream && body.get("stream_options").is_none() {
                body["stream"] = true.into();
            }
            let answer = post(server.port, path, &body);
            let error = &answer.json()["error"];
            assert_eq!(answer.status, status, "{body}: {error}");
            assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
            assert_eq!(
                (error["param"].as_str().unwrap_or(""), error["code"].as_str().unwrap_or("")),
                (param, code),
                "{error}"
            );
            assert!(error["type"] == "invalid_request_error" && !error["hint"].as_str().unwrap().is_empty());
        }
    }
    let unknown = post(server.port, "/v1/completions", &json!({ "prompt": "a", "temprature": 1 }));
    assert_eq!(unknown.json()["error"]["code"], "unknown_field");
    for body in ["{", "[]", "nonsense"] {
        assert_eq!(
            send(server.port, ["POST", "/v1/completions"], &["Content-Type: application/json"], body).status,
            400
        );
    }
    let wrong = server.send_as("wrong", "/v1/completions", &json!({ "prompt": "a" }));
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    assert!(wrong.headers.contains("www-authenticate: bearer"), "{}", wrong.headers);
    // Fields of clients that change nothing are accepted.
    let neutral = json!({
        "model": "chat", "messages": user, "user": "u", "metadata": { "a": 1 }, "store": false, "tools": null,
        "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "response_format": { "type": "text" },
        "max_tokens": 2, "tool_choice": "none",
    });
    assert_eq!(server.chat(&neutral)["usage"]["completion_tokens"], 2);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn models_are_listed_and_loaded_on_demand() {
    let models = [("gpt2", folder("gpt2")), ("chat", folder("llama")), ("opus", golden())];
    let server = Running::new(&models, RequestLimits::default());
    let listed = get(server.port, "/v1/models").json();
    assert_eq!(listed["models"][0]["name"], "opus");
    let expected = json!([
        { "id": "gpt2", "object": "model", "created": 0, "owned_by": "polyhead", "is_loaded": true, "context_length": 64 },
        { "id": "chat", "object": "model", "created": 0, "owned_by": "polyhead", "is_loaded": false, "context_length": 96 },
    ]);
    assert_eq!((&listed["object"], &listed["data"]), (&json!("list"), &expected));
    server.complete(&json!({ "model": "chat", "prompt": "a", "max_tokens": 1 }));
    assert_eq!(get(server.port, "/v1/models/chat").json()["is_loaded"], true);
    assert_eq!(get(server.port, "/v1/models/none").status, 404);
    // Translators and language models know each other's names.
    let answer = post(server.port, "/v1/completions", &json!({ "model": "opus", "prompt": "a" }));
    assert!(
        answer.status == 404 && answer.body.contains("translates, expected a language model"),
        "{}",
        answer.body
    );
    let body = json!({ "q": "Nobody slept well!", "source": "en", "target": "tr" });
    assert_eq!(post(server.port, "/translate", &body).status, 200);
    // A reload replaces the loaded ones, and requests go on.
    assert_eq!(server.state.scheduler.reload().unwrap(), 3);
    server.complete(&json!({ "model": "chat", "prompt": "a", "max_tokens": 1 }));
    let described = get(server.port, "/openapi.json").json();
    assert_eq!(described["components"]["schemas"]["LanguageModelName"]["enum"], json!(["gpt2", "chat"]));
    // A server of language models alone says that it does not translate.
    let alone = Running::tiny();
    let answer = post(alone.port, "/translate", &body);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(get(alone.port, "/v1/models").json()["models"], json!([]));
    assert_eq!(get(alone.port, "/ready").status, 200);
}
