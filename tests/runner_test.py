#!/usr/bin/env python3
"""The test runner counts what a gtest report says, names skips, and fails what hangs, crashes or has no budget."""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import stat
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
loader = importlib.machinery.SourceFileLoader("run_tests", os.path.join(ROOT, "scripts", "run_tests"))
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(runner)

REPORT = """<testsuites><testsuite name="S">
<testcase name="good" classname="S" status="run" result="completed"/>
<testcase name="off" classname="S" status="notrun" result="suppressed"/>
<testcase name="gone" classname="S" status="run" result="skipped"><skipped message="a.cc:3&#10;fixture x is absent"/></testcase>
%s</testsuite></testsuites>"""
BAD = '<testcase name="bad" classname="S" status="run" result="completed"><failure message="no"/></testcase>'
WRITE = 'for a in "$@"; do case $a in --gtest_output=xml:*) cat >"${a#*xml:}" <<X\n%s\nX\n;; esac; done\n'


def outcome(folder, name, script, budget="5", require=False):
    program = os.path.join(folder, name)
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + script)
    os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
    os.makedirs(os.path.join(folder, "tests", "budget"), exist_ok=True)
    if budget:
        with open(os.path.join(folder, "tests", "budget", name + ".txt"), "w", encoding="utf-8") as file:
            file.write(budget)
    options = argparse.Namespace(build=os.path.join(folder, "release"), require_fixtures=require)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        o = runner.run_group(runner.Group({"name": name, "command": [program]}), options, folder)
    return (o.passed, o.failed, len(o.skips)), text.getvalue()


def main():
    runner.GRACE_SECONDS = 0.5
    good = WRITE % (REPORT % "")
    cases = [
        ("a_test", good, {}, (1, 0, 2), "skipped S.gone: fixture x is absent"),
        ("b_test", good, {"require": True}, (1, 1, 1), "its fixture is required"),
        ("c_test", WRITE % (REPORT % BAD) + "exit 1", {}, (1, 1, 2), ""),
        ("d_test", "kill -SEGV $$", {}, (0, 1, 0), "SIGSEGV"),
        ("e_test", good + "exit 3", {}, (1, 1, 2), "status 3"),
        ("f_test", good, {"budget": ""}, (0, 1, 0), "tests/budget/f_test.txt"),
        ("g_test", "sleep 60", {"budget": "0.1"}, (0, 2, 0), "did not end"),
        ("h", "echo 3 passed, 0 failed, 1 skipped", {}, (3, 0, 1), ""),
        ("i", "exit 1", {}, (0, 1, 0), "status 1"),
    ]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        runner.ROOT = folder
        for name, script, extra, expected, text in cases:
            got, printed = outcome(folder, name, script, **extra)
            if got != expected or text not in printed:
                failed += 1
                print(f"{name}: {got}, expected {expected} and {text!r} in:\n{printed}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
