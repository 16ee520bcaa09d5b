"""Writes what every layer of a Marian model gives, as the Hugging Face code computes it in float32.

    python record.py MODEL_FOLDER OUT.safetensors
    python record.py MODEL_FOLDER OUT.safetensors --source "5 6 7" "8 9" --target "96 4 3" "96 7"
    python record.py MODEL_FOLDER OUT.safetensors --seed 3

Made with torch 2.15.0, transformers 5.22.2, safetensors 0.8.0. Without --source and --target the ids are drawn from the
seed: three sentences of 7, 5 and 2 ids, three targets of 6, 4 and 3 ids. A target is what enters the decoder, so it
begins with the model's start id. Shorter rows are padded at the end with the model's pad id.

Tensors: source_ids, source_lengths, target_ids, target_lengths (int64) and, in float32,

    encoder.embedding                                   what enters layer 0: batch x length x d_model
    encoder.layers.{i}.self_attention                   after the output projection, before the residual is added
    encoder.layers.{i}.self_attention.weights           batch x heads x query length x key length
    encoder.layers.{i}.feed_forward                     after the second matrix, before the residual is added
    encoder.layers.{i}                                  what the layer gives
    encoder                                             what the stack gives
    decoder...                                          the same, and decoder.layers.{i}.cross_attention(.weights)
    logits                                              with the bias

Padding of the source is hidden from every attention. The target has the causal mask alone: rows at and after a row's
length are computed from padding and mean nothing; compare the rows before it.
"""

import argparse

import torch
from safetensors.torch import save_file
from transformers import MarianMTModel

SOURCE_LENGTHS = [7, 5, 2]
TARGET_LENGTHS = [6, 4, 3]


def draw(config, seed, source_lengths=SOURCE_LENGTHS, target_lengths=TARGET_LENGTHS):
    """Random sources and targets (lists of ids) without the pad and end ids."""
    generator = torch.Generator().manual_seed(seed)
    special = {config.pad_token_id, config.eos_token_id, config.decoder_start_token_id}

    def ids(length, vocab_size):
        allowed = torch.tensor([id for id in range(vocab_size) if id not in special])
        return allowed[torch.randint(len(allowed), (length,), generator=generator)].tolist()

    sources = [ids(length, config.vocab_size) for length in source_lengths]
    start = config.decoder_start_token_id
    targets = [[start] + ids(length - 1, config.decoder_vocab_size) for length in target_lengths]
    return sources, targets


def pad(rows, pad_id):
    """Rows of different lengths as one tensor, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    return torch.tensor([row + [pad_id] * (width - len(row)) for row in rows]), lengths


def mask(lengths):
    return (torch.arange(int(lengths.max())) < lengths[:, None]).long()


class Recorder:
    """Forward hooks that keep tensors under our names."""

    def __init__(self):
        self.tensors = {}

    def keep(self, name, tensor):
        self.tensors[name] = tensor.detach().float().contiguous().clone()

    def output(self, name, module):
        module.register_forward_hook(lambda _, inputs, output: self.keep(name, output))

    def entry(self, name, module):
        """What enters a module, as its first argument."""
        module.register_forward_pre_hook(
            lambda _, inputs, named: self.keep(name, inputs[0] if inputs else named["hidden_states"]), with_kwargs=True
        )

    def attention(self, name, module):
        def hook(_, inputs, output):
            self.keep(name, output[0])
            self.keep(f"{name}.weights", output[1])

        module.register_forward_hook(hook)

    def stack(self, name, stack):
        self.entry(f"{name}.embedding", stack.layers[0])
        for i, layer in enumerate(stack.layers):
            self.attention(f"{name}.layers.{i}.self_attention", layer.self_attn)
            if name == "decoder":
                self.attention(f"{name}.layers.{i}.cross_attention", layer.encoder_attn)
            self.output(f"{name}.layers.{i}.feed_forward", layer.fc2)
            self.output(f"{name}.layers.{i}", layer)


def load(folder):
    """The model in float32 with attention that gives its weights."""
    return MarianMTModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def record(folder, sources, targets):
    """All tensors of the file, by name."""
    model = load(folder)
    source_ids, source_lengths = pad(sources, model.config.pad_token_id)
    target_ids, target_lengths = pad(targets, model.config.pad_token_id)
    recorder = Recorder()
    recorder.stack("encoder", model.model.encoder)
    recorder.stack("decoder", model.model.decoder)
    with torch.no_grad():
        output = model(
            input_ids=source_ids,
            attention_mask=mask(source_lengths),
            decoder_input_ids=target_ids,
            output_attentions=True,
            output_hidden_states=True,
            use_cache=False,
        )
    recorder.keep("encoder", output.encoder_last_hidden_state)
    recorder.keep("decoder", output.decoder_hidden_states[-1])
    recorder.keep("logits", output.logits)
    assert torch.equal(recorder.tensors["decoder.layers.0.cross_attention.weights"], output.cross_attentions[0])
    ids = {"source_ids": source_ids, "source_lengths": source_lengths}
    ids |= {"target_ids": target_ids, "target_lengths": target_lengths}
    return ids | recorder.tensors


def main():
    parser = argparse.ArgumentParser(description="record what every layer of a Marian model gives")
    parser.add_argument("model_folder")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random ids")
    parser.add_argument("--source", nargs="+", help="ids of one sentence each, with spaces between")
    parser.add_argument("--target", nargs="+", help="ids that enter the decoder, one argument per sentence")
    arguments = parser.parse_args()
    if (arguments.source is None) != (arguments.target is None):
        parser.error("--source and --target go together")
    if arguments.source and len(arguments.source) != len(arguments.target):
        parser.error(f"{len(arguments.source)} sources but {len(arguments.target)} targets")
    sources, targets = draw(load(arguments.model_folder).config, arguments.seed)
    if arguments.source:
        sources = [[int(id) for id in row.split()] for row in arguments.source]
        targets = [[int(id) for id in row.split()] for row in arguments.target]
    save_file(record(arguments.model_folder, sources, targets), arguments.out)


if __name__ == "__main__":
    main()
