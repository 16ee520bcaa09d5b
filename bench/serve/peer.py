"""CTranslate2 behind a minimal HTTP server, with the same model: the peer of `polyhead serve`.

    python bench/serve/peer.py convert POLYHEAD_FOLDER OUT [--quantization int8]
    python bench/serve/peer.py compare OUT TEXT EXPECTED [--beam 5]
    python bench/serve/peer.py serve OUT [--port 5001] [--batching none|queue] [--threads 2] [--beam 5]

`convert` reads a folder in polyhead's own layout (f32 or bf16, sinusoidal positions, one table of embeddings). `compare`
translates lines and counts those that are as polyhead wrote them. `serve` answers POST /translate with `q`, `source` and
`target`; without batching each request goes to CTranslate2 by itself, on as many workers as threads; with a queue, what
has come within a few milliseconds goes together. Needs ctranslate2, tokenizers, safetensors, torch.
"""
import argparse
import http.server
import json
import math
import pathlib
import queue
import threading

LONG = {"en": "eng", "de": "deu", "fr": "fra", "tr": "tur"}


def convert(folder, out, quantization):
    """Writes CTranslate2's form of a folder, and its tokeniser and settings beside it."""
    import ctranslate2
    import numpy
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder, out = pathlib.Path(folder), pathlib.Path(out)
    config = json.loads((folder / "config.json").read_text())
    weights = {name: own.to(torch.float32).numpy() for name, own in load_file(folder / "model.safetensors").items()}
    wanted = {"layout": "polyhead", "tie": "all", "activation": "relu", "cross_projection": "per_layer"}
    for key, value in wanted.items():
        if config[key] != value:
            raise SystemExit(f"{key} = {config[key]!r}, expected {value!r}")
    if config["position"] != {"kind": "sinusoidal", "layout": "concatenated"}:
        raise SystemExit(f"position = {config['position']}, expected sines, then cosines")
    encoder, decoder, width = config["encoder"], config["decoder"], config["d_model"]
    if encoder["n_heads"] != decoder["n_heads"]:
        raise SystemExit("encoder and decoder with unlike numbers of heads cannot be converted")
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (encoder["n_layers"], decoder["n_layers"]), encoder["n_heads"], pre_norm=config["norm_order"] == "pre",
        activation=ctranslate2.specs.Activation.RELU)

    def linear(place, name):
        place.weight, place.bias = weights[name + ".weight"], weights[name + ".bias"]

    def norm(place, name):
        place.gamma, place.beta = weights[name + ".gamma"], weights[name + ".beta"]

    def feed_forward(place, name):
        norm(place.layer_norm, name + "_norm")
        linear(place.linear_0, name + ".inner")
        linear(place.linear_1, name + ".outer")

    def self_attention(place, name):
        norm(place.layer_norm, name + "_norm")
        linear(place.linear[0], name + ".query_key_value")
        linear(place.linear[1], name + ".output")

    def positions():
        speeds = numpy.exp(-math.log(10000) * numpy.arange(width // 2) / (width / 2))
        angles = numpy.arange(config["max_len"] + 1)[:, None] * speeds[None, :]
        return numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=1).astype(numpy.float32)

    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        table = stack.embeddings[0] if name == "encoder" else stack.embeddings
        table.weight = weights["embedding.weight"]
        stack.scale_embeddings = config["scale_embedding"]
        stack.position_encodings.encodings = positions()
        if config["final_norm"]:
            norm(stack.layer_norm, name + ".norm")
        for index, layer in enumerate(stack.layer):
            own = f"{name}.layers.{index}"
            self_attention(layer.self_attention, own + ".self_attention")
            feed_forward(layer.ffn, own + ".feed_forward")
            if name == "decoder":
                norm(layer.attention.layer_norm, own + ".cross_attention_norm")
                linear(layer.attention.linear[0], own + ".cross_attention.query")
                linear(layer.attention.linear[1], own + ".cross_attention.key_value")
                linear(layer.attention.linear[2], own + ".cross_attention.output")
    # The padding token is never written.
    bias = numpy.zeros(config["target_vocab_size"], numpy.float32)
    bias[config["pad_id"]] = -1e9
    spec.decoder.projection.weight, spec.decoder.projection.bias = weights["embedding.weight"], bias
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = [tokenizer.id_to_token(index) or f"<empty-{index}>" for index in range(config["target_vocab_size"])]
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token, spec.config.bos_token = pieces[tokenizer.token_to_id("<unk>")], pieces[config["start_id"]]
    spec.config.eos_token, spec.config.decoder_start_token = pieces[config["end_id"]], pieces[config["start_id"]]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))
    (out / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())


class Peer:
    """A converted model as a translator of sentences."""

    def __init__(self, folder, threads, beam, quantization="default"):
        import ctranslate2
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = False
        self.model = ctranslate2.Translator(
            str(folder), device="cpu", inter_threads=threads, intra_threads=1, compute_type=quantization)
        self.beam = beam

    def pieces(self, text, target):
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        return [f">>{LONG[target]}<<", *encoded.tokens]

    def translate(self, sentences):
        """Pairs of a text and a target language."""
        found = self.model.translate_batch(
            [self.pieces(text, target) for text, target in sentences], beam_size=self.beam, length_penalty=1.0,
            max_decoding_length=256, max_batch_size=1024, batch_type="tokens")
        ids = ([self.tokenizer.token_to_id(piece) for piece in own.hypotheses[0]] for own in found)
        return [self.tokenizer.decode(own, skip_special_tokens=True) for own in ids]


class Joined:
    """Requests that wait together for one call of the model."""

    def __init__(self, peer, workers, most=64, window=0.002):
        self.peer, self.most, self.window, self.waiting = peer, most, window, queue.Queue()
        for _ in range(workers):
            threading.Thread(target=self.work, daemon=True).start()

    def translate(self, sentences):
        [own] = sentences
        done = threading.Event()
        answer = []
        self.waiting.put((own, answer, done))
        done.wait()
        return answer

    def work(self):
        while True:
            batch = [self.waiting.get()]
            try:
                while len(batch) < self.most:
                    batch.append(self.waiting.get(timeout=self.window))
            except queue.Empty:
                pass
            for (_, answer, done), text in zip(batch, self.peer.translate([own for own, _, _ in batch])):
                answer.append(text)
                done.set()


def serve(translator, port):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            [text] = translator.translate([(asked["q"], asked["target"])])
            body = json.dumps({"translatedText": text}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256

    print(f"http://127.0.0.1:{port}/", flush=True)
    Server(("127.0.0.1", port), Handler).serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    own = commands.add_parser("convert")
    own.add_argument("folder")
    own.add_argument("out")
    own.add_argument("--quantization", default="int8")
    for name in ("compare", "serve"):
        own = commands.add_parser(name)
        own.add_argument("out")
        own.add_argument("--beam", type=int, default=5)
        own.add_argument("--threads", type=int, default=2)
        if name == "compare":
            own.add_argument("text")
            own.add_argument("expected")
            own.add_argument("--target", default="tr")
        else:
            own.add_argument("--port", type=int, default=5001)
            own.add_argument("--batching", choices=["none", "queue"], default="none")
    options = parser.parse_args()
    if options.command == "convert":
        convert(options.folder, options.out, options.quantization)
        return
    peer = Peer(options.out, options.threads, options.beam)
    if options.command == "serve":
        serve(Joined(peer, options.threads) if options.batching == "queue" else peer, options.port)
        return
    lines = pathlib.Path(options.text).read_text().splitlines()
    expected = pathlib.Path(options.expected).read_text().splitlines()
    found = peer.translate([(line, options.target) for line in lines])
    same = sum(own == other for own, other in zip(found, expected, strict=True))
    print(json.dumps({"lines": len(lines), "equal": same, "share": round(same / len(lines), 4)}))
    unlike = [(line, own, other) for line, own, other in zip(lines, found, expected) if own != other]
    for line, own, other in unlike[:5]:
        print(json.dumps({"source": line, "ctranslate2": own, "polyhead": other}, ensure_ascii=False))


if __name__ == "__main__":
    main()
