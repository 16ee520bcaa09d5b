"""Golden files of language models: tokenisers, chat templates, generation and perplexity, computed by transformers.

Run in this folder with transformers, tokenizers, torch and safetensors installed:

    python make.py

It writes gpt2/ and llama/ (tiny models with random weights), and answers.json.gz.
"""

import gzip
import json
import os
import shutil
import warnings

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

warnings.filterwarnings("ignore")

TRAINING = [
    "the cat sat on the mat and the dog sat on the rug",
    "a man is walking down the street with two dogs, and they're barking",
    "In 2024 there were 365 days less one; wasn't it 366? It was!",
    "café naïve Zürich 東京 你好 😀 👩‍👩‍👧 — “quoted” … ¿qué?",
    "def f(x):\n    return x + 1\n\n\nprint(f(2))\n",
    "user assistant system Hello there how are you today",
] * 3

TEXTS = [
    "",
    " ",
    "a",
    "  two  spaces  ",
    "\n\nnew\n lines\r\n\ttab ",
    "the cat's dogs, they'll've  I'M",
    "😀👩‍👩‍👧🇹🇷 and é e\u0301 ñ",
    "東京は你好。한국어",
    "<|endoftext|> and </s> <s>[INST] are text",
    "\u0000\u00a0\u200b\ufeff\ufffd",
    "x" * 40 + " 12345 67,890.00",
    "مرحبا بالعالم ไทย नमस्ते",
]


def gpt2_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def llama_tokenizer():
    """A tokeniser as transformers converts Llama's: BPE with bytes, a space in front, the start token by a template."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    trainer = trainers.BpeTrainer(vocab_size=140, limit_alphabet=60, show_progress=False)
    trained.train_from_iterator(TRAINING, trainer)
    learned = json.loads(trained.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [token for token in learned["vocab"] if token not in tokens]
    vocab = {token: index for index, token in enumerate(tokens)}
    merges = [tuple(pair) for pair in learned["merges"]]
    model = models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in tokens[:3]])
    return tokenizer


def plain(tokenizer, text):
    """Ids of a text in which special tokens are text."""
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return ids


def tokenizations(tokenizer, seed):
    generator = torch.Generator().manual_seed(seed)
    cases = []
    for text in TEXTS:
        ids = plain(tokenizer, text)
        cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
    size = tokenizer.get_vocab_size()
    # Random tokens: mostly bytes that are no characters.
    streams = []
    for _ in range(12):
        ids = torch.randint(0, size, (12,), generator=generator).tolist()
        streams.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
    return {"texts": cases, "random": streams}


TEMPLATES = {
    "chatml": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "llama-2": """{% if messages[0]['role'] == 'system' %}
{% set system_message = '<<SYS>>\n' + messages[0]['content'] | trim + '\n<</SYS>>\n\n' %}
{% set loop_messages = messages[1:] %}
{% else %}
{% set system_message = '' %}
{% set loop_messages = messages %}
{% endif %}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, user and assistant must alternate') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (system_message if loop.first else '') + message['content'].strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}""",
    "llama-3": """{%- for message in messages %}
    {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}
    {%- if loop.index0 == 0 %}
        {%- set content = bos_token ~ content %}
    {%- endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace(last=loop_messages | length - 1) %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.index0 == ns.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message") }}
    {%- endif %}
{%- endfor %}
""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
    {%- if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
    {{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}
""",
    "json": """{%- for message in messages if message.role != 'system' -%}
{{ loop.index }}/{{ loop.length }} {{ message | tojson }}{% if not loop.last %};{% continue %}{% endif %}
{{- message.content.split(' ')[-1].title().rstrip('.!') }}{% for key, value in message.items() %} {{ key|upper }}={{ value|length }}{% endfor %}
{%- endfor %}
""",
}

CHATS = [
    [{"role": "user", "content": "Hello there"}],
    [{"role": "system", "content": "  Be brief. "}, {"role": "user", "content": " How are you?\n"}],
    [
        {"role": "user", "content": "the cat"},
        {"role": "assistant", "content": " sat on the mat. "},
        {"role": "user", "content": "“Why”? <b>é😀</b>"},
    ],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b!"}],
]


def chats(fast):
    cases = []
    for name, template in TEMPLATES.items():
        answers = []
        for messages in CHATS:
            try:
                answers.append(fast.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True))
            except Exception as error:  # what raise_exception raises
                answers.append({"error": str(error)})
        cases.append({"name": name, "template": template, "answers": answers})
    return {"chats": CHATS, "templates": cases}


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator) * (0.35 if parameter.ndim > 1 else 0.1)
            offset = 1.0 if parameter.ndim == 1 and parameter.abs().sum() > 0 else 0.0
            parameter.copy_((noise + offset).to(torch.bfloat16).float())
    return model.eval()


def save(folder, model, tokenizer, settings, generation):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
    model.float()
    for name in os.listdir(folder):
        if name not in ("config.json", "model.safetensors"):
            os.remove(f"{folder}/{name}")
    with open(f"{folder}/generation_config.json", "w") as file:
        json.dump(generation, file)
    with open(f"{folder}/tokenizer_config.json", "w") as file:
        json.dump(settings, file, indent=1)
    if folder == "gpt2":
        tokenizer.model.save(folder)
    else:
        with open(f"{folder}/tokenizer.json", "w") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False)


PROMPTS = ["the cat sat", "a man is", "Hello", "In 2024 there", "def f(x):\n", "café 😀", "the dog sat on the rug and the"]
OPTIONS = [
    {"max_new_tokens": 12},
    {"max_new_tokens": 12, "repetition_penalty": 1.4},
    {"max_new_tokens": 12, "no_repeat_ngram_size": 2},
    {"max_new_tokens": 10, "num_beams": 3, "num_return_sequences": 2},
    {"max_new_tokens": 10, "num_beams": 3, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"max_new_tokens": 12, "min_new_tokens": 6},
    {"max_new_tokens": 20, "eos_token_id": [5, 270, 280, 290, 300]},
]


def generations(model, tokenizer, start):
    cases = []
    for options in OPTIONS:
        answers = []
        for prompt in PROMPTS:
            ids = torch.tensor([start + plain(tokenizer, prompt)])
            with torch.no_grad():
                found = model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **options
                )
            rows = []
            for row in found[:, ids.shape[1] :].tolist():
                ends = options.get("eos_token_id", [model.config.eos_token_id])
                ends = [at for at, token in enumerate(row) if token in ends]
                rows.append(row[: ends[0] + 1] if ends else row)
            answers.append(rows)
        cases.append({"options": options, "ids": answers})
    return cases


def perplexities(model, tokenizer, start):
    """The sliding window of the documentation, with the sum of the losses of the tokens that count."""
    text = "\n".join(TRAINING[:6])
    ids = torch.tensor([start + plain(tokenizer, text)])
    found = []
    for context, stride in [(48, 24), (48, 48), (32, 7), (16, 1)]:
        nats, count, before = 0.0, 0, 0
        length = ids.shape[1]
        for begin in range(0, length, stride):
            end = min(begin + context, length)
            with torch.no_grad():
                logits = model(ids[:, begin:end]).logits[0].double()
            losses = torch.nn.functional.cross_entropy(logits[:-1], ids[0, begin + 1 : end], reduction="none")
            own = losses[max(before - begin - 1, 0) :]
            nats, count, before = nats + own.sum().item(), count + len(own), end
            if end == length:
                break
        found.append({"context": context, "stride": stride, "nats": nats, "predicted": count, "tokens": length - len(start)})
    return {"text": text, "windows": found}


def main():
    gpt2, llama = gpt2_tokenizer(), llama_tokenizer()
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 64}
    config = GPT2Config(vocab_size=gpt2.get_vocab_size(), bos_token_id=0, eos_token_id=0, **sizes)
    small = randomize(GPT2LMHeadModel(config), 1)
    save("gpt2", small, gpt2, {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, {"bos_token_id": 0, "eos_token_id": 0})
    config = LlamaConfig(
        vocab_size=llama.get_vocab_size(), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=96, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True,
    )
    other = randomize(LlamaForCausalLM(config), 2)
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": TEMPLATES["llama-2"]}
    save("llama", other, llama, settings, {"bos_token_id": 1, "eos_token_id": 2, "do_sample": True, "temperature": 0.7, "top_p": 0.9})
    fast = PreTrainedTokenizerFast(tokenizer_object=llama, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    ids = []
    for messages in CHATS[:3]:
        text = fast.apply_chat_template(messages, chat_template=TEMPLATES["llama-2"], tokenize=False, add_generation_prompt=True)
        ids.append(llama.encode(text, add_special_tokens=False).ids)
    answers = {
        "gpt2": {
            **tokenizations(gpt2, 3), "generate": generations(small, gpt2, []), "perplexity": perplexities(small, gpt2, []),
        },
        "llama": {
            **tokenizations(llama, 4), "generate": generations(other, llama, [1]), "perplexity": perplexities(other, llama, [1]),
            "chat_ids": ids,
        },
        "prompts": PROMPTS,
        "chat": chats(fast),
    }
    with open("answers.json.gz", "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write(json.dumps(answers, ensure_ascii=False).encode())


main()
