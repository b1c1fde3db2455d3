"""Ids and speed of our tokenizers beside the reference libraries, over megabytes of running text.

    compare_tokenizers.py BINARY VOCABULARY... [--mb 4] [--kinds english,code,cjk,mixed] [--speed]

BINARY is build/release/text_tok_ids; what VOCABULARY can be and which library answers for it stands in oracles.py. The
corpora are files that Debian installs. Exit code 1 when any id differs. With --speed both sides are timed in the same run
(processor time, one thread, a fresh process of ours each time, the median of --runs), on text not seen before.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from oracles import corpus, open_oracle

FIGURES = ('load_s', 'encode_s', 'decode_s', 'rss_mb')


def ours(binary, path, documents, scratch):
    """The program's report and the ids of each document."""
    source, target = os.path.join(scratch, 'in'), os.path.join(scratch, 'out')
    with open(source, 'wb') as f:
        for d in documents:
            b = d.encode()
            f.write(struct.pack('<I', len(b)) + b)
    report = json.loads(subprocess.run([binary, path, source, target], check=True, stdout=subprocess.PIPE).stdout)
    data, pos, ids = open(target, 'rb').read(), 0, []
    while pos < len(data):
        n, = struct.unpack_from('<I', data, pos)
        ids.append(list(struct.unpack_from('<%di' % n, data, pos + 4)))
        pos += 4 + 4 * n
    return report, ids


def compare(binary, path, oracle, kind, documents, runs=0):
    """(documents that differ, a line that says so). With `runs` the line has speeds."""
    with tempfile.TemporaryDirectory() as scratch:
        reports = []
        for _ in range(max(runs, 1)):
            report, ids = ours(binary, path, documents, scratch)
            reports.append(report)
    seconds, want = [], None
    for _ in range(max(runs, 1)):
        begin = time.process_time()
        want = [oracle.encode(d) for d in documents]
        seconds.append(time.process_time() - begin)
    wrong = [i for i in range(len(documents)) if ids[i] != want[i]]
    mb = reports[0]['bytes'] / 1e6
    line = '%s %s: %.2f MB, %d ids, %d of %d documents differ from %s' % (
        os.path.basename(path), kind, mb, sum(map(len, want)), len(wrong), len(documents), oracle.library)
    if runs:
        f = {k: statistics.median(r[k] for r in reports) for k in FIGURES}
        theirs = statistics.median(seconds)
        begin = time.process_time()
        for w in want:
            oracle.decode(w)
        back = time.process_time() - begin
        line += ' | encode %.1f MB/s, reference %.2f (%.1fx) | decode %.0f, reference %.1f | load %.3f s | %.0f MB' % (
            mb / f['encode_s'], mb / theirs, theirs / f['encode_s'], mb / f['decode_s'], mb / back, f['load_s'], f['rss_mb'])
    for i in wrong[:3]:
        k = next((j for j in range(min(len(ids[i]), len(want[i]))) if ids[i][j] != want[i][j]), -1)
        line += '\n  document %d at %d: %s, not %s: %r' % (i, k, ids[i][max(k - 2, 0):k + 4], want[i][max(k - 2, 0):k + 4],
                                                          oracle.decode(want[i][max(k - 2, 0):k + 4]))
    return len(wrong), line


def main():
    p = argparse.ArgumentParser()
    p.add_argument('binary')
    p.add_argument('vocabularies', nargs='+')
    p.add_argument('--mb', type=float, default=4)
    p.add_argument('--kinds', default='english,code,cjk,mixed')
    p.add_argument('--speed', action='store_true')
    p.add_argument('--runs', type=int, default=3, help='timings of either side; the median counts')
    a = p.parse_args()
    texts = {k: corpus(k, a.mb * 1e6) for k in a.kinds.split(',')}
    bad = 0
    for path in a.vocabularies:
        oracle = open_oracle(path)
        for kind, documents in texts.items():
            wrong, line = compare(a.binary, path, oracle, kind, documents, a.runs if a.speed else 0)
            bad += wrong
            print(line, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
