#!/usr/bin/env python3
"""The documents: the page of error lines is what the sources say, and links between pages lead somewhere."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = os.path.join(ROOT, "tools", "troubleshooting")
passed, failed = 0, 0


def check(name, condition, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"{name}: {detail}")


def troubleshooting():
    done = subprocess.run([TOOL, "--check"], capture_output=True, text=True)
    check("the page of error lines is up to date", done.returncode == 0, done.stderr)
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src", "base"))
        os.makedirs(os.path.join(root, "docs"))
        with open(os.path.join(root, "src", "base", "a.cc"), "w", encoding="utf-8") as file:
            file.write('Status f(int n) { return invalid_argument("n is " + std::to_string(n) + ", must be \\"even\\""); }\n'
                       'Status g() { return Status(Code::kNotFound, path + ": gone"); }\n// not_found("a comment")\n')
        env = dict(os.environ, BORA_ROOT=root)
        subprocess.run([TOOL], env=env, check=True)
        with open(os.path.join(root, "docs", "troubleshooting.md"), encoding="utf-8") as file:
            page = file.read()
        lines = [line for line in page.splitlines() if line.startswith("- ")]
        check("lines are found and run-time parts marked", lines == ['- n is …, must be "even"', "- …: gone"], lines)
        with open(os.path.join(root, "src", "base", "a.cc"), "a", encoding="utf-8") as file:
            file.write('Status h() { return data_loss("torn"); }\n')
        check("a new line is noticed", subprocess.run([TOOL, "--check"], env=env, capture_output=True).returncode == 1)


def links():
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    check("there are pages", len(pages) > 10, pages)
    for page in pages:
        path = os.path.join(ROOT, page)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read()):
                check(f"{page} -> {target}", os.path.exists(os.path.join(os.path.dirname(path), target)), "leads nowhere")


if shutil.which("git") is None:
    print("skipped docs_test: git is not on this machine")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
troubleshooting()
links()
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
