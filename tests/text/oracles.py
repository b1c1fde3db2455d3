"""The reference libraries behind one interface, and the texts that they are asked about.

open_oracle(path) gives an object with encode(text) -> ids and decode(ids) -> text, without special tokens added:
    *.json       tokenizer.json: `tokenizers`
    *.gguf       the vocabulary of SmolLM2 or Gemma 3, rebuilt as a tokenizer.json of that family: `tokenizers`
    *.model      a SentencePiece model: `sentencepiece`
    *.tiktoken   ranks, with the split pattern in PATH.pattern: `tiktoken`
    tekken*.json: `tiktoken`, as mistral-common does it
A library that is not installed raises ImportError with its name.
"""
import base64
import glob
import gzip
import json
import os
import struct

CJK_STEP, STEP = 6000, 16000  # characters a document


def read_gguf(path):
    """Metadata of a GGUF file as a dict."""
    with open(path, 'rb') as f:
        data = f.read(40 << 20)
    pos = 8
    scalar = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}

    def take(code):
        nonlocal pos
        value, = struct.unpack_from('<' + code, data, pos)
        pos += struct.calcsize('<' + code)
        return value

    def value(kind):
        nonlocal pos
        if kind == 8:
            n = take('Q')
            pos += n
            return data[pos - n:pos].decode('utf-8', 'replace')
        if kind == 9:
            inner, n = take('I'), take('Q')
            if inner in scalar:
                code = '<%d%s' % (n, scalar[inner])
                pos += struct.calcsize(code)
                return list(struct.unpack_from(code, data, pos - struct.calcsize(code)))
            return [value(inner) for _ in range(n)]
        return take(scalar[kind])

    take('Q')  # tensors
    out = {}
    for _ in range(take('Q')):
        key = value(8)
        out[key] = value(take('I'))
    return out


def pairs_by_score(tokens, scores, kinds):
    """A SentencePiece BPE vocabulary as merges: every cut of a token into two, best score first."""
    index = {t: i for i, t in enumerate(tokens) if kinds[i] in (1, 4)}
    found = []
    for text, i in index.items():
        local = [(index[text[:k]], index[text[k:]], text[:k], text[k:]) for k in range(1, len(text))
                 if text[:k] in index and text[k:] in index]
        found += [(-scores[i], -len(a), -len(b), i, x, y, a, b) for x, y, a, b in sorted(local)]
    found.sort(key=lambda f: f[:6])
    return [[f[6], f[7]] for f in found]


def gguf_json(path):
    """The published pipeline of the file's family with the file's vocabulary."""
    m = read_gguf(path)
    g = lambda key: m.get('tokenizer.ggml.' + key)
    tokens, kinds = g('tokens'), g('token_type')
    added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=kinds[i] == 3)
             for i, t in enumerate(tokens) if kinds[i] in (3, 4)]
    level = dict(type='ByteLevel', add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type='BPE', dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={t: i for i, t in enumerate(tokens)})
    if g('model') == 'gpt2':
        model['merges'] = [line.split(' ') for line in g('merges')]
        parts = dict(normalizer=None, decoder=level, pre_tokenizer=dict(type='Sequence', pretokenizers=[
            dict(type='Digits', individual_digits=True), level]))
    else:
        unk = g('unknown_token_id') or 0
        for a in added:
            a['special'] = a['special'] or a['id'] == unk
        model.update(merges=pairs_by_score(tokens, g('scores'), kinds), unk_token=tokens[unk], fuse_unk=True, byte_fallback=True)
        space = dict(type='Replace', pattern={'String': ' '}, content='\u2581')
        parts = dict(normalizer=space, pre_tokenizer=dict(type='Split', pattern={'String': ' '}, behavior='MergedWithPrevious', invert=False),
                     decoder=dict(type='Sequence', decoders=[dict(space, pattern={'String': '\u2581'}, content=' '),
                                                             dict(type='ByteFallback'), dict(type='Fuse')]))
    return json.dumps(dict(version='1.0', truncation=None, padding=None, added_tokens=added, post_processor=None, model=model, **parts))


class HuggingFace:
    library = 'tokenizers'

    def __init__(self, path):
        os.environ['TOKENIZERS_PARALLELISM'] = 'false'
        from tokenizers import Tokenizer
        self.t = Tokenizer.from_str(gguf_json(path)) if path.endswith('.gguf') else Tokenizer.from_file(path)
        self.t.no_padding()
        self.t.no_truncation()

    def encode(self, text):
        return self.t.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.t.decode(ids, skip_special_tokens=False)


class SentencePiece:
    library = 'sentencepiece'

    def __init__(self, path):
        import sentencepiece
        self.t = sentencepiece.SentencePieceProcessor(model_file=path)

    def encode(self, text):
        return self.t.encode(text)

    def decode(self, ids):
        return self.t.decode(ids)


class Tiktoken:
    library = 'tiktoken'

    def __init__(self, path):
        import tiktoken
        self.shift = 0
        if path.endswith('.json'):
            root = json.load(open(path, encoding='utf-8'))
            c = root['config']
            pattern, self.shift = c['pattern'], c['default_num_special_tokens']
            limit = c['default_vocab_size'] - self.shift
            ranks = {base64.b64decode(t['token_bytes']): t['rank'] for t in root['vocab'] if t['rank'] < limit}
        else:
            pattern = open(path + '.pattern', encoding='utf-8').read().rstrip('\n')
            ranks = {base64.b64decode(a): int(b) for a, b in map(str.split, open(path))}
        self.t = tiktoken.Encoding('x', pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def encode(self, text):
        return [i + self.shift for i in self.t.encode_ordinary(text)]

    def decode(self, ids):
        return self.t.decode([i - self.shift for i in ids])


def open_oracle(path):
    name = os.path.basename(path)
    if name.startswith('tekken') or name.endswith('.tiktoken'):
        return Tiktoken(path)
    return SentencePiece(path) if name.endswith('.model') else HuggingFace(path)


# ------------------------------------------------------------------------------------------------- texts

PYTHON = os.path.dirname(os.__file__)
PATTERNS = {
    'english': ['/usr/share/doc/*/copyright', '/usr/share/common-licenses/*', '/usr/share/perl/*/pod/*.pod',
                '/usr/share/doc/**/*.txt*', '/usr/share/doc/**/README*'],
    'code': [PYTHON + '/*.py', PYTHON + '/*/*.py', '/usr/include/**/*.h'],
    # Chinese (both scripts), Japanese and Korean in turn.
    'cjk': ['/usr/share/debian-reference/*zh-cn.txt*', '/usr/share/debian-reference/*ja.txt*', '/usr/share/man/ko/man*/*',
            '/usr/share/man/zh_CN/man*/*', '/usr/share/man/ja/man*/*',
            '/usr/share/man/zh_TW/man*/*'],
    'mixed': ['/usr/share/man/??/man*/*', '/usr/share/i18n/locales/*', '/usr/share/zoneinfo/*.tab'],
}


def read(path):
    try:
        data = gzip.open(path).read() if path.endswith('.gz') else open(path, 'rb').read()
    except OSError:
        return ''
    return data.decode('utf-8', 'replace')


def corpus(kind, limit):
    """Documents of about `limit` bytes together; patterns take turns, so that each kind of file has its share."""
    seen, out, size = set(), [], 0
    queues = [iter(sorted(glob.glob(p, recursive=True))) for p in PATTERNS[kind]]
    while queues and size < limit:
        for queue in list(queues):
            path = next(queue, None)
            if path is None:
                queues.remove(queue)
                continue
            real = os.path.realpath(path)
            if real in seen or not os.path.isfile(real):
                continue
            seen.add(real)
            text = read(real)
            share = sum(ord(c) >= 0x2E80 for c in text) / max(len(text), 1)
            if (share < 0.2) if kind == 'cjk' else (kind == 'english' and share > 0.01):
                continue
            out.append(text)
            size += len(text.encode())
    step = CJK_STEP if kind == 'cjk' else STEP
    text = ''.join(out)
    return [text[i:i + step] for i in range(0, len(text), step)]
