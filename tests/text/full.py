"""The test group text-full: everything about text that is too slow for every run.

    BORA_BUILD=BUILD_FOLDER full.py
1. The text modules' own tests over every line of the fixtures (BORA_TEST_FULL=1).
2. Ids beside the reference libraries over at least 4 MB of prose, of code and of Chinese, Japanese and Korean text, a
   vocabulary (compare_tokenizers.py). What is absent (a library, a vocabulary, a corpus) is a skip with its name.
Last line: N passed, N failed, N skipped.
"""
import glob
import importlib.util
import lzma
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from compare_tokenizers import compare  # noqa: E402
from oracles import corpus, open_oracle  # noqa: E402

BYTES = 4_000_000
KINDS = ('english', 'code', 'cjk', 'mixed')
FIXTURES = os.environ.get('BORA_FIXTURES') or os.path.join(ROOT, '..', 'shared')
MODELS = os.environ.get('BORA_MODELS') or os.path.join(ROOT, 'build', 'models')
TESTS = ('text_tokenizer_test', 'text_template_test', 'text_chat_test', 'text_grammar_test')


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, ok, line):
        self.passed += ok
        self.failed += not ok
        print(line, flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print('  skipped %s: %s' % (name, why), flush=True)


def module_tests(build, tally):
    for name in TESTS:
        binary = os.path.join(build, name)
        if not os.path.exists(binary):
            tally.skip(name, 'was not built')
            continue
        done = subprocess.run([binary, '--gtest_brief=1'], env=dict(os.environ, BORA_TEST_FULL='1'), cwd=ROOT,
                              capture_output=True, text=True, errors='replace')
        tail = done.stdout.strip().splitlines()[-40:]
        skips = [line.split() for line in tail if line.startswith('[  SKIPPED ] ') and ' tests' in line]
        if skips:
            tally.skipped += int(skips[0][3]) - 1
            tally.skip(name, '%s of its tests; run it alone for the reasons' % skips[0][3])
        tally.check(done.returncode == 0, '%s, every line: %s' % (name, tail[-1] if done.returncode == 0 else '\n'.join(tail)))


def stored(folder, name, scratch):
    """A vocabulary of the fixtures, unpacked; None when absent."""
    for path in (os.path.join(FIXTURES, folder, name + '.tokenizer.json'), os.path.join(FIXTURES, folder, name + '.tokenizer.json.xz')):
        if os.path.exists(path):
            target = os.path.join(scratch, name + '.json')
            with (lzma.open(path) if path.endswith('.xz') else open(path, 'rb')) as source, open(target, 'wb') as out:
                out.write(source.read())
            return target
    return None


def ranks_of(path, scratch):
    """The ordinary tokens of a tokenizer.json made from ranks, as the rank file it came from."""
    import base64
    import json
    root = json.load(open(path, encoding='utf-8'))
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(b): b for b in kept}
    alphabet.update({chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in kept)})
    target = os.path.join(scratch, os.path.basename(path)[:-5] + '.tiktoken')
    with open(target, 'w', encoding='utf-8') as out:
        for text, rank in sorted(root['model']['vocab'].items(), key=lambda item: item[1]):
            out.write('%s %d\n' % (base64.b64encode(bytes(alphabet[c] for c in text)).decode(), rank))
    split = root['pre_tokenizer']['pretokenizers'][0]['pattern']['Regex']
    with open(target + '.pattern', 'w', encoding='utf-8') as out:
        out.write(split)
    return target


def vocabularies(scratch, tally):
    for folder, names in (('data/tokenizers', ('qwen3', 'llama3_1', 'gptoss', 'deepseek_v3')),
                          ('fixtures/text/tokenizers', ('minilm', 'llama_spm', 't_xlmr', 't_t5', 't_unigram_bf', 't_clip'))):
        for name in names:
            path = stored(folder, name, scratch)
            if path is None:
                tally.skip(name, 'fixture %s/%s.tokenizer.json is absent' % (folder, name))
                continue
            yield path
            if name == 'llama3_1':
                yield ranks_of(path, scratch)
    for file in ('SmolLM2-135M-Instruct.Q4_1.gguf', 'gemma-3-270m-q4_k_m.gguf'):
        path = os.path.join(MODELS, file)
        if os.path.exists(path):
            yield path
        else:
            tally.skip(file, 'not in BORA_MODELS or build/models')
    package = importlib.util.find_spec('mistral_common')
    files = glob.glob(os.path.join(os.path.dirname(package.origin), 'data', '*')) if package else []
    for want in ('tekken_240911.json', 'tokenizer.model.v1'):
        path = next((f for f in files if os.path.basename(f) == want), None)
        if path is None:
            tally.skip(want, 'the Python package mistral_common is absent')
        elif want.endswith('.json'):
            yield path
        else:
            link = os.path.join(scratch, 'mistral.model')
            os.symlink(path, link)
            yield link


def comparisons(build, tally):
    binary = os.path.join(build, 'text_tok_ids')
    texts = {}
    for kind in KINDS:
        texts[kind] = corpus(kind, BYTES)
        size = sum(len(d.encode()) for d in texts[kind])
        if size < BYTES:
            tally.skip('corpus ' + kind, 'only %.2f of 4 MB are installed here' % (size / 1e6))
    with tempfile.TemporaryDirectory() as scratch:
        for path in vocabularies(scratch, tally):
            name = os.path.basename(path)
            try:
                oracle = open_oracle(path)
            except ImportError as error:
                tally.skip(name, 'the Python package %s is absent' % error.name)
                continue
            for kind, documents in texts.items():
                wrong, line = compare(binary, path, oracle, kind, documents)
                tally.check(wrong == 0, line)


def main():
    tally = Tally()
    build = os.path.abspath(os.environ['BORA_BUILD'])
    module_tests(build, tally)
    comparisons(build, tally)
    print('%d passed, %d failed, %d skipped' % (tally.passed, tally.failed, tally.skipped))
    sys.exit(1 if tally.failed else 0)


main()
