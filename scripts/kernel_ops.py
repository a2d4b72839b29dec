#!/usr/bin/env python3
"""Prints docs/kernel-ops.md from codegen/kernel/kernel_ops.def. With --check: fails when the page is not current.

Usage: scripts/kernel_ops.py > docs/kernel-ops.md
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def page():
    lines = ["# Kernel ops", "", "Printed from codegen/kernel/kernel_ops.def by scripts/kernel_ops.py. `$n` is operand n; a printer that has no text",
             "here spells the row by itself; \"none\" = illegal on that family of targets.", ""]
    pending = []
    for line in (ROOT / "codegen/kernel/kernel_ops.def").read_text().splitlines()[1:]:
        section = re.match(r"/\* -- (.*)", line)
        row = re.match(r'KERNEL_OP\((\w+), (-?\d+), ([\w |]+), "(.*?)", "(.*?)"\)\s*(?:/\* ?(.*?) ?\*/)?', line)
        if section:
            title = section.group(1).split(".")[0].replace("*/", "").strip()
            lines += ["", f"## {title[0].upper()}{title[1:]}", "", "| op | operands | flags | C family | LLVM | meaning |", "|---|---|---|---|---|---|"]
            pending = []
        elif row:
            name, operands, flags, c, llvm, note = row.groups()
            spell = lambda s: "none" if s == "!" else f"`{s}`".replace("|", "\\|") if s else ""
            note = " ".join([note] if note else pending)
            lines.append(f"| {name} | {'any' if operands == '-1' else operands} | {flags.lower().replace(' | ', ' ')} | {spell(c)} | {spell(llvm)} | {note.replace('|', chr(92) + '|')} |")
            pending = []
        elif "*" in line or pending:
            text = line.strip().lstrip("/*").rstrip("*/").strip()
            if text:
                pending.append(text)
    return "\n".join(lines) + "\n"


def main():
    if "--check" in sys.argv:
        current = (ROOT / "docs/kernel-ops.md").read_text() == page()
        if not current:
            print("docs/kernel-ops.md is not current: run scripts/kernel_ops.py > docs/kernel-ops.md", file=sys.stderr)
        return 0 if current else 1
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
