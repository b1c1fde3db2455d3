#!/usr/bin/env python3
"""bench/serve/load.py URL [CLIENTS] [IN] [OUT] [IDLE] [SALT]: streaming chat clients against a server of the OpenAI API on this machine.

Each client sends two prompts of about IN tokens one after the other, greedy, OUT tokens each, while IDLE connections stay open and
silent. Prompts differ from the first word on; another SALT gives prompts that no prefix cache has seen. Prints one JSON object: output tokens a second over all clients, and percentiles of the first token and of the gaps, in ms.
"""
import asyncio
import json
import sys
import time
from urllib.parse import urlparse

WORDS = "river stone apple market window garden winter paper engine travel number island morning letter bridge color".split()


async def ask(host, port, prompt, most):
    body = json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": most, "temperature": 0, "stream": True,
                       "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    times, tokens = [], 0
    while line := await reader.readline():
        at = time.perf_counter()
        if b'"completion_tokens":' in line:
            tokens = int(line.split(b'"completion_tokens":')[1].split(b",")[0].split(b"}")[0])
        if b'"content":"' in line and b'"content":""' not in line:
            times.append(at)
        if b"data: [DONE]" in line:
            break
    writer.close()
    if not times:
        raise SystemExit("load: a request got no text")
    return times[0] - begin, [b - a for a, b in zip(times, times[1:])], tokens


def percentile(values, share):
    values = sorted(values)
    return round(1000 * values[min(len(values) - 1, int(len(values) * share))], 1) if values else None


async def main():
    url = urlparse(sys.argv[1])
    clients, length, most, idle = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((2, 16), (3, 128), (4, 64), (5, 0)))
    salt = sys.argv[6] if len(sys.argv) > 6 else "0"
    host, port = url.hostname, url.port

    async def client(number):
        out = []
        for turn in range(2):
            words = [WORDS[(number * 7 + turn * 3 + k * (number + 1)) % len(WORDS)] for k in range(max(1, length - 32))]
            out.append(await ask(host, port, f"{salt} {number} {turn} " + " ".join(words), most))
        return out

    silent = [await asyncio.open_connection(host, port) for _ in range(idle)]
    await ask(host, port, "warm up", 4)
    begin = time.perf_counter()
    done = [r for rows in await asyncio.gather(*(client(i) for i in range(clients))) for r in rows]
    seconds = time.perf_counter() - begin
    for _, writer in silent:
        writer.close()
    gaps = [g for _, g, _ in done for g in g]
    print(json.dumps({"clients": clients, "idle": idle, "output_tok_s": round(sum(t for _, _, t in done) / seconds, 1),
                      "ttft_ms_p50": percentile([t for t, _, _ in done], .5), "ttft_ms_p99": percentile([t for t, _, _ in done], .99),
                      "gap_ms_p50": percentile(gaps, .5), "gap_ms_p99": percentile(gaps, .99)}))


asyncio.run(main())
