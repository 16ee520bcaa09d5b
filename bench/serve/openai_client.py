"""OpenAI's own Python client against `polyhead serve`: completions, chats, streams, errors, and sixteen clients at once.

    python bench/serve/openai_client.py PROGRAM GPT2_FOLDER CHAT_FOLDER

PROGRAM is `polyhead`; GPT2_FOLDER a language model, CHAT_FOLDER one with a chat template. The script starts a server with keys,
compares answers with `polyhead generate`, prints what it did, and exits with 1 if anything differs. Needs `openai` from PyPI.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import openai

PROGRAM, GPT2, CHAT = sys.argv[1:4]
PROMPT = "the cat sat"
failed = []


def check(name, is_right, seen=""):
    print(f"{'ok    ' if is_right else 'FAILED'} {name}{': ' + str(seen) if seen != '' else ''}")
    if not is_right:
        failed.append(name)


def generated(model, prompt, *options, messages=None):
    """What `polyhead generate` writes: a list of JSON objects."""
    command = [PROGRAM, "generate", "--quiet", "--model", model, "--format", "jsonl", *options]
    if messages:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps({"messages": messages}) + "\n")
            file.flush()
            found = subprocess.run([*command, "--messages", file.name], check=True, capture_output=True, text=True)
    else:
        found = subprocess.run([*command, prompt], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def refused(name, kind, call, expected):
    try:
        call()
    except kind as error:
        body = error.body or {}
        check(name, expected in body.get("message", ""), f"{error.status_code} {body.get('code')}: {body.get('message')}")
    else:
        check(name, False, "no error")


def run(client, address):
    check("models", [model.id for model in client.models.list()] == ["gpt2", "chat"])
    check("one model", client.models.retrieve("chat").id == "chat")

    answer = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=12, seed=7, temperature=0.9)
    own = generated(GPT2, PROMPT, "--max-new-tokens", "12", "--seed", "7", "--temperature", "0.9")[0]
    check("completion", answer.choices[0].text == own["text"], repr(answer.choices[0].text))
    check("usage", (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (own["prompt_tokens"], len(own["ids"])), answer.usage.total_tokens)

    answer = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=12, seed=7, n=2, temperature=0.9)
    own = generated(GPT2, PROMPT, "--max-new-tokens", "12", "--seed", "7", "--temperature", "0.9", "--n", "2")
    check("n=2", [choice.text for choice in answer.choices] == [text["text"] for text in own])

    whole = generated(GPT2, PROMPT, "--max-new-tokens", "12", "--temperature", "0")[0]["text"]
    stop = whole[3:5]
    answer = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0, stop=[stop])
    choice = answer.choices[0]
    check("stop", (choice.text, choice.finish_reason) == (whole[: whole.index(stop)], "stop"), f"{stop!r} ends {choice.text!r}")

    answer = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=6, temperature=0, logprobs=2)
    scores = answer.choices[0].logprobs
    best = all(max(top.values()) == own for top, own in zip(scores.top_logprobs, scores.token_logprobs))
    check("logprobs", best and len(scores.tokens) == 6, list(zip(scores.tokens, [round(own, 4) for own in scores.token_logprobs])))

    answer = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=4, temperature=0, echo=True, extra_body={"top_k": 5})
    check("echo and an extra field", answer.choices[0].text.startswith(PROMPT))

    stream = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0, stream=True)
    check("stream of a completion", "".join(chunk.choices[0].text for chunk in stream) == whole, repr(whole))

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]
    answer = client.chat.completions.create(model="chat", messages=messages, max_completion_tokens=16, seed=3)
    own = generated(CHAT, None, "--max-new-tokens", "16", "--seed", "3", messages=messages)[0]
    check("chat", answer.choices[0].message.content == own["text"], repr(own["text"]))

    chunks = list(client.chat.completions.create(
        model="chat", messages=messages, max_completion_tokens=16, seed=3, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    check("stream of a chat", text == own["text"] and chunks[0].choices[0].delta.role == "assistant", f"{len(chunks)} chunks")
    check("usage at the end of a stream", chunks[-1].usage.completion_tokens == len(own["ids"]))

    answer = client.chat.completions.create(model="chat", messages=messages, max_completion_tokens=3, seed=3, logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    check("logprobs of a chat", all(len(token.top_logprobs) == 2 for token in content), [token.token for token in content])

    refused("wrong key", openai.AuthenticationError,
            lambda: openai.OpenAI(base_url=address, api_key="wrong").completions.create(model="gpt2", prompt="a"), "API key")
    refused("unknown model", openai.NotFoundError, lambda: client.completions.create(model="gpt-9", prompt="a"), "no model")
    refused("long prompt", openai.BadRequestError,
            lambda: client.completions.create(model="gpt2", prompt="a man " * 2000), "expected at most")
    refused("tools", openai.BadRequestError, lambda: client.chat.completions.create(
        model="chat", messages=messages, tools=[{"type": "function", "function": {"name": "f"}}]), "not supported")

    # A client that leaves in the middle of a stream, and one that goes on.
    stream = client.completions.create(model="gpt2", prompt=PROMPT, max_tokens=50, stream=True)
    next(iter(stream))
    stream.close()

    requests = [dict(prompt=f"{PROMPT} {index % 5}", max_tokens=8 + index % 7, seed=index, n=1 + index % 2) for index in range(48)]
    alone = [[choice.text for choice in client.completions.create(model="gpt2", **request).choices] for request in requests]
    begin = time.time()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ask = lambda request: [choice.text for choice in client.completions.create(model="gpt2", **request).choices]
        together = list(pool.map(ask, requests))
    check("16 clients at once: every answer equals the one alone", together == alone,
          f"{len(requests)} requests, {sum(map(len, alone))} texts in {time.time() - begin:.2f} s")


with tempfile.TemporaryDirectory() as folder:
    keys = pathlib.Path(folder) / "keys.txt"
    key = subprocess.run([PROGRAM, "keys", "add", str(keys), "python"], check=True, capture_output=True, text=True).stdout.strip()
    server = subprocess.Popen(
        [PROGRAM, "serve", "--model", f"gpt2={GPT2}", "--model", f"chat={CHAT}", "--listen", "127.0.0.1:0",
         "--keys", str(keys), "--require-key", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip() + "v1"
        print(f"openai {openai.__version__}, Python {sys.version.split()[0]}")
        run(openai.OpenAI(base_url=address, api_key=key, max_retries=0), address)
    finally:
        server.terminate()
        server.wait()
print(f"{len(failed)} failed")
sys.exit(bool(failed))
