"""Load for a translation server with LibreTranslate's API: closed-loop clients, one sentence a request.

    python bench/serve/load.py URL TEXT [--expected FILE] [--clients 1,8,64] [--seconds 20] [--watch PID]

TEXT has a sentence a line; clients take the lines in turn, each its next one as soon as it has its answer. With
`--expected`, a line for each line of TEXT, every answer is compared with what `polyhead translate` wrote. With `--watch`
the resident memory of a process is noted every second. Overload is what a server may say (429, 503): such requests are
counted, waited for as `Retry-After` says up to a second, and sent again with another line. Prints a line of JSON for each
number of clients. Only Python's own library.
"""
import argparse
import asyncio
import collections
import json
import pathlib
import statistics
import time
import urllib.parse



async def ask(streams, address, body):
    """One request on a kept connection: status, headers and body of its answer."""
    reader, writer = streams
    head = (f"POST {address.path.rstrip('/')}/translate HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
    writer.write(head.encode() + body)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        answer = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            answer += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    else:
        answer = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(lines[0].split(" ")[1]), headers, answer


class Load:
    """Clients that share one list of sentences, and what they saw."""

    def __init__(self, options, lines, expected):
        self.options, self.lines, self.expected = options, lines, expected
        self.address = urllib.parse.urlsplit(options.url)
        self.next = 0
        self.start_over()

    def start_over(self):
        self.times, self.statuses, self.lost, self.wrong = [], collections.Counter(), 0, []
        self.characters, self.first = 0, self.next

    async def client(self, until):
        streams = None
        while time.monotonic() < until:
            index = self.next % len(self.lines)
            self.next += 1
            try:
                if streams is None:
                    streams = await asyncio.open_connection(self.address.hostname, self.address.port or 80)
                streams = await self.exchange(streams, index)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                self.lost += 1
                if self.lost <= 3:
                    print(f"lost: {error!r}", flush=True)
                streams = None
                await asyncio.sleep(0.1)
        if streams:
            streams[1].close()

    async def exchange(self, streams, index):
        fields = {"q": self.lines[index], "source": self.options.source, "target": self.options.target}
        begun = time.perf_counter()
        status, headers, answer = await ask(streams, self.address, json.dumps(fields).encode())
        taken = time.perf_counter() - begun
        self.statuses[status] += 1
        if status == 200:
            self.times.append(taken)
            self.characters += len(self.lines[index])
            text = json.loads(answer)["translatedText"]
            if self.expected and text != self.expected[index]:
                self.wrong.append((index, text))
        elif status in (429, 503):
            await asyncio.sleep(min(float(headers.get("retry-after", 1)), 1.0))
        if headers.get("connection", "").lower() == "close":
            streams[1].close()
            return None
        return streams

    async def run(self, clients):
        self.start_over()
        begun = time.monotonic()
        memory = asyncio.create_task(self.watch()) if self.options.watch else None
        until = begun + self.options.seconds
        await asyncio.gather(*(self.client(until) for _ in range(clients)))
        seconds = time.monotonic() - begun
        resident = []
        if memory:
            memory.cancel()
            resident = await asyncio.gather(memory, return_exceptions=True)
            resident = self.resident
        return self.report(clients, seconds, resident)

    async def watch(self):
        self.resident = []
        status = pathlib.Path(f"/proc/{self.options.watch}/status")
        while True:
            found = [line for line in status.read_text().splitlines() if line.startswith("VmRSS")]
            self.resident.append(int(found[0].split()[1]) * 1024)
            await asyncio.sleep(1)

    def report(self, clients, seconds, resident):
        times = sorted(self.times) or [float("nan")]
        share = lambda part: round(1000 * times[min(int(part * len(times)), len(times) - 1)], 1)
        line = {"clients": clients, "seconds": round(seconds, 1), "answered": len(self.times),
                "requests_per_s": round(len(self.times) / seconds, 2),
                "characters_per_s": round(self.characters / seconds),
                "p50_ms": share(0.5), "p95_ms": share(0.95), "p99_ms": share(0.99),
                "mean_ms": round(1000 * statistics.fmean(times), 1),
                "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
                "lost": self.lost, "lines_repeated": self.next - self.first > len(self.lines)}
        if self.expected:
            line["wrong"] = len(self.wrong)
            line["wrong_examples"] = [
                {"line": index + 1, "found": text, "expected": self.expected[index]} for index, text in self.wrong[:3]]
        if resident:
            tenth = max(len(resident) // 10, 1)
            line["rss_mb"] = {"first": round(resident[0] / 1e6, 1), "peak": round(max(resident) / 1e6, 1),
                              "tenths": [round(max(resident[i:i + tenth]) / 1e6, 1) for i in range(0, len(resident), tenth)]}
        return line


async def main(options):
    lines = pathlib.Path(options.text).read_text().splitlines()
    expected = pathlib.Path(options.expected).read_text().splitlines() if options.expected else None
    if expected and len(expected) != len(lines):
        raise SystemExit(f"{options.expected}: {len(expected)} lines, expected {len(lines)}")
    load = Load(options, lines, expected)
    if options.warm:
        seconds, options.seconds = options.seconds, options.warm
        await load.run(2)
        options.seconds = seconds
    for clients in options.clients:
        print(json.dumps({"name": options.name, **await load.run(clients)}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="where the server is, as http://127.0.0.1:5000")
    parser.add_argument("text", help="a file with a sentence a line")
    parser.add_argument("--expected", help="the file that polyhead translate made of it")
    parser.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=float, default=2, help="seconds before the first count")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="tr")
    parser.add_argument("--watch", type=int, metavar="PID", help="a process whose memory is noted every second")
    parser.add_argument("--name", default="polyhead", help="what the server is called in the output")
    asyncio.run(main(parser.parse_args()))
