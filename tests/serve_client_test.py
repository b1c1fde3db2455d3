#!/usr/bin/env python3
"""The server as the official openai client and the Prometheus parser see it: over the fake front end always, and over the default
model when its file is there."""
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BORA_BUILD_DIR", os.path.join(ROOT, "build", "release"))
KEY = "sk-test-0123456789"
passed, failed, skipped = 0, 0, 0


def check(name, condition, detail=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"{name}: {str(detail)[:600]}")


def skip(name, why):
    global skipped
    skipped += 1
    print(f"skipped {name}: {why}")


class Server:
    """A server process; ended, and waited for, at the end of the block."""

    def __init__(self, *words, **more):
        self.words, self.more = words, more

    def __enter__(self):
        begin = time.monotonic()
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        line = self.process.stdout.readline()
        self.seconds = time.monotonic() - begin
        found = re.match(r"ready (http://\S+) in [\d.]+ s$", line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"no ready line but {line!r}: {self.process.stderr.read()[:500]}")
        self.url = found.group(1)
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()
        return self

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def __exit__(self, *_):
        self.end()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def client_of(server, key=KEY, **more):
    import openai
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60, **more)


HELLO = [{"role": "user", "content": "Name a color."}]


def check_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=HELLO, max_tokens=12, temperature=0)
    choice = answer.choices[0]
    check("chat", choice.message.role == "assistant" and choice.message.content, answer)
    check("chat finish", choice.finish_reason in ("stop", "length"), answer)
    usage = answer.usage
    check("usage", usage.total_tokens == usage.prompt_tokens + usage.completion_tokens and 1 <= usage.completion_tokens <= 12, usage)
    check("cached tokens are reported", usage.prompt_tokens_details.cached_tokens is not None, usage)
    chunks = list(client.chat.completions.create(model=model, messages=HELLO, max_tokens=12, temperature=0, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check("stream equals whole", text == choice.message.content, (text, choice.message.content))
    check("stream usage", chunks[-1].usage.completion_tokens == usage.completion_tokens and not chunks[-1].choices, chunks[-1])
    check("stream finish", chunks[-2].choices[0].finish_reason == choice.finish_reason, chunks[-2])
    many = client.chat.completions.create(model=model, messages=HELLO, max_tokens=8, n=3, seed=5, temperature=1)
    again = client.chat.completions.create(model=model, messages=HELLO, max_tokens=8, n=3, seed=5, temperature=1)
    texts = [c.message.content for c in many.choices]
    check("n", [c.index for c in many.choices] == [0, 1, 2] and len(set(texts)) > 1, texts)
    check("equal seeds, equal text", texts == [c.message.content for c in again.choices], texts)
    check("n counts its tokens", many.usage.completion_tokens > 8, many.usage)


def check_logprobs(client, model):
    answer = client.chat.completions.create(model=model, messages=HELLO, max_tokens=6, logprobs=True, top_logprobs=3, temperature=0)
    content = answer.choices[0].logprobs.content
    check("logprobs, one a token", len(content) == answer.usage.completion_tokens, content)
    check("logprobs", all(len(t.top_logprobs) == 3 and t.logprob <= 0 and t.bytes is not None for t in content), content)
    joined = b"".join(bytes(t.bytes) for t in content).decode("utf-8", "replace")
    check("bytes are the text", joined.startswith(answer.choices[0].message.content), (joined, answer.choices[0].message.content))
    text = client.completions.create(model=model, prompt="The sky is", max_tokens=4, logprobs=2, temperature=0, echo=True)
    lists = text.choices[0].logprobs
    check("completion with echo", text.choices[0].text.startswith("The sky is"), text)
    check("completion logprobs", len(lists.tokens) == len(lists.token_logprobs) == len(lists.text_offset) ==
          text.usage.prompt_tokens + text.usage.completion_tokens and lists.token_logprobs[0] is None, lists)


def check_errors(server, client, model):
    import openai
    cases = [
        ("wrong value", openai.BadRequestError, "temperature", dict(model=model, messages=HELLO, temperature=5)),
        ("no messages", openai.BadRequestError, "messages", dict(model=model, messages=[])),
        ("unknown model", openai.NotFoundError, "model", dict(model="none", messages=HELLO)),
        ("tools", openai.BadRequestError, "tools", dict(model=model, messages=HELLO, tools=[
            {"type": "function", "function": {"name": "f", "parameters": {}}}])),
        ("schema", openai.BadRequestError, "response_format", dict(model=model, messages=HELLO, response_format={"type": "json_object"})),
    ]
    for name, kind, param, words in cases:
        try:
            client.chat.completions.create(**words)
            check(name, False, "no error")
        except kind as error:
            check(name, error.param == param and error.type and param in error.message, error)
    try:
        client_of(server, "sk-wrong-key").models.list()
        check("wrong key", False)
    except openai.AuthenticationError as error:
        check("wrong key", error.code == "invalid_api_key", error)
    check("models", [m.id for m in client.models.list()] == [model])
    check("one model", client.models.retrieve(model).id == model)


def get(server, path):
    import urllib.request
    request = urllib.request.Request(server.url + path, headers={"Authorization": "Bearer " + KEY})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read().decode()


def samples(server):
    from prometheus_client.parser import text_string_to_metric_families
    found = {}
    for family in text_string_to_metric_families(get(server, "/metrics")):
        check("help of " + family.name, family.documentation, family)
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def idle(server):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if samples(server)["vllm:num_requests_running"] == 0:
            return True
        time.sleep(0.02)
    return False


def check_metrics(server, client, model):
    before = samples(server)
    used = client.completions.create(model=model, prompt="One two three", max_tokens=7, temperature=0).usage
    after = samples(server)
    for name, amount in (("bora_prompt_tokens_total", used.prompt_tokens), ("vllm:prompt_tokens_total", used.prompt_tokens),
                         ("bora_generation_tokens_total", used.completion_tokens), ("vllm:request_success_total", 1),
                         ("vllm:e2e_request_latency_seconds_count", 1)):
        check(name, after[name] - before.get(name, 0) == amount, (before.get(name), after[name], amount))
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        documented = set(re.findall(r"`((?:bora_|vllm:)\w+)`", file.read()))
    shown = {re.sub(r"_(count|sum|bucket)$", "", name) for name in after} - {name for name in after if not name.startswith(("bora_", "vllm:"))}
    check("metrics are documented", shown <= documented, shown - documented)
    if model == "small":  # the fake front end has no engine's metrics
        check("what is documented is there", documented <= shown, documented - shown)
    # The engine refreshes its figures a step after the last token went out.
    check("nothing runs", idle(server), samples(server)["vllm:num_requests_running"])


def check_cancel(server, client, model):
    stream = client.completions.create(model=model, prompt="Count:", max_tokens=1500, temperature=0, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    check("a closed stream ends its request", idle(server))


def answer_bits(client, model, number):
    """Text and log-probabilities of one request, seeded or greedy."""
    sampling = dict(temperature=0) if number % 2 else dict(temperature=1, top_p=0.9, seed=number)
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": f"Tell me fact number {number}."}],
                                            max_tokens=24, logprobs=True, top_logprobs=2, **sampling)
    choice = answer.choices[0]
    return choice.message.content, [(t.token, t.logprob, [(x.token, x.logprob) for x in t.top_logprobs]) for t in choice.logprobs.content]


def check_neighbours(client, model):
    """Equal to the last bit alone, again (with the prefix cached), and among sixteen clients of whom some leave."""
    alone = {i: answer_bits(client, model, i) for i in (1, 2)}
    check("again with the prefix cached", alone == {i: answer_bits(client, model, i) for i in (1, 2)})
    among, stop = {}, threading.Event()

    def other(number):
        while not stop.is_set():
            stream = client.chat.completions.create(model=model, messages=HELLO + [{"role": "user", "content": str(number)}],
                                                    max_tokens=16 + number, seed=number, stream=True)
            for count, _ in enumerate(stream):
                if (number % 3 == 0 and count > 4) or stop.is_set():
                    stream.close()
                    break

    others = [threading.Thread(target=other, args=(i,)) for i in range(16)]
    for thread in others:
        thread.start()
    for i in (1, 2):
        among[i] = answer_bits(client, model, i)
    stop.set()
    for thread in others:
        thread.join()
    check("equal text and logprobs among 16 clients", among == alone, (among, alone))


def suite(server, model):
    client = client_of(server)
    check_chat(client, model)
    check_logprobs(client, model)
    check_errors(server, client, model)
    check_metrics(server, client, model)
    check_cancel(server, client, model)
    check_neighbours(client, model)


def check_drain(server, model):
    """SIGTERM lets a running stream end, answers 503 meanwhile, and the process ends with 0."""
    stream = client_of(server).completions.create(model=model, prompt="Once", max_tokens=200, temperature=0, stream=True,
                                                  extra_body={"ignore_eos": True})
    chunks = iter(stream)
    next(chunks)
    server.process.send_signal(signal.SIGTERM)
    rest = list(chunks)
    check("a stream ends in spite of SIGTERM", rest and rest[-1].choices[0].finish_reason == "length", rest[-1:])
    check("exit", server.process.wait(timeout=60) == 0, server.process.returncode)


def has_serve():
    bora = os.path.join(BUILD, "bora")
    return os.path.exists(bora) and subprocess.run([bora, "serve", "--help"], capture_output=True).returncode == 0


def with_model(model):
    bora = os.path.join(BUILD, "bora")
    words = [bora, "serve", model, "--port", "0", "--api-key", KEY, "--model-name", "small", "--metrics-names", "vllm"]
    with Server(*words) as server:
        with open(f"/proc/{server.process.pid}/cmdline", "rb") as file:
            check("the key is hidden in the arguments", KEY.encode() not in file.read())
        suite(server, "small")
        check_drain(server, "small")
    log = "".join(server.log)
    check("no key and no text in the log", KEY not in log and "Name a color" not in log, log)
    for extra, words in ((["--host", "0.0.0.0"], "--allow-open"), (["--port", "70000"], "--port"), (["--kv-dtype", "x"], "--kv-dtype")):
        done = subprocess.run([bora, "serve", model, *extra], capture_output=True, text=True, timeout=60)
        check("refused: " + " ".join(extra), done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        done = subprocess.run([bora, "serve", model, "--port", str(busy.getsockname()[1])], capture_output=True, text=True, timeout=60)
        check("a port in use", done.returncode == 1 and "in use" in done.stderr.lower(), done.stderr)


def main():
    try:
        import openai  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        print(f"{error}: run scripts/setup test")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    with Server(os.path.join(BUILD, "bora_fake_server")) as server:
        suite(server, "test-model")
    fetched = subprocess.run([os.path.join(ROOT, "scripts", "fetch-model")], capture_output=True, text=True)
    if fetched.returncode != 0:
        skip("with_model", f"the default model's fixture is absent: {fetched.stderr.strip()[:200]}")
    elif not has_serve():
        skip("with_model", "this build has no verb serve")
    else:
        with_model(fetched.stdout.strip().splitlines()[-1])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
