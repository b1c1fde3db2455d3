"""Random templates through Jinja2, as lines for the differential test.

Run by hand: python differential.py COUNT SEED > cases.jsonl (needs jinja2 3.1.6), then run the tests with
BORA_TEMPLATE_CASES=cases.jsonl. Expressions are built from a grammar over all filters, tests, methods and operators; a case
is {"template", "text"} or {"template", "error": true}.
"""
import copy
import datetime
import json
import random
import sys
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "i": 7, "j": -3, "z": 0, "f": 2.5, "g": -0.125, "big": 2**40, "t": True, "n": None, "e": "",
    "s": "Hello World", "u": "héllo “q” <b>&\"'\n\ttab ßÉ ΣΑΣ", "p": "  x-y_z ", "m": "a,b,,c", "k": "key: value\nline two\r\nthree",
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "o": [], "mix": [1, "a", None, True, 2.5],
    "d": {"b": 1, "a": [1, {"k": "v"}], "C": None, "items": "shadow"}, "dd": {"x": {"y": [10, 20, {"z": "deep"}]}},
    "ms": [{"role": "user", "n": 2, "c": "x"}, {"role": "tool", "n": 1}, {"role": "user", "n": 3, "c": None}],
}
NAMES = list(CONTEXT) + ["q"]
STRINGS = ["", "a", "o", "l", " ", ",", "Hello", "%s", "%d|%5.1f", "{}", "{0}-{k}", "xx", "é", "\\n", "-", "b\"c", "key", "role", "n", "x.y"]
FILTERS = ["abs", "capitalize", "center(12)", "count", "default('D')", "default('D', true)", "dictsort", "dictsort(true)", "dictsort(by='value')",
           "e", "filesizeformat", "first", "float", "forceescape", "groupby('role')", "indent", "indent(2, true, true)", "int", "int(5)", "items", "join",
           "join(', ')", "last", "length", "list", "lower", "map('upper')", "map(attribute='role')", "map('length')", "max", "min", "pprint",
           "reject('odd')", "rejectattr('c')", "replace('l', 'L')", "replace('o', '0', 1)", "reverse", "round", "round(1)", "round(2, 'floor')", "safe",
           "select", "select('string')", "selectattr('n', 'gt', 1)", "selectattr('role', 'equalto', 'user')", "slice(2)", "batch(2, 'f')", "sort",
           "sort(reverse=true)", "sort(attribute='n')", "string", "striptags", "sum", "sum(attribute='n')", "title", "tojson", "tojson(indent=2)",
           "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "trim", "trim('H d')", "truncate(8)", "truncate(5, true, '')",
           "unique", "upper", "urlencode", "wordcount", "wordwrap(5)", "xmlattr", "attr('upper')", "format(1, 2)", "nosuch"]
TESTS = ["boolean", "callable", "defined", "divisibleby(3)", "eq(3)", "even", "false", "float", "ge 2", "gt 1", "in [1, 3, 'a']", "integer", "iterable",
         "lower", "lt 3", "mapping", "ne 1", "none", "number", "odd", "sameas none", "sequence", "string", "true", "undefined", "upper", "escaped", "filter", "test"]
METHODS = ["upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()", "lstrip()", "rstrip('d\\n')", "split()", "split('l')", "split(',', 1)", "split(None, 1)",
           "rsplit(None, 1)", "rsplit('l', 1)", "splitlines()", "splitlines(true)", "startswith('H')", "endswith(('d', 'x'))", "find('o')", "rfind('o')", "index('e')", "count('l')",
           "replace('', '-')", "replace('o', 'O', 1)", "join(w)", "partition(' ')", "rpartition('o')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()",
           "istitle()", "zfill(14)", "ljust(13, '*')", "rjust(13)", "center(14, '-')", "removeprefix('He')", "removesuffix('ld')", "expandtabs(4)", "isidentifier()", "isascii()",
           "get('b')", "get('zz', 5)", "keys()", "values()", "items()", "items() | list", "keys() | list", "index(1)", "count(1)", "copy()", "append(1)", "update(a=1)", "pop()",
           "format(1, k=2)", "casefold()", "isprintable()", "isnumeric()", "isdecimal()"]
OPS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Maker:
    def __init__(self, rng):
        self.r = rng

    def atom(self):
        r = self.r
        k = r.randrange(10)
        if k < 5:
            return r.choice(NAMES)
        if k == 5:
            return str(r.choice([0, 1, 2, 3, 10, -1, 1.5, 0.1, 1e20, 123456789012345678901]))
        if k == 6:
            return repr(r.choice(STRINGS)).replace("\\\\n", "\\n")
        if k == 7:
            return "[" + ", ".join(self.atom() for _ in range(r.randrange(3))) + "]"
        if k == 8:
            return "{" + ", ".join(f"'k{x}': {self.atom()}" for x in range(r.randrange(3))) + "}"
        return r.choice(["(1, 'a')", "range(4)", "range(5, 0, -2)", "true", "none", "()", "dict(a=1)", "namespace(a=1).a"])

    def expr(self, depth):
        r = self.r
        if depth == 0:
            return self.atom()
        k = r.randrange(13)
        x = self.expr(depth - 1)
        if k < 4:
            return f"{x if r.random() < .7 else '(' + x + ')'} | {r.choice(FILTERS)}"
        if k < 6:
            return f"({x}).{r.choice(METHODS)}"
        if k == 6:
            op = r.choice(OPS)
            return f"({x} {op} {r.choice('0123') if op == '**' else self.expr(depth - 1)})"
        if k == 7:
            return f"({x} is {r.choice(['', 'not '])}{r.choice(TESTS)})"
        if k == 8:
            return f"({x})[{r.choice(['0', '-1', '1:', ':-1', '::-1', '1:3', '::2', repr('a'), repr('b'), '5', 'i', 'n', '-3:-1', '3:0:-1'])}]"
        if k == 9:
            return f"({x}).{r.choice(['a', 'b', 'x', 'role', 'items', 'y', '0', 'nope'])}"
        if k == 10:
            return f"({x} if {self.expr(depth - 1)} else {self.atom()})"
        if k == 11:
            return f"(not {x})"
        return f"(-{self.atom()})"

    def template(self):
        r = self.r
        k = r.randrange(12)
        e = self.expr(r.randrange(1, 4))
        if k < 7:
            return "{{ " + e + " }}"
        if k == 7:
            return "{% for a in " + e + " %}[{{ loop.index }}{{ loop.last }}{{ a }}]{% else %}E{% endfor %}"
        if k == 8:
            return "{% if " + e + " %}yes{% elif " + self.expr(1) + " %}maybe{% else %}no{% endif %}"
        if k == 9:
            return "{% set v = " + e + " %}{{ v }}|{{ v | length }}"
        if k == 10:
            return "{% set v %}{{ " + e + " }}{% endset %}{{ v | upper }}"
        return "{% macro f(a, b=" + self.atom() + ") %}{{ a }}/{{ b }}{% endmacro %}{{ f(" + e + ") }}"


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["strftime_now"] = lambda form: datetime.datetime(2026, 3, 9, 14, 5, 7).strftime(form)
    return env


def main():
    warnings.simplefilter("ignore")
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    make, env = Maker(random.Random(seed)), environment()
    print(json.dumps({"context": CONTEXT}))
    for _ in range(count):
        case = {"template": make.template()}
        try:
            case["text"] = env.from_string(case["template"]).render(**copy.deepcopy(CONTEXT))  # `|indent` extends a list in place
        except Exception as e:  # the fact counts; the wording helps
            case["error"] = f"{type(e).__name__}: {e}"[:200]
        if " at 0x" not in case.get("text", "").lower():  # an address is no result
            print(json.dumps(case))


main()
