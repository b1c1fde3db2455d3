"""Ids and speed of our tokenizers beside the reference library, over megabytes of running text.

    compare_tokenizers.py BINARY TOKENIZER_JSON... [--mb 4] [--kinds english,code,cjk,mixed] [--speed]

BINARY is build/release/text_tok_ids; needs `tokenizers` from PyPI. The corpora are files that Debian installs: licence and
documentation texts, Python's library, Chinese, Japanese and Korean manual pages. Documents have 16,000 characters (CJK 6,000).
Exit code 1 when any id differs. With --speed both sides are timed in the same run (processor time), one thread,
on text not seen before.
"""
import argparse
import glob
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import time


def read(path):
    try:
        data = gzip.open(path).read() if path.endswith('.gz') else open(path, 'rb').read()
    except OSError:
        return ''
    return data.decode('utf-8', 'replace')


def corpus(kind, limit):
    patterns = {
        'english': ['/usr/share/doc/*/copyright', '/usr/share/common-licenses/*', '/usr/share/perl/*/pod/*.pod',
                    '/usr/share/doc/**/*.txt*', '/usr/share/doc/**/README*'],
        'code': [os.path.dirname(os.__file__) + '/*.py', os.path.dirname(os.__file__) + '/*/*.py', '/usr/include/**/*.h'],
        'cjk': ['/usr/share/man/zh*/man*/*', '/usr/share/man/ja/man*/*', '/usr/share/man/ko/man*/*'],
        'mixed': ['/usr/share/man/??/man*/*', '/usr/share/i18n/locales/*', '/usr/share/zoneinfo/*.tab'],
    }[kind]
    size, seen, out = 0, set(), []
    for pattern in patterns:
        for path in sorted(glob.glob(pattern, recursive=True)):
            real = os.path.realpath(path)
            if real in seen or not os.path.isfile(real):
                continue
            seen.add(real)
            text = read(real)
            if kind == 'cjk' and sum(ord(c) >= 0x3000 for c in text) * 5 < len(text):
                continue
            out.append(text)
            size += len(text.encode())
            if size >= limit:
                return cut(''.join(out), kind)
    return cut(''.join(out), kind)


def cut(text, kind):
    step = 6000 if kind == 'cjk' else 16000
    return [text[i:i + step] for i in range(0, len(text), step)]


def ours(binary, path, documents, scratch):
    source, target = os.path.join(scratch, 'in'), os.path.join(scratch, 'out')
    with open(source, 'wb') as f:
        for d in documents:
            b = d.encode()
            f.write(struct.pack('<I', len(b)) + b)
    report = json.loads(subprocess.run([binary, path, source, target], check=True, capture_output=True).stdout)
    data, pos, ids = open(target, 'rb').read(), 0, []
    while pos < len(data):
        n, = struct.unpack_from('<I', data, pos)
        ids.append(list(struct.unpack_from('<%di' % n, data, pos + 4)))
        pos += 4 + 4 * n
    return report, ids


def main():
    p = argparse.ArgumentParser()
    p.add_argument('binary')
    p.add_argument('tokenizers', nargs='+')
    p.add_argument('--mb', type=float, default=4)
    p.add_argument('--kinds', default='english,code,cjk,mixed')
    p.add_argument('--speed', action='store_true')
    p.add_argument('--runs', type=int, default=3, help='our runs; the best counts')
    a = p.parse_args()
    os.environ['TOKENIZERS_PARALLELISM'] = 'false'
    from tokenizers import Tokenizer
    texts = {k: corpus(k, a.mb * 1e6) for k in a.kinds.split(',')}
    bad = 0
    for path in a.tokenizers:
        reference = Tokenizer.from_file(path)
        reference.no_padding()
        reference.no_truncation()
        for kind, documents in texts.items():
            with tempfile.TemporaryDirectory() as scratch:
                best = None
                for _ in range(a.runs if a.speed else 1):
                    report, ids = ours(a.binary, path, documents, scratch)
                    if best is None:
                        best = report
                    for k in ('load_s', 'encode_s', 'decode_s'):
                        best[k] = min(best[k], report[k])
            begin = time.process_time()
            want = [reference.encode(d, add_special_tokens=False).ids for d in documents]
            seconds = time.process_time() - begin
            wrong = [i for i in range(len(documents)) if ids[i] != want[i]]
            bad += len(wrong)
            mb = best['bytes'] / 1e6
            line = '%s %s: %.2f MB, %d ids, %d of %d documents differ' % (
                os.path.basename(path), kind, mb, sum(map(len, want)), len(wrong), len(documents))
            if a.speed:
                begin = time.process_time()
                for w in want:
                    reference.decode(w, skip_special_tokens=False)
                back = time.process_time() - begin
                line += ' | encode %.1f MB/s, reference %.2f (%.1fx) | decode %.0f, reference %.1f | load %.3f s | %.0f MB' % (
                    mb / best['encode_s'], mb / seconds, seconds / best['encode_s'], mb / best['decode_s'], mb / back,
                    best['load_s'], best['rss_mb'])
            print(line, flush=True)
            for i in wrong[:3]:
                k = next((j for j in range(min(len(ids[i]), len(want[i]))) if ids[i][j] != want[i][j]), -1)
                print('  document', i, 'at', k, ids[i][max(k - 2, 0):k + 4], want[i][max(k - 2, 0):k + 4],
                      repr(reference.decode(want[i][max(k - 2, 0):k + 4])))
    sys.exit(1 if bad else 0)


main()
