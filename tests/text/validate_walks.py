"""Checks documents that random walks through masks made against the jsonschema library.

    GRAMMAR_WALKS=/tmp/walks.jsonl text_grammar_test --gtest_filter='GrammarWalk.Random*'
    python validate_walks.py FIXTURES/fixtures/text/schema.jsonl /tmp/walks.jsonl

Needs jsonschema and rfc3339-validator. Prints the invalid documents and the counts; exit 1 if any is invalid.
"""
import json
import sys

import jsonschema


def main(schema_path, walks_path):
    validators = {}
    for line in open(schema_path, encoding='utf-8'):
        case = json.loads(line)
        validators[case['id']] = jsonschema.Draft202012Validator(
            case['schema'], format_checker=jsonschema.FormatChecker())
    total = bad = 0
    schemas = set()
    for line in open(walks_path, encoding='utf-8'):
        walk = json.loads(line)
        total += 1
        schemas.add(walk['id'])
        try:
            value = json.loads(walk['text'])
            errors = list(validators[walk['id']].iter_errors(value))
        except ValueError as error:
            errors = [error]
        if errors:
            bad += 1
            print(walk['id'], repr(walk['text'])[:300], str(errors[0]).split('\n')[0][:200])
    print(f'{total} documents of {len(schemas)} schemas, {bad} invalid')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:3]))
