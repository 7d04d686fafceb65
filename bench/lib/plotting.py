# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, written as plain text. They are viewed in a browser and kept in git."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#888888", "#0b6e4f", "#21a179", "#8fd694", "#d1495b", "#edae49", "#00798c", "#30638e",
           "#7b2d8b", "#c06c84"]


class Picture:
    def __init__(self, width, height):
        self.size = (width, height)
        self.lines = []

    def text(self, x, y, text, anchor="start", size=12):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}">{escape(str(text))}</text>')

    def box(self, x, y, width, height, colour):
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                          f'height="{height:.1f}" fill="{colour}"/>')

    def line(self, points, colour, width=1):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def save(self, path):
        width, height = self.size
        with open(path, "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                       'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n')
            file.write("\n".join(self.lines))
            file.write("\n</svg>\n")


def legend(picture, names, x, y):
    for i, name in enumerate(names):
        picture.box(x, y + 18 * i - 9, 12, 12, COLOURS[i % len(COLOURS)])
        picture.text(x + 18, y + 18 * i + 1, name)


def bars(path, title, names, groups):
    """Draws a group of bars for each of @groups, a bar for each name; on a logarithmic scale."""
    low, high = 0, math.ceil(math.log10(max(max(values) for values in groups.values())))
    width, height, left, top, bottom = 1000, 420, 50, 40, 60
    legend_width = 45 + 7 * max(map(len, names))
    inner = width - left - legend_width
    picture = Picture(width, height)
    picture.text(left, 22, title, size=15)

    def y_of(value):
        share = (max(math.log10(value), low) - low) / (high - low)
        return height - bottom - share * (height - top - bottom)

    for power in range(low, high + 1):
        y = y_of(10 ** power)
        picture.line([(left, y), (left + inner, y)], "#dddddd")
        picture.text(left - 6, y + 4, f"{10 ** power:,}", "end", 10)
    step = inner / len(groups)
    for g, (group, values) in enumerate(groups.items()):
        bar = step * 0.85 / len(names)
        for i, value in enumerate(values):
            y = y_of(value)
            picture.box(left + g * step + i * bar, y, bar * 0.9, height - bottom - y,
                        COLOURS[i % len(COLOURS)])
        for i, words in enumerate(group.split(", ")):
            picture.text(left + (g + 0.43) * step, height - bottom + 16 + 14 * i, words, "middle", 11)
    legend(picture, names, width - legend_width + 10, top + 20)
    picture.save(path)


def curves(path, title, names, panels):
    """Draws a panel for each of @panels, with a curve for each name: lists of (label, value)."""
    columns = 3
    rows = math.ceil(len(panels) / columns)
    width, left, top, panel_height, panel_width = 1100, 20, 50, 230, 280
    picture = Picture(width, top + rows * (panel_height + 30) + 10)
    picture.text(left, 24, title, size=15)
    for p, (panel, by_name) in enumerate(panels.items()):
        x = left + 30 + (p % columns) * (panel_width + 10)
        y = top + (p // columns) * (panel_height + 30)
        high = max(value for points in by_name.values() for _, value in points) * 1.05
        picture.text(x, y - 4, panel, size=12)
        for share in (0, 0.5, 1):
            level = y + (panel_height - 30) * (1 - share)
            picture.line([(x, level), (x + panel_width - 50, level)], "#dddddd")
            picture.text(x - 4, level + 4, f"{high * share:.2f}", "end", 10)
        for i, name in enumerate(names):
            points = by_name.get(name)
            if not points:
                continue
            step = (panel_width - 60) / max(1, len(points) - 1)
            picture.line([(x + k * step, y + (panel_height - 30) * (1 - value / high))
                          for k, (_, value) in enumerate(points)], COLOURS[i % len(COLOURS)], 2)
        some = next(iter(by_name.values()))
        for k, (label, _) in enumerate(some):
            picture.text(x + k * (panel_width - 60) / max(1, len(some) - 1), y + panel_height - 14,
                         label, "middle", 10)
    legend(picture, names, width - 195, top + 10)
    picture.save(path)
