"""Draws the panels of the board as one SVG, without Grafana.

    python3 deploy/grafana/draw.py http://127.0.0.1:9090 -o board.svg [--seconds 600] [--run NAME]

It sends the queries of mfu.json to that Prometheus and lays the panels out as mfu.json says. Grafana draws other
colours, scales and legends. docs/pictures/board.svg was made with it.
"""

import argparse
import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from xml.sax.saxutils import escape

COLUMN, ROW, GAP = 50, 26, 8  # pixels: a unit of gridPos, and the space between panels
COLOURS = ["#3274d9", "#e0752d", "#299c46", "#a352cc", "#c4162a", "#0f9d9d", "#8f6f00", "#6d6d6d"]
TEXT, QUIET, LINE, PAPER, PAGE = "#24292e", "#6a737d", "#d8dee4", "#ffffff", "#f4f5f5"


def ask(server, path, **parameters):
    with urllib.request.urlopen(f"{server}/api/v1/{path}?" + urllib.parse.urlencode(parameters), timeout=30) as answer:
        return json.load(answer)["data"]["result"]


def words(value, unit):
    """A number in the panel's unit."""
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
    for limit, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {letter}"
    return f"{value:.3g}"


def round_up(value):
    """The next 1, 2, 2.5 or 5 times a power of ten, for the end of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def label(target, metric):
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: metric.get(found.group(1), ""), target["legendFormat"]).strip()


def text(x, y, words_, size=11, colour=TEXT, **more):
    rest = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{rest}>{escape(str(words_))}</text>'


class Panel:
    def __init__(self, panel):
        place = panel["gridPos"]
        self.x, self.y = place["x"] * COLUMN + GAP, place["y"] * ROW + GAP
        self.width, self.height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        self.title, self.kind, self.targets = panel["title"], panel["type"], panel["targets"]
        self.unit = panel["fieldConfig"]["defaults"]["unit"]

    def frame(self):
        return [
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="3" fill="{PAPER}"'
            f' stroke="{LINE}"/>',
            text(self.x + 10, self.y + 19, self.title, 12, font_weight="bold"),
        ]

    def latest(self, server, expression):
        """Draws a stat or a table: the newest values as text."""
        out = self.frame()
        found = [
            (label(target, each["metric"]), float(each["value"][1]))
            for target in self.targets
            for each in ask(server, "query", query=expression(target))
        ]
        if self.kind == "stat":
            for i, (name, value) in enumerate(found[:3]):
                middle = self.x + self.width / 2
                top = self.y + 80 + 62 * i
                out.append(text(middle, top, words(value, self.unit), 30, COLOURS[i], text_anchor="middle"))
                out.append(text(middle, top + 20, name, 11, QUIET, text_anchor="middle"))
            return out
        for i, (name, _) in enumerate(found[:8]):
            out.append(text(self.x + 10, self.y + 44 + 18 * i, name, 11, COLOURS[4]))
        if not found:
            out.append(text(self.x + 10, self.y + 44, "none is firing", 11, QUIET))
        return out

    def lines(self, server, expression, begin, end):
        out = self.frame()
        series = [
            (label(target, each["metric"]), [(float(at), float(value)) for at, value in each["values"]])
            for target in self.targets
            for each in ask(
                server, "query_range", query=expression(target), start=begin, end=end, step=max(1, (end - begin) / 240)
            )
        ]
        left, right = self.x + 58, self.x + self.width - 12
        top, bottom = self.y + 32, self.y + self.height - 42
        highest = round_up(max([value for _, points in series for _, value in points if value == value] or [0]))
        for part in (0, 0.5, 1):
            y = bottom - part * (bottom - top)
            out.append(f'<path d="M{left} {y:.1f}H{right}" stroke="{LINE}"/>')
            out.append(text(left - 6, y + 4, words(part * highest, self.unit), 10, QUIET, text_anchor="end"))
        for part, anchor in ((0, "start"), (1, "end")):
            clock = time.strftime("%H:%M:%S", time.gmtime(begin + part * (end - begin)))
            out.append(text(left + part * (right - left), bottom + 14, clock, 9, QUIET, text_anchor=anchor))
        x_legend = self.x + 10
        for i, (name, points) in enumerate(series):
            colour = COLOURS[i % len(COLOURS)]
            path = "".join(
                f"{'L' if j else 'M'}{left + (at - begin) / (end - begin) * (right - left):.1f}"
                f" {bottom - value / highest * (bottom - top):.1f}"
                for j, (at, value) in enumerate(points)
            )
            out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            if x_legend + 6 * len(name) + 20 < self.x + self.width:
                y = self.y + self.height - 16
                out.append(f'<rect x="{x_legend}" y="{y}" width="10" height="3" fill="{colour}"/>')
                out.append(text(x_legend + 14, y + 5, name, 10, QUIET))
                x_legend += 6 * len(name) + 28
        if not series:
            out.append(text((left + right) / 2, (top + bottom) / 2, "no data", 12, QUIET, text_anchor="middle"))
        return out


def draw(server, seconds, run):
    board = json.loads((Path(__file__).parent / "mfu.json").read_text())
    panels = [Panel(panel) for panel in board["panels"]]
    width = max(panel.x + panel.width for panel in panels) + GAP
    height = max(panel.y + panel.height for panel in panels) + GAP
    end = time.time()
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        ' font-family="sans-serif">',
        f"<title>{escape(board['title'])}: the panels of the board, drawn from Prometheus without Grafana</title>",
        f'<rect width="{width}" height="{height}" fill="{PAGE}"/>',
    ]
    for panel in panels:
        drawn = panel.lines if panel.kind == "timeseries" else panel.latest
        span = (end - seconds, end) if panel.kind == "timeseries" else ()
        out += drawn(server, lambda target: target["expr"].replace("$run", run), *span)
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", help="http://HOST:PORT of the Prometheus")
    parser.add_argument("-o", "--output", default="-", help="the SVG (default: standard output)")
    parser.add_argument("--seconds", type=float, default=600, help="how far back")
    parser.add_argument("--run", default=".*", help="which runs, as a regular expression")
    options = parser.parse_args()
    picture = draw(options.server.rstrip("/"), options.seconds, options.run)
    if options.output == "-":
        sys.stdout.write(picture)
    else:
        Path(options.output).write_text(picture)


if __name__ == "__main__":
    main()
