"""Jinja2 on the conversation of template_bench.cc, in the environment of transformers' apply_chat_template.

Run by hand: python peer_jinja2.py TEMPLATES_DIR (needs jinja2 3.1.6). Prints milliseconds (best of many) and bytes out;
the bytes must equal those of the benchmark.
"""
import json
import sys
import time

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

WORDS = 'The quick brown fox jumps over the lazy dog; then it rests & thinks about "tokens".\n'


def conversation():
    messages = [dict(role="system", content="You are a careful agent.")]
    for i in range(40):
        content = f"{i}: " + WORDS * 4
        messages.append(dict(role="tool" if i % 4 == 2 else "user", content=content))
        answer = dict(role="assistant", content=content)
        if i % 4 == 1:
            arguments = dict(path=f"src/file_{i}.cc", line=i, flags=["a", "b"])
            answer["tool_calls"] = [dict(id=f"c{i}", type="function", function=dict(name=f"tool_{i % 10}", arguments=arguments))]
        messages.append(answer)
    properties = dict(
        path=dict(type="string", description="Path below the root"),
        line=dict(type="integer", description="First line"),
        flags=dict(type="array", description="Flags", items=dict(type="string")),
    )
    tools = [
        dict(type="function", function=dict(name=f"tool_{i}", description="Reads a part of a file.",
                                            parameters=dict(type="object", properties=properties, required=["path"])))
        for i in range(10)
    ]
    return dict(messages=messages, tools=tools, documents=None, add_generation_prompt=True)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = lambda message: (_ for _ in ()).throw(jinja2.exceptions.TemplateError(message))
    env.globals["strftime_now"] = lambda form: "2026-01-01"
    return env


def best(call, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def main():
    folder = sys.argv[1]
    context = conversation()
    for name in ("qwen3-coder", "qwen3", "gpt-oss"):
        source = open(f"{folder}/{name}.jinja", encoding="utf-8", newline="").read()
        template = environment().from_string(source)
        text = template.render(**context)
        print(f"{name}: render {best(lambda: template.render(**context), 200):.3f} ms, {len(text.encode())} bytes;"
              f" compile {best(lambda: environment().from_string(source), 10):.2f} ms")


main()
