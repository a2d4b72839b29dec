"""Curves of losses or accuracies over steps, from files that training writes (metrics.csv), as one small SVG.

usage: plot_curves.py [--accuracy] OUT.svg TITLE "LABEL=metrics.csv" ...
columns: loss (drawn thin, a running mean) and validation (points); with --accuracy: accuracy and validation_accuracy, from 0.7 on
"""
import csv
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 360, 56, 34, 16, 44
COLOURS = ["#1f6feb", "#d1242f", "#1a7f37", "#9a6700"]


def read(path, accuracy):
    """[(step, loss, validation or None)], or accuracies."""
    names = ("accuracy", "validation_accuracy") if accuracy else ("loss", "validation")
    rows = []
    with open(path) as f:
        for row in csv.DictReader(f):
            validation = row.get(names[1], "")
            number = float(validation) if validation not in ("", "nan", "-nan") else math.nan
            rows.append((int(row["step"]), float(row[names[0]]), None if math.isnan(number) else number))
    return rows


def smooth(points, share=0.98):
    """Running mean with the bias of its start taken out."""
    out, mean, weight = [], 0.0, 0.0
    for x, y in points:
        mean, weight = share * mean + (1 - share) * y, share * weight + (1 - share)
        out.append((x, mean / weight))
    return out


def main():
    arguments = [a for a in sys.argv[1:] if a != "--accuracy"]
    accuracy = len(arguments) < len(sys.argv) - 1
    out, title = arguments[:2]
    curves = [(label, read(path, accuracy)) for label, path in (a.split("=", 1) for a in arguments[2:])]
    values = [v for _, rows in curves for _, loss, validation in rows[len(rows) // 50:] for v in (loss, validation) if v is not None]
    low, high = math.floor(min(values) * 10) / 10, min(math.ceil(max(values) * 10) / 10, 3.4)
    unit = 0.05 if accuracy else 0.2
    if accuracy:
        low, high = 0.7, math.ceil(max(values) / unit) * unit
    last = max(rows[-1][0] for _, rows in curves)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / last
    y = lambda loss: TOP + (HEIGHT - TOP - BOTTOM) * (high - min(max(loss, low), high)) / (high - low)
    text = lambda at_x, at_y, s, anchor="middle", colour="#444": f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="{colour}">{s}</text>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', text(WIDTH / 2, 20, title, colour="#111")]
    for i in range(int((high - low) / unit + 1e-6) + 1):
        value = low + unit * i
        parts += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>', text(LEFT - 6, y(value) + 4, f"{value:.2f}" if accuracy else f"{value:.1f}", "end")]
    for i in range(6):
        parts.append(text(x(last * i / 5), HEIGHT - BOTTOM + 18, f"{last * i // 5}"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "steps"))
    for number, (label, rows) in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in smooth([(s, v) for s, v, _ in rows]))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1" opacity="0.6"/>')
        points = [(s, v) for s, _, v in rows if v is not None]
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for s, v in points]
        best = (max if accuracy else min)(points, key=lambda p: p[1]) if points else None
        note = f": best validation {best[1]:.4f} after {best[0]} steps" if best else ""
        parts.append(text(WIDTH - RIGHT - 6, HEIGHT - BOTTOM - 18 * (len(curves) - number) if accuracy else TOP + 18 + 18 * number, label + note, "end", colour))
    with open(out, "w") as f:
        f.write("\n".join(parts + ["</svg>", ""]))


main()
